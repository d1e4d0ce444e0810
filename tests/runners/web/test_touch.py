"""Every page on a narrow touch screen: nothing overflows, and fingers hit what they aim at."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.runners.web.browsing import PATIENCE, RunningServer, act_and_wait, begin, needs_chromium, wait_until_settled
from tests.runners.web.test_browser import PAGES

pytestmark = [pytest.mark.extras, needs_chromium]

WIDTH = 320  # pixels of the narrowest telephones
SMALLEST, MAIN_CONTROL = 24, 44  # pixels
# A bar of the graph of values leads where its decision below leads, and is one of 33 on a line.
MEASURE = """([smallest, mainControl]) => {
    const targets = [...document.querySelectorAll("a[href], button, input, select, textarea, summary, [data-insert]")];
    const controls = ".button, select, input[type=text], input[type=number], textarea, .cell, .slot, nav a, summary";
    return targets
        .filter((target) => target.checkVisibility({visibilityProperty: true}))
        .filter((target) => !target.closest(".skip, .hidden, .value-graph, svg"))
        .map((target) => [target, target.getBoundingClientRect()])
        .filter(([target, {width, height}]) => {
            const least = target.matches(controls) ? mainControl : smallest;
            return width > 0 && Math.min(width, height) < least - 0.5;
        })
        .map(([target, {width, height}]) => [target.outerHTML.slice(0, 120), Math.round(width), Math.round(height)]);
}"""


@pytest.fixture
def telephone(browser: Any, running_server: RunningServer) -> Iterator[Any]:
    context = browser.new_context(
        base_url=running_server.home, viewport={"width": WIDTH, "height": 640}, has_touch=True, is_mobile=True
    )
    context.set_default_timeout(PATIENCE)
    yield context.new_page()
    context.close()


def check_page(page: Any, name: str) -> None:
    wait_until_settled(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= WIDTH, name
    page.evaluate("document.querySelectorAll('main details').forEach((details) => (details.open = true))")
    assert page.evaluate("document.documentElement.scrollWidth") <= WIDTH, f"{name}, opened"
    small = page.evaluate(MEASURE, [SMALLEST, MAIN_CONTROL])
    assert small == [], f"{name}: {json.dumps(small[:5], indent=1)}"


@pytest.mark.parametrize("path", PAGES)
def test_a_page_fits_a_narrow_touch_screen(telephone: Any, path: str) -> None:
    assert telephone.goto(path).status in (200, 404)
    check_page(telephone, path)


@pytest.mark.parametrize("width", [345, 375, 390, 414])
def test_the_pictures_of_attributes_fit_every_telephone(telephone: Any, width: int) -> None:
    """Check the widths at which a row takes one pair more: a page may fit narrower and wider screens only."""
    telephone.set_viewport_size({"width": width, "height": 640})
    telephone.goto("/play/how-to-play")
    assert telephone.evaluate("document.documentElement.scrollWidth") <= width


def test_a_game_fits_a_narrow_touch_screen(telephone: Any) -> None:
    begin(telephone, "dumb")
    check_page(telephone, "a game")
    telephone.get_by_role("button", name="Resign this game").tap()
    telephone.get_by_role("button", name="Rematch").wait_for()
    check_page(telephone, "a finished game")


def test_an_answer_fits_a_narrow_touch_screen(telephone: Any) -> None:
    telephone.goto("/ask?question=2")
    act_and_wait(telephone, telephone.get_by_role("button", name="Ask", exact=True).tap)
    telephone.locator("[data-sorts] tbody").wait_for()
    check_page(telephone, "an answer")


def test_a_long_name_fits_a_narrow_touch_screen(telephone: Any) -> None:
    telephone.goto("/play?agent=mcts(iterations=200)&name=" + 100 * "m")
    check_page(telephone, "a long name")
    telephone.goto("/browse/agent?agent=" + 300 * "m")
    check_page(telephone, "an unknown agent")
