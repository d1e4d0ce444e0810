"""The page of insights: a picture for each question, filters that stay, and old addresses that still lead there."""

from __future__ import annotations

import html
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from analytics.report.page import INSIGHTS, Insight
from runners.web import insight_pages
from tests.paths import SAMPLE
from tests.runners.web.visiting import plain, visitor

if TYPE_CHECKING:
    from tests.runners.web.visiting import Visitor

pytestmark = pytest.mark.extras

ROUND_ROBIN = "8d1cb3670fa3"


def read_sections(text: str) -> dict[str, str]:
    """Map the slug of each question on the page to the HTML of its section."""
    return dict(re.findall(r'<section class="question[^"]*" id="(\w+)">(.*?)</section>', text, re.DOTALL))


def test_every_question_has_a_picture_and_folded_numbers(reader: Visitor) -> None:
    sections = read_sections(reader.ready("/browse/insights").text)
    assert [*sections] == [insight.slug for insight in INSIGHTS]
    for insight in INSIGHTS:
        assert insight.question in sections[insight.slug]
    for slug in ("lengths", "placements", "gifts"):
        assert sections[slug].count("<figure") == 1, slug
        assert f'<details id="numbers-{slug}"><summary>' in sections[slug]
    assert "no evaluations were stored" in plain(sections["evaluations"])
    assert "no policy was learned in these runs" in plain(sections["learning"])


@pytest.mark.parametrize("insight", INSIGHTS, ids=lambda insight: insight.slug)
def test_an_old_address_leads_to_its_place_on_the_page(reader: Visitor, insight: Insight) -> None:
    answer = reader.client.get(
        f"/browse/results/{insight.slug}?rules=square&trainings=no&agent=x", follow_redirects=False
    )
    assert answer.status_code == 301
    assert answer.headers["location"] == f"/browse/insights?rules=square&trainings=no#{insight.slug}"


def test_filters_stay_when_one_goes_on(reader: Visitor) -> None:
    page = reader.ready("/browse/insights?rules=classic&agent=dumb&trainings=no")
    links = {html.unescape(link) for link in re.findall(r'href="([^"]+)"', page.text)}
    assert links >= {
        "/browse?rules=classic&agent=dumb",
        "/browse/games?rules=classic&agent=dumb",
        "/browse/openings?rules=classic&agent=dumb",
        "/browse/results/crosstable?rules=classic&trainings=no",
        "/browse/results/ratings?rules=classic&trainings=no",
        "/browse/sweeps",
    }
    back = reader.ready("/browse/results/crosstable?rules=classic&trainings=no").text
    assert "/browse/insights?rules=classic&amp;trainings=no" in back


def test_the_pictures_are_about_the_agent_and_the_run_that_filters_name(reader: Visitor) -> None:
    page = reader.ready("/browse/insights", agent="dumb", run=ROUND_ROBIN)
    assert f"12,000 games of 1 run, run {ROUND_ROBIN} ; about dumb alone" in plain(page.text)
    sections = read_sections(page.text)
    rows = re.findall(r'<th scope="row">([^<]+)</th>', sections["lengths"] + sections["gifts"])
    assert {*rows} == {"classic, dumb"}
    assert 'name="agent" value="dumb"' in page.text
    wrong = reader.ready("/browse/insights", agent="dum")
    assert (wrong.status, wrong.line.startswith("agent 'dum' is not in these runs")) == (400, True)


def test_a_request_computes_no_further_picture_when_its_time_is_up(
    reader: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(insight_pages, "SECONDS", -1.0)
    path = "/browse/insights?rules=square&trainings=no"
    page = reader.get(path)
    assert page.refreshes
    assert [*read_sections(page.text)] == [insight.slug for insight in INSIGHTS]
    assert page.text.count("Counting …") == len(INSIGHTS) - 1


def test_a_damaged_file_is_named_and_its_run_is_left_out(tmp_path: Path) -> None:
    root = tmp_path / "sample"
    shutil.copytree(SAMPLE, root)
    plies = min((root / "plies" / f"run={ROUND_ROBIN}").iterdir())
    plies.write_bytes(plies.read_bytes()[:-100])
    with visitor(root) as guest:
        page = guest.ready("/browse/insights?rules=classic")
        sections = read_sections(page.text)
    assert page.status == 200
    assert page.line.startswith("Left out: ")
    assert plies.name in page.line
    assert all("<figure" in sections[slug] for slug in ("placements", "lengths"))
