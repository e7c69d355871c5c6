"""A headless Chromium for the whole session, and sites for it to open from file://."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.service import Service

from dpicl.leaderboards.cli.board import board
from dpicl.leaderboards.model.board import build_board
from dpicl.leaderboards.model.evidence import build_attacks
from dpicl.leaderboards.render import page
from dpicl.leaderboards.render.html import attacks_page, pages, suites_page
from tests.leaderboards.attack_factory import AUC, make_attack
from tests.leaderboards.factory import ends, make_result
from tests.leaderboards.site_factory import HOSTILE, full_board, submission


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    """The one browser, with an empty profile of its own; skips where Debian's chromium or its driver is missing."""
    driver, chromium = shutil.which("chromedriver"), shutil.which("chromium")
    if not driver or not chromium:
        pytest.skip(
            "chromium and chromedriver are not installed (Debian: chromium, chromium-driver)"
        )
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    profile = tmp_path_factory.mktemp("profile")
    for flag in (
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        f"--user-data-dir={profile}",
    ):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    options.set_capability(
        "unhandledPromptBehavior", "ignore"
    )  # a dialog stays open, so that a test sees it
    found = webdriver.Chrome(options=options, service=Service(executable_path=driver))
    found.set_page_load_timeout(60)
    yield found
    found.quit()


@pytest.fixture
def open_page(browser: webdriver.Chrome) -> Iterator[OpenPage]:
    """Opens a page at desktop width; fails when the page says anything on the console."""
    browser.get("about:blank")
    browser.get_log("browser")
    opener = OpenPage(browser)
    opener.width(1280)
    yield opener
    assert browser.get_log("browser") == []


class OpenPage:
    """Opens files in the browser; ``browser`` is the driver."""

    def __init__(self, browser: webdriver.Chrome) -> None:
        self.browser = browser

    def __call__(self, path: Path, state: str = "") -> webdriver.Chrome:
        self.browser.get("about:blank")  # else a new hash alone would not load the page again
        self.browser.get(path.as_uri() + state)
        return self.browser

    def width(self, pixels: int) -> None:
        """The width of the window's inside, also below what a window on a desktop may have."""
        size = {"width": pixels, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        self.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A site with two models, three tasks of two kinds, answers, and a submission."""
    results = []
    for task, metric in (
        ("agnews", "acc_calibrated"),
        ("trec", "acc_calibrated"),
        ("samsum", "rougeL"),
    ):
        more = {"task": task, "metric": metric}
        for seed in (0, 1):
            results += ends(seed=seed, **more)
            results += [
                make_result("tang", 0.65, seed=seed, **more),
                make_result("prism", 0.3, seed=seed, **more),
            ]
        results += [make_result("tang", 0.75, epsilon=8.0, seed=seed, **more) for seed in (0, 1)]
        results.append(
            make_result("esa", 0.55, queries=20, answers=[("test-1", "World")], seed=1, **more)
        )
    results += [*ends(model="hf:gpt2"), make_result("pta", 0.6, model="hf:gpt2")]
    folder = tmp_path_factory.mktemp("site with a space") / "below"
    files = pages(build_board(results, submissions=[submission()]))
    page.write({**files, "attacks/index.html": _attacks("plain")}, folder)
    return folder


@pytest.fixture(scope="session")
def committed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The first page of the site of all suites, with the run of record."""
    page = tmp_path_factory.mktemp("home") / "index.html"
    page.write_text(
        suites_page({"record": board("record", no_submissions=True).board}, []), "utf-8"
    )
    return page


def _attacks(text: str) -> str:
    """The page of all attacks, with as many measures as an attack may have."""
    measures = {**AUC, **{f"{text[:40]}{i}": AUC["auc"] for i in range(30)}}
    results = [
        make_attack(name, measures=measures, counts={text[:40]: 1}, notes=[text])
        for name in ("tang", "pta")
    ]
    return attacks_page(build_attacks(results), root="../")


@pytest.fixture(scope="session")
def hostile_site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A site in which a text with every break stands wherever a stranger may write."""
    folder = tmp_path_factory.mktemp("hostile")
    page.write(
        {**pages(full_board(HOSTILE[0])), "attacks/index.html": _attacks(HOSTILE[0])}, folder
    )
    return folder
