"""The page of an agent: its form, whom it beats, its openings with boards, and what a person's page leaves out."""

from __future__ import annotations

import html
import re
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pytest

from analytics import open_archive
from analytics.questions.columns import format_percent
from analytics.store.archive import ArchiveStore
from tests.analytics.naive_games import build_spec, pack_games, random_game, record, store
from tests.paths import SAMPLE
from tests.runners.places import read_html_tables
from tests.runners.web.visiting import plain, visitor

if TYPE_CHECKING:
    from tests.runners.web.visiting import Visitor

pytestmark = pytest.mark.extras

PERSON = "human:ada"


def read_sections(text: str) -> dict[str, str]:
    return dict(re.findall(r'<section class="question[^"]*" id="(\w+)">(.*?)</section>', text, re.DOTALL))


def write_lost_games(root: Path, dice: Random) -> Path:
    """Write an archive in which a person lost both of their games against an agent."""
    pairings = [("random", PERSON), (PERSON, "random")]
    archive = ArchiveStore.open(root, create=True)
    run = record(build_spec(pairings=pairings, seats="fixed"), games=1, status="complete")
    archive.write_run_and_unit_count(run)
    games = [random_game(dice, forfeits=0.0) for _ in range(40)]
    won_by_seat = [next(game for game in games if game["winner"] == seat) for seat in (0, 1)]
    blocks = [pack_games([game], pairing, swapped=False) for pairing, game in enumerate(won_by_seat)]
    store(archive, run.run_id, blocks, pairings)
    return root


def test_a_person_who_lost_every_game_is_told_so_and_is_no_opponent(tmp_path: Path) -> None:
    with visitor(write_lost_games(tmp_path / "games", Random(3))) as guest:
        page = guest.ready("/browse/agent", agent=PERSON)
        opponent = guest.ready("/browse/agent", agent="random")
    text = plain(page.text)
    assert page.status == 200
    assert "Lost every point of its 2 games under classic rules, so its Elo has no bound" in text
    assert "without a rank (a person)" in text
    assert "∞" not in text
    assert "Play it" not in text
    assert "Play it" in plain(opponent.text)


def test_the_page_shows_whom_the_agent_beats_and_its_form(reader: Visitor) -> None:
    page = reader.ready("/browse/agent?agent=random&rules=classic")
    sections = read_sections(page.text)
    assert [*sections] == ["form", "regret", "opponents", "openings"]  # no mistakes, because nothing is judged
    with open_archive(SAMPLE) as archive:
        form = archive.form(agent="random", rules="classic").frame
        pairings = archive.crosstable(agent="random", rules="classic").frame
    assert form.height > 1
    words = plain(sections["form"])
    for row in form.rows(named=True):
        assert f"{row['run_id']} " in words
        assert f" {format_percent(row['score'])} " in words
        assert f" {format_percent(row['expected'])}" in words
    rows = pairings.select("first", "score_low", "score_high").rows()
    own = [(low, high) if first == "random" else (1 - high, 1 - low) for first, low, high in rows]
    better, worse = (sum(low > 0.5 for low, _ in own), sum(high < 0.5 for _, high in own))
    counts = f"Better than {better} of {len(own)} opponents, worse than {worse}, not decided against"
    assert f"{counts} {len(own) - better - worse}" in plain(sections["opponents"])
    tinted = re.findall(r'<td class="number (?:better|worse)-\d">([\d.]+)', sections["opponents"])
    scores = [float(score) for score in tinted]
    assert scores == sorted(scores, reverse=True)
    assert len(scores) == len(own)


def test_openings_have_boards_and_folded_numbers(reader: Visitor) -> None:
    openings = read_sections(reader.ready("/browse/agent?agent=dumb").text)["openings"]
    titles = re.findall(r"<figcaption>(Best|Worst): ([\d.]+) %", openings)
    assert [kind for kind, _ in titles] == ["Best"] * 3 + ["Worst"] * 3
    scores = [float(score) for _, score in titles]
    assert scores == sorted(scores, reverse=True)
    assert openings.count("<figure") == 6
    assert '<details id="numbers-openings">' in openings


def test_headings_sort_the_tables_of_questions_and_a_sorted_one_is_open(reader: Visitor) -> None:
    page = reader.ready("/browse/agent?agent=random&rules=classic")
    assert "<details open" not in page.text
    for slug, heading in (("opponents", "opponent"), ("form", "games")):
        section = read_sections(page.text)[slug]
        (link,) = re.findall(rf'<a class="sort" data-quick href="([^"]+)">{heading}</a>', section)
        sorted_page = reader.ready(html.unescape(link))
        sections = read_sections(sorted_page.text)
        assert sorted_page.text.count(" aria-sort=") == sections[slug].count(" aria-sort=") == 1
        assert sorted_page.text.count('" open><summary>') == (
            slug == "form"
        )  # the numbers are folded, the opponents not
        (table,) = read_html_tables(sections[slug])
        values = [row[table.headings.index(heading)] for row in table.rows]
        by_size = sorted(values, key=lambda text: -int(text.replace(",", ""))) if slug == "form" else sorted(values)
        assert values == by_size
        assert len(values) > 1
