"""Steps cost no request for each key, waits are shown, and a server that was away is asked again."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.paths import SAMPLE
from tests.runners.web.browsing import (
    PATIENCE,
    ROUND_ROBIN,
    act_and_wait,
    find_free_port,
    needs_chromium,
    serving,
    wait_until_settled,
)

pytestmark = [pytest.mark.extras, needs_chromium]

CLASSIC_LINE = "/analyse?line=C.d2.B.a3.4.c2.0.b3.F.d3.3.a2.8.b4.E.c1.1.a1.6.d4.9.a4&at=22"
OWN_PIECE_LINE = "/analyse?rules=own_piece&start=..../.123/..../....+-&line=0@a1.F@b1.8@a3.9@c4&at=2"
LINES = (f"/browse/games/{ROUND_ROBIN}/8", CLASSIC_LINE)

READ_BOARD = """() => {
    const all = (selector) => [...document.querySelectorAll(selector)];
    const picture = (tile) => tile.querySelector("use")?.getAttribute("href") ?? "";
    const held = (slot) => ["left", "hand", "board"].find((kind) => slot.classList.contains(kind));
    return {
        cells: all(".board:not(.still) .cell").map(picture),
        last: all(".board:not(.still) .cell").findIndex((cell) => cell.classList.contains("last")),
        tray: all(".tray .slot").map((slot) => [picture(slot), held(slot)]),
        step: all(".moves .move").findIndex((link) => link.ariaCurrent === "step"),
        bar: all(".value-graph a").findIndex((bar) => bar.classList.contains("now")),
    };
}"""
PRESS = """(keys) => {
    let before = "";
    for (const key of keys) {
        const options = {key, repeat: key === before, bubbles: true, cancelable: true};
        document.body.dispatchEvent(new KeyboardEvent("keydown", options));
        before = key;
    }
}"""
LEFT, RIGHT = "ArrowLeft", "ArrowRight"


def wait_until_followed(tab: Any) -> None:
    """Wait until the page of a position has followed its board."""
    tab.locator("main:not([data-stepping])").wait_for()


@pytest.mark.parametrize("path", LINES)
def test_two_hundred_steps_cost_one_request_and_none_after_the_key_is_released(tab: Any, path: str) -> None:
    tab.goto(path)
    wait_until_settled(tab)
    requests: list[str] = []
    tab.on("request", lambda request: requests.extend([request.url] if "/static/" not in request.url else []))
    steps = [key for key in 4 * (LEFT, RIGHT) for _ in range(25)]
    act_and_wait(tab, lambda: tab.evaluate(PRESS, [*steps, *(4 * [LEFT])]))
    tab.wait_for_timeout(500)
    assert set(requests) == {tab.url}  # perhaps again, while its last value is solved
    assert tab.evaluate(READ_BOARD)["step"] == tab.locator(".moves .move").count() - 5
    tab.wait_for_timeout(500)
    before = requests.copy()
    for keys in (4 * [RIGHT], 4 * [LEFT]):
        act_and_wait(tab, partial(tab.evaluate, PRESS, keys))
    tab.wait_for_timeout(500)
    assert tab.url in before
    assert tab.url not in requests[len(before) :]  # pages that were complete are kept


@pytest.mark.parametrize("path", [*LINES, OWN_PIECE_LINE])
def test_the_board_after_a_step_is_that_of_the_page_that_follows(tab: Any, path: str) -> None:
    tab.goto(path)
    wait_until_settled(tab)
    act_and_wait(tab, lambda: tab.keyboard.press("Home"))
    for _ in range(tab.locator(".moves .move").count()):
        drawn = tab.evaluate(f"(({PRESS})(['{RIGHT}']), ({READ_BOARD})())")
        wait_until_followed(tab)
        assert drawn == tab.evaluate(READ_BOARD)


def test_a_key_after_a_step_is_about_the_position_of_the_step(tab: Any) -> None:
    page, best = f"/browse/games/{ROUND_ROBIN}/8?at=", "a[data-key='.']"
    tab.goto(f"{page}19")
    wait_until_settled(tab)
    target = tab.locator(best).evaluate("link => link.href")
    tab.goto(f"{page}20")
    wait_until_settled(tab)
    assert tab.locator(best).evaluate("link => link.href") != target
    tab.evaluate(PRESS, [LEFT, "."])
    tab.wait_for_url(target)


def test_a_press_on_a_decision_or_its_bar_leads_there(tab: Any) -> None:
    tab.goto(CLASSIC_LINE)
    wait_until_settled(tab)
    for selector, position in ((".moves .move", 3), (".value-graph a", 7)):
        act_and_wait(tab, tab.locator(selector).nth(position - 1).click)
        assert f"at={position}" in tab.url
    act_and_wait(tab, tab.go_back)
    assert "at=3" in tab.url
    assert tab.locator(".moves [aria-current]").inner_text() == "B"


def test_a_wait_is_shown_until_the_page_comes(tab: Any) -> None:
    tab.goto("/puzzles/1")
    held: list[Any] = []

    def hold(route: Any) -> None:
        held.append(route)

    tab.route("**/puzzles/2", hold)
    tab.get_by_role("link", name="Next puzzle").click()
    tab.locator("main[aria-busy=true]").wait_for()
    tab.evaluate(PRESS, 20 * ["n"])  # a key that is held down is pressed once
    held.pop().continue_()
    tab.wait_for_url("**/puzzles/2")
    tab.locator("main:not([aria-busy])").wait_for()
    assert held == []


def test_a_whole_page_that_the_browser_loads_is_waited_for_visibly(tab: Any) -> None:
    tab.goto("/puzzles/1")
    tab.evaluate("dispatchEvent(new Event('beforeunload'))")
    tab.locator("main[aria-busy=true]").wait_for()
    tab.evaluate("dispatchEvent(new Event('pageshow'))")  # the page is shown again from the browser's cache
    tab.locator("main:not([aria-busy])").wait_for()


@pytest.fixture
def lonely(browser: Any) -> Iterator[Any]:
    """Open a browser window whose server is going to be away."""
    context = browser.new_context()
    context.set_default_timeout(PATIENCE)
    yield context
    context.close()


def test_a_press_on_a_server_that_dies_and_returns_is_not_lost(lonely: Any, tmp_path: Path) -> None:
    archive, port, tab, stepped = tmp_path / "games", find_free_port(), lonely.new_page(), lonely.new_page()
    shutil.copytree(SAMPLE, archive)
    home = f"http://127.0.0.1:{port}"
    with serving(archive, port):
        stepped.goto(f"{home}{CLASSIC_LINE}")
        wait_until_settled(stepped)
        tab.goto(f"{home}/play?agent=dumb")
        tab.get_by_role("button", name="Begin the game").click()
        tab.wait_for_url("**/play/game?**")
        wait_until_settled(tab)
    before = tab.url
    tab.get_by_role("button", name="a1, empty").click()
    tab.get_by_text("The server does not answer").wait_for()
    assert tab.locator("#notice").bounding_box()["y"] < 100
    stepped.keyboard.press("ArrowLeft")
    stepped.get_by_text("The server does not answer").wait_for()
    stepped.keyboard.press("ArrowLeft")  # the board still moves
    assert stepped.evaluate(READ_BOARD)["step"] == 19
    with serving(archive, port):
        tab.wait_for_url(lambda url: url != before)
        wait_until_settled(tab)
        assert tab.locator("#cell-a1 .piece").count() == 1
        assert tab.locator(".status .task").inner_text() == "Your turn: give a piece."
        assert not tab.locator("#notice").is_visible()
        stepped.wait_for_url("**at=20")
        assert not stepped.locator("#notice").is_visible()
