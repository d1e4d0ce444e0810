"""Head-to-head results: from tallies, from SQL, and counted game by game in plain Python."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from msgspec import structs

from analytics import open_archive
from analytics.questions.head_to_head import (
    HeadToHead,
    compute_head_to_head,
    count_game_results,
    load_tally_results,
    split_by_seat,
)
from analytics.questions.selection import GameFilter
from analytics.questions.sql.database import OpenArchive
from analytics.statistics.tally import Tally
from analytics.store.archive import ArchiveStore
from analytics.store.records import RunRecord
from quarto.errors import FailureError, RequestError
from quarto.rules import CLASSIC, Rules
from tests.analytics.conftest import write_filled_archive
from tests.analytics.folders import copy_archive
from tests.analytics.naive_games import (
    PAIRINGS,
    RUN_ID,
    Pairings,
    build_spec,
    random_block,
    record,
    single_games,
    store,
)
from tests.marks import seldom

SQUARE = Rules("square", squares="plain")
TURNED = [(second, first) for first, second in PAIRINGS]  # the same agents, named the other way round


def add(
    archive: ArchiveStore, run: RunRecord, seed: int, pairings: Pairings = PAIRINGS, rules: Rules = CLASSIC
) -> None:
    """Add a run with random games of each of its pairings."""
    archive.write_run_and_unit_count(run)
    games = range(len(pairings))
    swapped = [random_block(seed, number, 0, rules=rules) for number in games]
    store(archive, run.run_id, swapped if run.swapped else [single_games(seed, n, 0) for n in games], pairings)


@pytest.fixture(scope="module")
def several(tmp_path_factory: pytest.TempPathFactory) -> ArchiveStore:
    """Write the archive of ``conftest``, with more runs. No test changes it.

    The runs have imposed openings and the agents swapped, fixed seats, and self-play.
    """
    archive = write_filled_archive(tmp_path_factory.mktemp("several") / "archive")
    add(archive, record(build_spec(seed=8, pairings=TURNED, opening_plies=2)), 2, TURNED)
    add(archive, record(build_spec(seed=9, seats="fixed")), 3)
    alone = [("random", "random")]
    add(archive, record(build_spec(seed=10, pairings=alone)), 4, alone)
    return archive


@pytest.fixture(scope="module")
def opened(several: ArchiveStore) -> Iterator[OpenArchive]:
    """Open ``several`` once."""
    with open_archive(several.root) as opened:
        yield opened


@pytest.fixture
def copy(several: ArchiveStore, tmp_path: Path) -> ArchiveStore:
    """Copy ``several``, for a test that changes the archive."""
    return copy_archive(several, tmp_path / "copy")


def naive(opened: OpenArchive, where: str) -> dict[tuple[str, str], Counter[str]]:
    """Count pairs by the results of both games, by two labels in their order.

    A result is given as ``seat of the first agent, result``.
    """
    games = opened.sql(f"SELECT run_id, pair_id, game_id, agent_0, agent_1, winner FROM games WHERE {where}").to_dicts()
    pairs: dict[tuple[str, int], list[dict[str, object]]] = {}
    for game in games:
        pairs.setdefault((game["run_id"], game["pair_id"]), []).append(game)
    counts: dict[tuple[str, str], Counter[str]] = {}
    for both in pairs.values():
        one, two = sorted((str(both[0]["agent_0"]), str(both[0]["agent_1"])))
        results = []
        for game in both:
            itself = game["agent_0"] == game["agent_1"]
            seat = (int(str(game["game_id"])) & 1) if itself else (0 if game["agent_0"] == one else 1)
            result = "draw" if game["winner"] == -1 else "win" if game["winner"] == seat else "loss"
            results.append(f"{seat} {result}")
        counts.setdefault((one, two), Counter())[", ".join(sorted(results))] += 1
    return counts


def as_naive(head_to_head: HeadToHead) -> dict[tuple[str, str], Counter[str]]:
    """Convert tallies to the form of ``naive``."""
    names, counts_by_agents = ("loss", "draw", "win"), {}
    for result in head_to_head.results:
        is_swapped = result.first > result.second
        tally = result.tally.with_agents_swapped if is_swapped else result.tally
        counts: Counter[str] = Counter()
        for a in range(3):
            for b in range(3):
                counts[f"0 {names[a]}, 1 {names[b]}"] += tally.pairs[a][b]
            for seat in (0, 1):
                counts[f"{seat} {names[a]}"] += tally.singles[seat][a]
        counts_by_agents[(result.second, result.first) if is_swapped else (result.first, result.second)] = +counts
    return counts_by_agents


def test_tallies_and_sql_say_the_same_of_every_pairing(several: ArchiveStore, opened: OpenArchive) -> None:
    tallies = load_tally_results(opened, several.load_runs())
    assert tallies == count_game_results(opened, "true", several.load_runs())
    assert all(sum(result.tally.illegal[i] for result in tallies.values()) > 0 for i in (0, 1))
    assert all(sum(result.tally.errors[i] for result in tallies.values()) > 0 for i in (0, 1))


@pytest.mark.parametrize(
    "where", ["true", "game_id % 3 = 1", *seldom("winner <> 0", "agent_0 = 'random'", "plies % 2 = 0")]
)
def test_pairs_are_those_that_a_count_game_by_game_finds(opened: OpenArchive, where: str) -> None:
    head_to_head = compute_head_to_head(opened, GameFilter(where))
    assert as_naive(head_to_head) == naive(opened, where)
    assert head_to_head.games == opened.sql(f"SELECT count(*) FROM games WHERE {where}").item()


def test_a_pair_of_which_one_game_was_chosen_is_a_game_that_comes_alone(opened: OpenArchive) -> None:
    head_to_head = compute_head_to_head(opened, GameFilter("agent_0 = 'random' AND agent_1 <> 'random'"))
    for result in head_to_head.results:
        assert result.tally.pairs == Tally().pairs
        assert sum(map(sum, result.tally.singles)) == result.games > 0
        assert result.score.low <= result.score.mean <= result.score.high < 1


def test_the_pair_is_the_unit_as_soon_as_openings_were_imposed_in_one_run(
    several: ArchiveStore, opened: OpenArchive
) -> None:
    (first, *_) = compute_head_to_head(opened).results
    (alone, *_) = compute_head_to_head(opened, GameFilter(runs=(several.load_runs()[0].run_id,))).results
    assert first.by_pairs != alone.by_pairs
    assert (first.first, first.second) == (alone.first, alone.second)


def test_seats_are_told_apart(opened: OpenArchive) -> None:
    met = compute_head_to_head(opened)
    apart = split_by_seat(met.results)
    for seat, result in apart:
        here, there = f"agent_{seat}", f"agent_{1 - seat}"
        if result.first != result.second:
            won, games = opened.sql(
                f"SELECT count(*) FILTER (winner = {seat}), count(*) FROM games "
                f"WHERE {here} = '{result.first}' AND {there} = '{result.second}'"
            ).row(0)
            assert (result.wins, result.games) == (won, games)
    assert sum(result.games for _, result in apart) == met.games
    frame = met.to_frame(by_seat=True)
    assert frame["seat"].to_list() == [seat for seat, _ in apart]
    assert frame["games"].sum() == met.games


def test_the_frame_has_a_row_for_every_two_that_met(opened: OpenArchive) -> None:
    met = compute_head_to_head(opened)
    frame = met.to_frame()
    assert frame.select("first", "second").rows() == [(result.first, result.second) for result in met.results]
    assert frame["games"].sum() == frame.select("wins", "draws", "losses").sum().sum_horizontal().item() == met.games
    assert frame["score_low"].is_between(0, frame["score"]).all()


def test_games_of_trainings_are_left_out_on_request(opened: OpenArchive, copy: ArchiveStore) -> None:
    before = compute_head_to_head(opened, GameFilter(trainings=False))
    alone = record(build_spec(seed=30), training=True)
    add(copy, alone, 6)
    add(copy, record(build_spec(seed=31), training=True), 7)
    with open_archive(copy.root) as more:
        for where in (None, "true"):
            rated = compute_head_to_head(more, GameFilter(where, trainings=False))
            assert rated.results == before.results
            assert "2 runs of trainings are left out (--trainings includes them)" in rated.notes
            assert compute_head_to_head(more, GameFilter(where)).games == before.games + 96
        assert compute_head_to_head(more, GameFilter(runs=(alone.run_id,), trainings=False)).games == 48
        with pytest.raises(
            RequestError,
            match="all chosen games were played by trainings, which are left out: trainings=True includes them",
        ):
            compute_head_to_head(more, GameFilter(f"run_id = '{alone.run_id}'", trainings=False))


def test_rules_are_never_mixed_silently(copy: ArchiveStore) -> None:
    run = record(build_spec(SQUARE, seed=20))
    add(copy, run, 5, rules=SQUARE)
    with open_archive(copy.root) as opened:
        for where in (None, "true"):
            with pytest.raises(RequestError, match="rules, classic, square: choose one, as in rules='classic'"):
                compute_head_to_head(opened, GameFilter(where))
            only = compute_head_to_head(opened, GameFilter(where, rules="square"))
            assert (only.rules, only.games) == ("square", 48)
            assert compute_head_to_head(opened, GameFilter(where, rules="classic")).rules == "classic"
        with pytest.raises(
            RequestError, match="by rules 'squares' here, only by: classic, square; did you mean 'square'"
        ):
            compute_head_to_head(opened, GameFilter(rules="squares"))


def test_rules_of_one_name_that_differ_are_never_mixed_either(archive: ArchiveStore) -> None:
    mine = record(build_spec(Rules("classic", squares="plain"), seed=20))
    add(archive, mine, 5, rules=SQUARE)
    with open_archive(archive.root) as opened:
        with pytest.raises(RequestError, match=f"rules 'classic' are not the same in all runs: .*{mine.run_id}"):
            compute_head_to_head(opened, GameFilter(rules="classic"))
        assert compute_head_to_head(opened, GameFilter(runs=(mine.run_id,))).games == 48


def test_a_label_that_hides_two_agents_is_noted(archive: ArchiveStore) -> None:
    spec = build_spec(seed=20)
    spec["agents"][1]["params"] = {"depth": 9}
    add(archive, record(spec), 5)
    with open_archive(archive.root) as opened:
        note, _ = compute_head_to_head(opened).notes
    assert re.match(rf"'{spec['agents'][1]['label']}' is not the same agent in all of these games, as in runs", note)


def _asking(run: RunRecord | None, games: int) -> RunRecord | None:
    return run and structs.replace(run, games=games)


def test_a_run_that_lacks_games_is_noted(archive: ArchiveStore) -> None:
    (run,) = archive.load_runs()
    missing = f"not complete: {run.run_id} (30 games missing) (the same command plays the rest of a run)"
    for games, notes in ((16, ()), (26, (missing,))):  # of each pairing; there are 16
        archive.update_run_and_unit_count(run.run_id, partial(_asking, games=games))
        with open_archive(archive.root) as opened:
            assert compute_head_to_head(opened).notes == notes


def test_games_against_oneself_are_noted(opened: OpenArchive) -> None:
    assert (
        "nothing about strength follows from 16 games of agents against themselves"
        in compute_head_to_head(opened).notes
    )


def test_a_condition_cannot_reach_beyond_the_runs_that_were_named(several: ArchiveStore, opened: OpenArchive) -> None:
    run = several.load_runs()[0].run_id
    assert compute_head_to_head(opened, GameFilter("false OR true", (run,))) == compute_head_to_head(
        opened, GameFilter(runs=(run,))
    )
    with pytest.raises(RequestError, match="is not a condition on games"):
        compute_head_to_head(opened, GameFilter("false) OR (true", (run,)))


@pytest.mark.parametrize("where", [None, "true"])
def test_games_without_a_record_are_a_failure_either_way(copy: ArchiveStore, where: str | None) -> None:
    Path(copy.root / "runs" / f"{RUN_ID}.json").unlink()
    with open_archive(copy.root) as opened, pytest.raises(FailureError, match=f"run {RUN_ID} has games and no"):
        compute_head_to_head(opened, GameFilter(where))


def test_a_run_without_games_and_an_archive_without_games_have_no_results(tmp_path: Path) -> None:
    archive = ArchiveStore.open(tmp_path / "empty", create=True)
    hint = r"has no games: archive\.runs\(\) lists the runs"
    with open_archive(archive.root) as opened, pytest.raises(RequestError, match=hint):
        compute_head_to_head(opened)
    archive.write_run_and_unit_count(record())
    with open_archive(archive.root) as opened, pytest.raises(RequestError, match=f"no games of run {record().run_id}"):
        compute_head_to_head(opened, GameFilter(runs=(record().run_id,)))
