"""Pages about runs for those who use other means: axe finds nothing, in light and dark, wide and narrow."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from analytics.store.archive import ArchiveStore
from analytics.store.run_notes import update_note
from tests.analytics.chosen_games import BY_GAMES
from tests.analytics.naive_games import build_spec, random_block, record, store
from tests.paths import SAMPLE
from tests.runners.web.browsing import ROUND_ROBIN, needs_chromium
from tests.runners.web.runs.training_runs import write_policy, write_run

if TYPE_CHECKING:
    from tests.runners.web.visiting import Visitor

pytestmark = [pytest.mark.extras, needs_chromium]

SINGLE_PAIRING_RUNS = ("d2a027fc112c", "2a6d3741319d", "a0a7dbeb5972")
TEST_PAIRING = [("rule_based", "random")]


def write_test_of_strength(archive: ArchiveStore) -> str:
    """Write a run of a test of strength that is not decided yet; return its id."""
    command = "qarena sprt rule_based random elo1=20"
    run = record(build_spec(pairings=TEST_PAIRING), games=200, command=command, status="interrupted")
    archive.write_run_and_unit_count(run)
    store(archive, run.run_id, [random_block(5, 0, 0, 96)], TEST_PAIRING)
    return run.run_id


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Visitor, dict[str, str]]]:
    """Open a site over the sample with trainings, policies, a test of strength, names and notes; yield its pages."""
    from tests.runners.web.visiting import visitor

    root = tmp_path_factory.mktemp("accessibility") / "games"
    shutil.copytree(SAMPLE, root)
    archive = ArchiveStore.open(root)
    trained = [write_run(archive, seed) for seed in (1, 2, 3)]
    for number, run_id in enumerate(trained):
        write_policy(archive, f"policy{number}", [run_id], BY_GAMES)
    update_note(archive, trained[0], "a name that is too long for a heading", "two\nlines")
    addresses = {
        "list of runs": "/browse?show=seed&show=note&show=parameter+faithful&show=games+a+second&sort=-games",
        "run": f"/browse/runs/{trained[0]}",
        "tournament": f"/browse/runs/{ROUND_ROBIN}",
        "test of strength": f"/browse/runs/{write_test_of_strength(archive)}",
        "comparison of trainings": "/browse/compare?" + "&".join(f"run={run_id}" for run_id in trained),
        "comparison": "/browse/compare?" + "&".join(f"run={run_id}" for run_id in SINGLE_PAIRING_RUNS),
        "comparison of one run": f"/browse/compare?run={ROUND_ROBIN}",
        "insights with learning curves": "/browse/insights",
        "policy": "/browse/policies/policy1",
        "agent of a training": "/browse/agent?agent=learner(training)",
    }
    with visitor(root) as guest:
        yield guest, addresses


@pytest.fixture(params=[("light", 1400), ("dark", 390)], ids=["light", "dark"])
def check(request: pytest.FixtureRequest, browser: Any, pages: tuple[Visitor, dict[str, str]]) -> Iterator[Any]:
    """Return a function that opens a page, does something there, and checks it."""
    from axe_playwright_python.sync_playwright import Axe

    from tests.runners.web.visiting import HOME

    guest, addresses = pages
    scheme, width = request.param
    context = browser.new_context(
        base_url=HOME, viewport={"width": width, "height": 844}, color_scheme=scheme, reduced_motion="reduce"
    )
    page = context.new_page()

    def answer(route: Any) -> None:
        response = guest.client.get(route.request.url.removeprefix(HOME))
        headers = {"content-type": response.headers.get("content-type", "text/html")}
        route.fulfill(status=response.status_code, headers=headers, body=response.content)

    def open_and_check(name: str, act: Callable[[Any], object] = lambda _: None) -> None:
        guest.ready(addresses[name])
        page.goto(addresses[name])
        act(page)
        violations = Axe().run(page).response["violations"]
        assert [(violation["id"], violation["nodes"][0]["html"]) for violation in violations] == [], name
        assert not page.evaluate("document.documentElement.scrollWidth > innerWidth"), name

    page.route("**/*", answer)
    yield open_and_check
    context.close()


def open_all_details(page: Any) -> None:
    page.evaluate("document.querySelectorAll('main details').forEach((details) => (details.open = true))")


def check_three_runs(page: Any) -> None:
    page.get_by_text("Columns", exact=True).click()
    for box in page.locator("input[name=run]").all()[:3]:
        box.check()


def test_no_page_about_runs_excludes_anybody(check: Any, pages: tuple[Visitor, dict[str, str]]) -> None:
    acts = {"list of runs": check_three_runs}
    for name in pages[1]:
        check(name, acts.get(name, open_all_details))
