"""The site builds without a broken link, and fetches nothing from elsewhere."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from integration.browser import require_browser

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


@pytest.fixture(scope="module")
def driver():
    with require_browser().open() as opened:
        yield opened


@pytest.mark.slow
@pytest.mark.xdist_group("browser")
@pytest.mark.parametrize("width", [380, 1200])
def test_no_page_is_wider_than_the_screen_or_complains(site, driver, width):
    screen = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
    driver.get_log("browser")
    for page in sorted(set(site.rglob("*.html")) - {site / "404.html"}):  # that one needs a server
        driver.get(page.as_uri())
        wide = driver.execute_script("return document.documentElement.scrollWidth")
        assert wide <= width, page.name
    assert not [entry["message"] for entry in driver.get_log("browser")]


@pytest.mark.slow
@pytest.mark.xdist_group("browser")
def test_search_works_in_pages_opened_as_files(site, driver):
    from selenium.webdriver.common.by import By
    from selenium.webdriver.support.wait import WebDriverWait

    screen = {"width": 1200, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
    driver.get((site / "tutorials" / "table.html").as_uri())
    field = driver.find_element(By.CSS_SELECTOR, "input.md-search__input")
    field.click()
    field.send_keys("caliper")
    results = (By.CSS_SELECTOR, ".md-search-result__link")
    WebDriverWait(driver, 20).until(lambda found: len(found.find_elements(*results)) > 1)
