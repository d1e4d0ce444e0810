import pytest

from analytics.results.pairings import Crosstable, PairingResult, crosstable, results
from analytics.statistics.intervals import wilson, win_rate
from analytics.statistics.tally import Tally
from analytics.store.archive import Archive
from quarto.errors import RequestError
from tests.analytics.naive_games import BLOCKS, PAIRINGS, RUN_ID, naive_rows, record, spec_of

COLUMNS = ("id", "pair", "pairing", "a0", "a1", "winner", "plies", "opening", "ending")


def test_results_are_what_the_rows_say(archive: Archive) -> None:
    games, plies = naive_rows(BLOCKS, PAIRINGS)
    for result in results(archive, RUN_ID):
        first, second = PAIRINGS[result.pairing]
        rows = [dict(zip(COLUMNS, row, strict=True)) for row in games]
        rows = [row for row in rows if row["pairing"] == result.pairing]
        points = [0 if row["winner"] == -1 else 1 if row[f"a{row['winner']}"] == first else -1 for row in rows]
        forfeits = [row[f"a{1 - row['winner']}"] for row in rows if row["ending"].startswith("forfeit")]
        assert (result.first, result.second) == (first, second)
        assert (result.losses, result.draws, result.wins) == tuple(map(points.count, (-1, 0, 1)))
        assert result.games == len(rows)
        assert result.forfeits == (forfeits.count(first), forfeits.count(second))
        assert result.mean_plies == sum(row[1] == result.pairing for row in plies) / len(rows)
        for seat in (0, 1):
            held = [point for point, row in zip(points, rows, strict=True) if row[f"a{seat}"] == first]
            assert result.in_seat(seat) == tuple(map(held.count, (-1, 0, 1)))
        assert result.win_rate == (points.count(1) / len(rows), *wilson(points.count(1), len(rows)))


def test_pairs_are_the_unit_where_openings_are_shared(archive: Archive) -> None:
    plain = results(archive, RUN_ID)
    archive.save_run(record(spec_of(opening_plies=2), run_id=RUN_ID))
    shared = results(archive, RUN_ID)
    assert not any(result.by_pairs for result in plain)
    assert all(result.by_pairs for result in shared)
    assert [result.win_rate for result in shared] == [win_rate(result.tally, by_pairs=True) for result in plain]
    assert [result.win_rate for result in shared] != [result.win_rate for result in plain]


def test_an_unknown_run_is_refused(archive: Archive) -> None:
    with pytest.raises(RequestError, match="run 'ffffffffffff' is not in archive"):
        results(archive, "ffffffffffff")


FIXED = ("agent", "score", "low", "high", "games", "wins", "draws", "losses", "forfeits")


def result(pairing: int, first: str, second: str, losses: int, draws: int, wins: int) -> PairingResult:
    pairs = ((losses, 0, 0), (0, draws, 0), (0, 0, wins))
    return PairingResult(pairing, first, second, Tally(pairs=pairs, illegal=(1, 2)), by_pairs=False)


def test_the_crosstable_sorts_by_score_and_shows_each_pairing_from_both_sides() -> None:
    table = crosstable([result(0, "a", "b", 1, 0, 3), result(1, "c", "a", 4, 0, 0), result(2, "b", "c", 1, 2, 1)])
    assert table.agents == ("a", "b", "c")
    best, middle, last = table.standings
    assert best.against == {"b": 0.75, "c": 1.0}
    assert (best.games, best.wins, best.losses, best.score.mean, best.forfeits) == (16, 14, 2, 14 / 16, 3)
    assert best.score.low < 14 / 16 < best.score.high
    assert (middle.draws, middle.score.mean) == (4, 6 / 16)
    assert last.against == {"a": 0.0, "b": 0.5}
    frame = table.frame()
    assert frame.columns == [*FIXED, "v a", "v b", "v c"]
    assert frame["v a"].to_list() == [None, 0.25, 0.0]


def test_games_against_oneself_do_not_count() -> None:
    alone = crosstable([result(0, "a", "a", 5, 0, 5)])
    assert alone.agents == ("a",)
    assert alone.standings[0].games == 0


def test_no_results_make_an_empty_crosstable() -> None:
    assert crosstable([]) == Crosstable(())
    assert crosstable([]).frame().is_empty()
