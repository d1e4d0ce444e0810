"""Wide tables fit their page at 1,400 pixels, and keep their first column in view on a telephone."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from analytics.report.sections.strength import MAX_CROSSTABLE_AGENTS
from analytics.store.archive import ArchiveStore
from tests.analytics.naive_games import build_spec, random_block, record, store
from tests.runners.web.browsing import needs_chromium
from tests.runners.web.visiting import HOME, visitor

if TYPE_CHECKING:
    from tests.runners.web.visiting import Visitor

pytestmark = [pytest.mark.extras, needs_chromium]

OVERFLOW = "(wide => wide.scrollWidth - wide.clientWidth)(document.querySelector('.wide'))"


def open_page(browser: Any, guest: Visitor, path: str, width: int) -> Any:
    """Open a page in a tab of this width, whose requests the visitor answers without a network."""
    guest.ready(path)
    page = browser.new_context(base_url=HOME, viewport={"width": width, "height": 900}).new_page()

    def answer(route: Any) -> None:
        response = guest.client.get(route.request.url.removeprefix(HOME))
        headers = {"content-type": response.headers.get("content-type", "text/html")}
        route.fulfill(status=response.status_code, headers=headers, body=response.content)

    page.route("**/*", answer)
    page.goto(path)
    return page


@pytest.fixture(scope="module")
def twenty_agents(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write an archive in which twenty agents with long labels met each other."""
    labels = [f"agent{number:02}(parameter=0.{number:02})" for number in range(MAX_CROSSTABLE_AGENTS)]
    pairings = [*combinations(labels, 2)]
    root = tmp_path_factory.mktemp("twenty") / "games"
    archive = ArchiveStore.open(root, create=True)
    run = record(build_spec(pairings=pairings), games=2)
    archive.write_run_and_unit_count(run)
    store(archive, run.run_id, [random_block(number, number, 0, 1) for number in range(len(pairings))], pairings)
    return root


def test_a_crosstable_of_twenty_agents_fits(browser: Any, twenty_agents: Path) -> None:
    with visitor(twenty_agents) as guest:
        page = open_page(browser, guest, "/browse/results/crosstable", 1400)
        assert page.locator("table.crosstable .rotated").count() == MAX_CROSSTABLE_AGENTS
        assert page.evaluate(OVERFLOW) == 0
        page.close()
        page = open_page(browser, guest, "/browse/results/crosstable", 390)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        right = page.evaluate("document.querySelector('.wide').getBoundingClientRect().right")
        headings = page.locator("table.crosstable thead th")
        boxes = [(heading.inner_text(), heading.bounding_box()) for heading in headings.all()]
        shown = [text for text, box in boxes if box["x"] + box["width"] <= right]
        assert shown == ["agent", "score", "win", "draw", "loss"]
        page.evaluate("document.querySelector('.wide').scrollLeft = 500")
        first = page.locator("table.crosstable tbody th").first.bounding_box()
        assert first["x"] == page.locator(".wide").first.bounding_box()["x"]
        page.close()


def test_openings_are_not_clipped(browser: Any, reader: Visitor) -> None:
    page = open_page(browser, reader, "/browse/openings?position=0.../..../..../.... F", 1400)
    assert page.evaluate(OVERFLOW) == 0
    page.close()


def test_the_buttons_of_the_first_page_are_one_line(browser: Any, reader: Visitor) -> None:
    page = open_page(browser, reader, "/", 1400)
    assert len({button.bounding_box()["y"] for button in page.locator(".buttons").first.locator("a").all()}) == 1
    page.close()


def test_runs_with_many_agents_fit(browser: Any, twenty_agents: Path) -> None:
    with visitor(twenty_agents) as guest:
        page = open_page(browser, guest, "/browse?show=seed&show=begun (UTC)", 1400)
        assert "agent00(parameter=0.00)" in page.locator("td.long").first.inner_text()
        assert page.evaluate(OVERFLOW) == 0
        page.close()


def test_paper_has_no_controls(browser: Any, twenty_agents: Path) -> None:
    with visitor(twenty_agents) as guest:
        page = open_page(browser, guest, "/browse", 1400)
        assert page.locator("tbody input").first.is_visible()
        page.emulate_media(media="print")
        for control in page.locator("nav, form button, input, select, summary").all():
            assert not control.is_visible()
        page.close()
