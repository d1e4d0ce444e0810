"""The named queries and their answers on the sample archive, row for row."""

from __future__ import annotations

from pathlib import Path

import pytest

from analytics import open_archive
from analytics.query.questions import names, query
from analytics.store.archive import Archive
from analytics.store.range_files import read_tallies
from quarto.errors import RequestError
from tests.paths import SAMPLE

ANSWERS = Path(__file__).parent / "answers"


@pytest.mark.parametrize("name", names())
def test_the_sample_answers_as_it_always_has(name: str) -> None:
    assert query(name).startswith("-- ")
    with open_archive(SAMPLE) as opened:
        found = opened.sql(query(name)).write_csv()
    assert found == (ANSWERS / f"{name}.csv").read_text(encoding="utf-8")


def test_the_answers_are_those_of_the_tallies() -> None:
    archive = Archive.open(SAMPLE)
    expected = {
        (record.run_id, pairing): tally
        for record in archive.runs()
        for pairing, tally in read_tallies(archive, record.run_id).items()
    }
    with open_archive(SAMPLE) as opened:
        counts = {row[:2]: row[4:] for row in opened.sql(query("pentanomial")).iter_rows()}
        games = {row[:2]: row[4:6] for row in opened.sql(query("pairings")).iter_rows()}
        pairs = opened.sql(query("pair_results"))
    assert counts == {key: tally.pentanomial for key, tally in expected.items()}
    assert games == {key: (tally.games, tally.plies) for key, tally in expected.items()}
    for run_id, pairing, a, b, number in pairs.iter_rows():
        assert expected[run_id, pairing].pairs[a][b] == number
    assert pairs["pairs"].sum() == sum(tally.pair_count for tally in expected.values())


def test_an_unknown_query_names_the_nearest() -> None:
    with pytest.raises(RequestError, match="did you mean 'win_rates'"):
        query("win_rate")
    with pytest.raises(RequestError):
        query("../schema")
