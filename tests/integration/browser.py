"""A real browser for tests: found, or installed where that can be done without asking."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from equipoise.files import hold_lock

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
QUIET = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)


@dataclass(frozen=True)
class Browser:
    """Where browser and driver are."""

    program: str
    driver: str

    @classmethod
    def find(cls) -> Browser | None:
        program = next(filter(None, map(shutil.which, BROWSERS)), None)
        driver = shutil.which("chromedriver")
        return cls(program, driver) if program and driver else None

    @contextmanager
    def open(self) -> Iterator:
        """A fresh browser that logs what its pages say and ask for."""
        from selenium import webdriver
        from selenium.webdriver.chrome.service import Service

        options = webdriver.ChromeOptions()
        options.binary_location = self.program
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
            for argument in (*QUIET, f"--user-data-dir={profile}"):
                options.add_argument(argument)
            driver = webdriver.Chrome(options=options, service=Service(self.driver))
            try:
                yield driver
            finally:
                driver.quit()


def require_browser() -> Browser:
    """A browser and its driver; without them the test is skipped, with a loud notice."""
    pytest.importorskip("selenium")
    found = Browser.find()
    if found is None:
        # Of several test processes one installs, the others wait for it.
        with hold_lock(Path(tempfile.gettempdir()) / "equipoise-browser.lock", on_wait=_wait):
            found = Browser.find() or _install()
    if found is None:
        notice = "NO BROWSER: the report page was NOT tested; install chromium and its driver"
        warnings.warn(notice, stacklevel=2)
        pytest.skip(notice)
    return found


def _wait() -> None:
    """Another process installs it."""


def _install() -> Browser | None:
    if shutil.which("apt-get") is None:
        return None
    prefix = [] if os.geteuid() == 0 else ["sudo", "-n"]
    if prefix and (shutil.which("sudo") is None or not _runs([*prefix, "true"])):
        return None
    packages = ("chromium", "chromium-driver")
    install = [*prefix, "apt-get", "install", "-y", "--no-install-recommends", *packages]
    if not _runs(install):
        _runs([*prefix, "apt-get", "update"])
        _runs(install)
    return Browser.find()


def _runs(command: list[str]) -> bool:
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    try:
        done = subprocess.run(
            command, capture_output=True, timeout=600, env=environment, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0
