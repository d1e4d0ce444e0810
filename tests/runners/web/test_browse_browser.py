"""The pages about the archive in a real browser: filters, a replay by keys, the box for SQL, and accessibility."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.paths import SAMPLE

pytestmark = pytest.mark.extras

CHROMIUM = Path("/usr/bin/chromium")
ROUND_ROBIN, SWEEP = "8d1cb3670fa3", "fe6afc128298"
PAGES = (
    "/browse",
    f"/browse/runs/{ROUND_ROBIN}",
    "/browse/games",
    f"/browse/games/{ROUND_ROBIN}/8",
    "/browse/openings?position=0.../..../..../.... F",
    "/browse/openings",
    "/browse/results/crosstable",
    "/browse/results/ratings",
    "/browse/results/lengths",
    f"/browse/sweeps/{SWEEP}",
    "/browse/policies",
    "/ask?question=2&chart=bars",
)


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server over the sample archive."""
    import uvicorn

    from runners.browse.asking import Asking, AskLimits
    from runners.web.application import application
    from runners.web.ask.pages import QuestionService
    from runners.web.settings import ServerSettings
    from runners.web.start import listen

    archive = tmp_path_factory.mktemp("browser") / "sample"
    shutil.copytree(SAMPLE, archive)
    listening = listen("127.0.0.1", 0)
    port = listening.getsockname()[1]
    app = application(ServerSettings(archive, port=port))
    app.state.site.service(QuestionService).asking = Asking(archive, AskLimits(seconds=1.5))
    server = uvicorn.Server(uvicorn.Config(app, log_level="error"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    yield f"http://127.0.0.1:{port}"
    server.should_exit = True
    thread.join()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    if not CHROMIUM.exists():
        pytest.skip("chromium is not installed (apt install chromium)")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=str(CHROMIUM), args=["--no-sandbox"])
        yield found
        found.close()


@pytest.fixture
def tab(browser: Any, address: str) -> Iterator[Any]:
    """A new tab; a request to any other host fails the test."""
    context = browser.new_context(base_url=address, viewport={"width": 1200, "height": 900})
    foreign: list[str] = []
    context.on("request", lambda request: None if request.url.startswith(address) else foreign.append(request.url))
    page = context.new_page()
    page.set_default_timeout(60_000)
    yield page
    context.close()
    assert foreign == []


def settled(tab: Any, path: str) -> None:
    tab.goto(path)
    tab.wait_for_selector("main:not([data-refresh])")


def test_filters_change_the_explorer(tab: Any) -> None:
    tab.goto("/browse/openings?position=0.../..../..../.... F")
    tab.wait_for_selector("caption:has-text('Placements in')")
    before = tab.inner_text("section[aria-label='Filters and numbers'] caption")
    tab.click("summary:has-text('Position and filters')")
    tab.fill("input[name=agent]", "dumb")
    tab.click("button:has-text('Show')")
    tab.wait_for_url("**agent=dumb**")
    after = tab.inner_text("section[aria-label='Filters and numbers'] caption")
    assert before != after
    label = tab.get_attribute("[data-name=d4]", "aria-label")
    tab.focus("[data-name=c4]")
    tab.keyboard.press("ArrowRight")
    assert tab.evaluate("document.activeElement.dataset.name") == "d4"
    assert "Place on d4: " in label
    tab.keyboard.press("Enter")
    tab.wait_for_selector("h2:has-text('Give a piece')")
    assert "agent=dumb" in tab.url
    tab.go_back()
    tab.wait_for_selector("[data-name=d4]")
    assert "position=0" in tab.url


def test_a_logged_game_is_replayed_by_keys(tab: Any) -> None:
    settled(tab, f"/browse/games/{ROUND_ROBIN}/8?ply=0")
    tab.keyboard.press("ArrowRight")
    tab.wait_for_selector("text='1 of 14 plies'")
    assert tab.url.endswith("ply=1")
    tab.keyboard.press("n")
    tab.wait_for_url(lambda url: not url.endswith("ply=1"))
    mistake = tab.url
    tab.keyboard.press("n")
    tab.wait_for_url(lambda url: url != mistake)
    tab.keyboard.press("Shift+N")
    tab.wait_for_url(mistake)
    assert tab.locator("td.erred").count() == 5


def test_the_box_refuses_writes_files_and_what_runs_away(tab: Any) -> None:
    for question, complaint in {
        "DROP VIEW games": "only reads",
        "SELECT * FROM read_text('/etc/passwd')": "not allowed here",
        "SELECT count(*) FROM range(100000000) a, range(1000000) b WHERE hash(a.range) = b.range": "took longer than",
    }.items():
        tab.goto("/ask")
        tab.fill("textarea", question)
        tab.click("button:has-text('Ask')")
        tab.wait_for_selector(f"[role=alert]:has-text('{complaint}')")
        assert tab.input_value("textarea") == question
    tab.fill("textarea", "SELECT count(*) AS games FROM games")
    tab.click("button:has-text('Ask')")
    tab.wait_for_selector("td:has-text('16000'), th:has-text('16000')")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(browser: Any, address: str, scheme: str) -> None:
    from axe_playwright_python.sync_playwright import Axe

    context = browser.new_context(
        base_url=address, color_scheme=scheme, bypass_csp=True, viewport={"width": 390, "height": 900}
    )
    tab = context.new_page()
    tab.set_default_timeout(60_000)
    for path in PAGES:
        settled(tab, path)
        assert tab.evaluate("document.documentElement.scrollWidth") <= 390, path
        found = Axe().run(tab).response["violations"]
        serious = [each for each in found if each["impact"] in ("serious", "critical")]
        shown = [(each["id"], [node["html"][:120] for node in each["nodes"][:3]]) for each in serious]
        assert shown == [], path
    context.close()
