"""The report as a browser shows it: no message on its console, every section there, readable light, dark and narrow.

Needs ``chromium`` and ``chromedriver``; not part of the default tests, `.ci/run` installs both and runs it.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator

import pytest
from selenium import webdriver
from selenium.webdriver.common.by import By

from rlscaling import datasets, make_report

SECTIONS = ["verdicts", "comparison", "runs", "refused", "method"]
READABLE = 4.5  # contrast of text and paper [WCAG 2.2, 1.4.3]


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    demo = datasets.load_demo()
    runs = {name: demo[name] for name in ("scalerl", "batch-2048")} | {"three": demo["scalerl"].up_to(500)}
    return make_report(runs, rng=0).write(tmp_path_factory.mktemp("report") / "report.html").as_uri()


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    for argument in (
        "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
        "--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage",
        f"--user-data-dir={tmp_path_factory.mktemp('profile')}",
    ):  # fmt: skip
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    service = webdriver.ChromeService(shutil.which("chromedriver") or "chromedriver")
    driver = webdriver.Chrome(options, service)
    yield driver
    driver.quit()


def colours(browser: webdriver.Chrome, scheme: str) -> tuple[tuple[int, ...], list[tuple[str, tuple[int, ...]]]]:
    """Return the colour of the paper and those of all text, with its tag."""
    media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
    paper, found = browser.execute_script(
        """
        const seen = [];
        for (const e of document.querySelectorAll('h1,h2,h3,h4,p,th,td,dt,dd,a,svg text')) {
            const style = getComputedStyle(e);
            seen.push([e.tagName, e.namespaceURI.endsWith('svg') ? style.fill : style.color]);
        }
        return [getComputedStyle(document.body).backgroundColor, seen];
        """
    )
    return rgb(paper), [(tag, rgb(colour)) for tag, colour in found]


def rgb(text: str) -> tuple[int, ...]:
    return tuple(int(n) for n in re.findall(r"\d+", text)[:3])


def contrast(a: tuple[int, ...], b: tuple[int, ...]) -> float:
    def luminance(colour: tuple[int, ...]) -> float:
        parts = [c / 255 for c in colour]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    high, low = sorted((luminance(a), luminance(b)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_the_console_is_silent_and_nothing_is_fetched(browser: webdriver.Chrome, page: str) -> None:
    browser.get(page)
    assert browser.get_log("browser") == []
    asked = [entry["message"] for entry in browser.get_log("performance") if "requestWillBeSent" in entry["message"]]
    urls = [re.search(r'"url":"([^"]+)"', message) for message in asked]
    assert [url[1] for url in urls if url and url[1].startswith("http")] == []


def test_every_section_and_picture_is_shown(browser: webdriver.Chrome, page: str) -> None:
    browser.get(page)
    shown = [one for one in browser.find_elements(By.CSS_SELECTOR, "section") if one.is_displayed()]
    assert [one.get_attribute("id") for one in shown] == SECTIONS
    assert all(one.text.strip() for one in shown)
    pictures = browser.find_elements(By.CSS_SELECTOR, "section > svg, article > svg")
    assert len(pictures) == 5
    assert all(one.rect["width"] > 400 and one.rect["height"] > 200 for one in pictures)
    for link in browser.find_elements(By.CSS_SELECTOR, "nav a"):
        target = (link.get_attribute("href") or "").rpartition("#")[2]
        assert browser.find_element(By.ID, target).is_displayed()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_can_be_read(browser: webdriver.Chrome, page: str, scheme: str) -> None:
    browser.get(page)
    paper, found = colours(browser, scheme)
    assert (sum(paper) > 600) is (scheme == "light")
    plain = [(tag, colour) for tag, colour in found if tag != "text"]
    faint = {(tag, colour) for tag, colour in plain if contrast(colour, paper) < READABLE}
    assert faint == set()
    assert {colour for tag, colour in found if tag == "text" and contrast(colour, paper) < 2.0} == set()


def test_a_narrow_screen_scrolls_tables_and_not_the_page(browser: webdriver.Chrome, page: str) -> None:
    browser.set_window_size(500, 900)
    browser.get(page)
    width, inner = browser.execute_script("return [document.documentElement.scrollWidth, window.innerWidth]")
    assert width <= inner
    browser.set_window_size(1200, 900)


def test_it_prints(browser: webdriver.Chrome, page: str) -> None:
    browser.get(page)
    assert len(browser.print_page()) > 50_000
