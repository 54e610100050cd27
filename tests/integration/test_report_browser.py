"""The report page in a real browser. Screenshots are kept in tests/output/report/."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from equipoise.report import open_target, write_report
from integration.browser import require_browser
from report.subjects import HOSTILE, LONG, fit_pictures, fit_table, train_tiny

pytestmark = pytest.mark.xdist_group("browser")

OUTPUT = Path(__file__).parents[1] / "output" / "report"
KINDS = ("pictures", "table", "run")
DESKTOP, PHONE = 1200, 380


@pytest.fixture(scope="module")
def driver():
    with require_browser().open() as opened:
        yield opened


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """A page of each kind, with names that would break a careless one."""
    folder = tmp_path_factory.mktemp("pages")
    data = train_tiny(folder / "run")
    target = open_target(folder / "run", data)
    write_report(folder / "run.html", target.balancer, target.examples, run=target.run)
    write_report(folder / "table.html", fit_table(), title=HOSTILE)
    write_report(folder / "pictures.html", fit_pictures())
    return {kind: folder / f"{kind}.html" for kind in KINDS}


def show(driver, page: Path, *, width: int = DESKTOP, scheme: str = "light", media: str = ""):
    """Load a page as on a screen of that width, with the system set to light or dark."""
    feature = [
        {"name": "prefers-color-scheme", "value": scheme},
        {"name": "prefers-reduced-motion", "value": "reduce"},  # what is clicked stands still
    ]
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": media, "features": feature})
    screen = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width == PHONE}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
    driver.get_log("performance"), driver.get_log("browser")
    driver.get(page.as_uri())


def keep(name: str, content: str) -> None:
    """Write what the browser gave to a folder that no commit takes in."""
    OUTPUT.mkdir(parents=True, exist_ok=True)
    (OUTPUT.parent / ".gitignore").write_text("*\n")
    (OUTPUT / name).write_bytes(base64.b64decode(content))


def keep_screenshot(driver, name: str) -> None:
    """The whole page, from top to bottom, as a file to look at."""
    size = driver.execute_script(
        "return [document.documentElement.clientWidth, document.documentElement.scrollHeight]"
    )
    clip = {"x": 0, "y": 0, "width": size[0], "height": size[1], "scale": 1}
    taken = driver.execute_cdp_cmd(
        "Page.captureScreenshot", {"captureBeyondViewport": True, "clip": clip}
    )
    keep(f"{name}.png", taken["data"])


def requested(driver) -> list[str]:
    """Every address that the page asked for since it was shown."""
    events = [json.loads(entry["message"])["message"] for entry in driver.get_log("performance")]
    return [
        event["params"]["request"]["url"]
        for event in events
        if event["method"] == "Network.requestWillBeSent"
    ]


def background(driver) -> tuple[int, ...]:
    color = driver.execute_script("return getComputedStyle(document.body).backgroundColor")
    return tuple(int(part) for part in color.strip("rgba()").split(",")[:3])


def detail(driver) -> str:
    return driver.find_element("id", "gallery-detail").text


@pytest.mark.parametrize("width", [DESKTOP, PHONE])
@pytest.mark.parametrize("kind", KINDS)
def test_it_loads_in_silence_asks_nobody_and_fits_the_screen(driver, pages, kind, width):
    show(driver, pages[kind], width=width)
    keep_screenshot(driver, f"{kind}-{width}-light")
    said = [entry["message"] for entry in driver.get_log("browser")]
    assert said == []
    asked = requested(driver)
    assert asked.count(pages[kind].as_uri()) == 1
    others = [url for url in asked if url != pages[kind].as_uri()]
    assert {urlsplit(url).scheme for url in others} <= {"data"}
    wide, seen = driver.execute_script(
        "return [document.documentElement.scrollWidth, document.documentElement.clientWidth]"
    )
    assert wide <= seen


@pytest.mark.parametrize("kind", KINDS)
def test_a_click_on_an_anchor_shows_its_matches(driver, pages, kind):
    show(driver, pages[kind])
    anchors = driver.find_elements("css selector", ".anchor")
    content = driver.execute_script(
        "return JSON.parse(document.getElementById('gallery-data').textContent)"
    )
    assert len(anchors) == len(content["anchors"]) > 10
    assert f"example {content['anchors'][0]['i']} " in detail(driver)
    chosen = len(anchors) - 2
    driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", anchors[chosen])
    anchors[chosen].click()
    anchor = content["anchors"][chosen]
    told = detail(driver)
    assert f"example {anchor['i']} " in told
    assert anchors[chosen].get_attribute("aria-pressed") == "true"
    assert anchors[0].get_attribute("aria-pressed") == "false"
    rows = ".strip figure" if kind == "pictures" else ".values tbody tr:not(.anchor-row)"
    shown = driver.find_elements("css selector", f"#gallery-detail {rows}")
    assert len(shown) == len(anchor["m"]) > 0
    for _, label, _ in anchor["m"]:
        name = content["labels"][label]
        texts = driver.execute_script(
            "return document.getElementById('gallery-detail').textContent"
        )
        assert name in texts
    if kind == "pictures":
        loaded = (
            "return [...document.querySelectorAll('#gallery-detail img')].map(i => i.naturalWidth)"
        )
        assert set(driver.execute_script(loaded)) == {8}


def test_the_gallery_answers_to_the_keyboard(driver, pages):
    from selenium.webdriver.common.keys import Keys

    show(driver, pages["pictures"])
    anchors = driver.find_elements("css selector", ".anchor")
    first = detail(driver)
    driver.execute_script("arguments[0].focus()", anchors[0])
    driver.switch_to.active_element.send_keys(Keys.ARROW_RIGHT)
    assert driver.switch_to.active_element == anchors[1]
    assert detail(driver) != first
    driver.switch_to.active_element.send_keys(Keys.HOME)
    assert detail(driver) == first
    driver.switch_to.active_element.send_keys(Keys.ARROW_LEFT)
    assert driver.switch_to.active_element == anchors[-1]


@pytest.mark.parametrize("kind", ["pictures", "table"])
def test_a_script_tag_as_a_name_stays_text(driver, pages, kind):
    show(driver, pages[kind])
    for anchor in driver.find_elements("css selector", ".anchor")[::5]:
        driver.execute_script("arguments[0].click()", anchor)
    assert driver.execute_script("return window.hacked === undefined")
    assert driver.execute_script("return document.querySelectorAll('img[src=x]').length") == 0
    text = driver.execute_script("return document.body.textContent")
    assert HOSTILE in text
    assert LONG in text
    if kind == "table":
        assert driver.title == HOSTILE
        assert driver.find_element("tag name", "h1").text == HOSTILE


@pytest.mark.parametrize("kind", KINDS)
def test_it_is_dark_where_the_system_is_and_turns_on_a_click(driver, pages, kind):
    show(driver, pages[kind], scheme="dark")
    assert max(background(driver)) < 60
    keep_screenshot(driver, f"{kind}-{DESKTOP}-dark")
    driver.find_element("css selector", ".theme").click()
    assert min(background(driver)) > 200
    driver.find_element("css selector", ".theme").click()
    assert max(background(driver)) < 60


def test_the_phone_shows_it_dark_too(driver, pages):
    show(driver, pages["pictures"], width=PHONE, scheme="dark")
    assert max(background(driver)) < 60
    keep_screenshot(driver, f"pictures-{PHONE}-dark")


@pytest.mark.parametrize("kind", KINDS)
def test_it_prints_on_white_paper(driver, pages, kind):
    show(driver, pages[kind], scheme="dark", media="print")
    driver.execute_script("document.documentElement.dataset.theme = 'dark'")
    assert min(background(driver)) > 200
    printed = driver.execute_cdp_cmd("Page.printToPDF", {"printBackground": True})
    assert base64.b64decode(printed["data"]).startswith(b"%PDF")
    keep(f"{kind}.pdf", printed["data"])


def test_an_environment_can_be_chosen(driver, pages):
    show(driver, pages["pictures"])
    choice = driver.find_element("css selector", "#balance .choice")
    buttons = choice.find_elements("tag name", "button")
    assert [button.text for button in buttons] == ["all environments", "day", "night"]
    panels = [driver.find_element("id", button.get_attribute("data-panel")) for button in buttons]
    assert [panel.is_displayed() for panel in panels] == [True, False, False]
    buttons[2].click()
    assert [panel.is_displayed() for panel in panels] == [False, False, True]
    assert buttons[2].get_attribute("aria-pressed") == "true"
