"""The site builds without a broken link, and fetches nothing from elsewhere."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1", "PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "-d", str(folder)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_every_page_of_the_documentation_is_on_the_site(site):
    for page in (ROOT / "docs").rglob("*.md"):
        made = site / page.relative_to(ROOT / "docs").with_suffix(".html")
        assert made.is_file(), f"{page.name} is not in the navigation"


def test_no_page_loads_a_script_a_style_or_a_font_from_elsewhere(site):
    for page in site.rglob("*.html"):
        text = page.read_text()
        loaded = re.findall(r"<(?:script|img|iframe)[^>]+src=\"([^\"]+)", text)
        loaded += re.findall(
            r"<link[^>]+rel=\"(?:stylesheet|preconnect)\"[^>]+href=\"([^\"]+)", text
        )
        assert not [address for address in loaded if address.startswith(("http", "//"))], page.name


def test_the_reference_shows_the_estimator(site):
    page = (site / "reference" / "balancer.html").read_text()
    assert "batch_sampler" in page
    assert "fit_resample" in page


def test_the_readme_is_a_landing_page():
    text = (ROOT / "README.md").read_text()
    assert len(text.split()) < 700
    for address in re.findall(r"!\[[^]]*\]\(([^)]+)\)", text):
        assert address.startswith("https://"), "pictures must show on the package index as well"
