"""The questions that ship: the named ones answer on the sample archive as ever, the cookbook has those of the page."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from analytics import open_archive
from analytics.questions.cookbook import list_query_names, read_cookbook, read_query
from analytics.questions.sql.database import OpenArchive
from analytics.store.archive import ArchiveStore
from analytics.store.range_files import read_tallies
from quarto.errors import RequestError
from tests.paths import ROOT, SAMPLE

ANSWERS = Path(__file__).parent / "answers"


@pytest.fixture(scope="module")
def sample() -> Iterator[OpenArchive]:
    with open_archive(SAMPLE) as opened:
        yield opened


@pytest.mark.parametrize("name", list_query_names())
def test_the_sample_answers_as_it_always_has(sample: OpenArchive, name: str) -> None:
    assert read_query(name).startswith("-- ")
    assert sample.sql(read_query(name)).write_csv() == (ANSWERS / f"{name}.csv").read_text(encoding="utf-8")


def test_the_answers_are_those_of_the_tallies(sample: OpenArchive) -> None:
    archive = ArchiveStore.open(SAMPLE)
    expected = {
        (record.run_id, pairing): tally
        for record in archive.load_runs()
        for pairing, tally in read_tallies(archive, [record.run_id])[record.run_id].items()
    }
    counts = {row[:2]: row[4:] for row in sample.sql(read_query("pentanomial")).iter_rows()}
    games = {row[:2]: row[4:6] for row in sample.sql(read_query("pairings")).iter_rows()}
    pairs = sample.sql(read_query("pair_results"))
    assert counts == {key: tally.pentanomial for key, tally in expected.items()}
    assert games == {key: (tally.games, tally.plies) for key, tally in expected.items()}
    for run_id, pairing, a, b, number in pairs.iter_rows():
        assert expected[run_id, pairing].pairs[a][b] == number
    assert pairs["pairs"].sum() == sum(tally.pair_count for tally in expected.values())


def test_an_unknown_query_names_the_nearest() -> None:
    with pytest.raises(RequestError, match="did you mean 'win_rates'"):
        read_query("win_rate")
    with pytest.raises(RequestError):
        read_query("../schema")


def test_all_forty_questions_are_there_with_their_sql() -> None:
    page = (ROOT / "docs" / "cookbook.md").read_text(encoding="utf-8")
    found = read_cookbook()
    assert [each.number for each in found] == list(range(1, 41))
    assert [each.sql for each in found] == re.findall(r"```sql\n(.*?)\n```", page, re.DOTALL)
    assert all(f"### {each.number}. {each.title}\n" in page and "\n" not in each.title for each in found)
    assert found[0].note.startswith("The score counts a draw as half a win. `low` and `high` are")
    assert found[1].note == ""
    assert list(dict.fromkeys(each.section for each in found)) == [
        "Results",
        "Plies",
        "Boards",
        "Openings and positions",
        "Exact values, agents and policies",
        "Tactics",
    ]
