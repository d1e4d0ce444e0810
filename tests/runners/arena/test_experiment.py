"""The rows of an experiment depend on the request, never on how it was carried out."""

from __future__ import annotations

import json
import re
import signal
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from analytics import open_archive
from analytics.questions.columns import format_short_game_name
from analytics.questions.head_to_head import compute_head_to_head
from analytics.store.archive import ArchiveStore
from analytics.store.files.backend import ObjectUrl
from analytics.tables.verification.archive import verify_archive
from quarto.errors import FailureError, RequestError
from runners.arena import execution, experiment, replay
from runners.arena.batch_engine import Pace
from runners.arena.code_fingerprints import build_code_record
from runners.arena.execution import execute_request
from runners.arena.experiment import open_experiment
from runners.hosting.interruption import stop_on_signal_then_interrupt_then_exit
from tests.marks import seldom
from tests.runners.conftest import Qarena
from tests.runners.experiments import (
    Watcher,
    assert_same_rows,
    build_run_request,
    draw_the_same_words,
    play,
    read_archive_rows,
    store_at,
)

PLAYERS = "tests.runners.players"

# Jitted players and Python players, so that both ways through the engine are taken, from imposed openings.
DICE = f"{{agent:random,_target_:{PLAYERS}.Dice,name:dice}}"
BATCHED = f"{{agent:random,_target_:{PLAYERS}.Batched,name:batched}}"
TOURNAMENT = (
    f"agents=[random,semi_random,{DICE},{BATCHED}]",
    "games=48",
    "opening_plies=3",
    "seed=5",
)
# The agents of experiment=round_robin. By rules and seed: the id of the run, and the fingerprint of its games.
ALL_AGAINST_ALL = ("agents=[random,dumb,semi_random,rule_based]", "games=20")
GAMES_OF_BEFORE = {
    ("classic", 1): ("8d1cb3670fa3", "7f265f38d0622eb0"),
    ("classic", 2): ("dbe9ebbb491d", "4596bab61d912e1d"),
    ("classic", 3): ("f34d05b197f7", "9c23ab77321e5f21"),
    ("square", 1): ("cd551c90be43", "80e61b2b5cacfb98"),
    ("square", 2): ("6aa9db183225", "37b1c75eac7e59e1"),
    ("square", 3): ("a6c7bc501066", "61e700d33da34c7b"),
    ("torus", 1): ("276596b36fcb", "6b43916626ab2f8d"),
    ("torus", 2): ("7a8cabf3e312", "a5bf31684dfd684b"),
    ("torus", 3): ("79591c63f72c", "fdadecb82d737d7d"),
}
RESULT = dict[str, pl.DataFrame]


@pytest.fixture(scope="module")
def tournament_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the archive of the tournament, played on one thread into one shard."""
    root = tmp_path_factory.mktemp("whole")
    outcome = play(root, *TOURNAMENT, "threads=1")
    assert (outcome.played, outcome.interrupted) == (288, False)
    assert len(ArchiveStore.open(root).list_effective_ranges(outcome.run_id)) == 1
    return root


@pytest.fixture(scope="module")
def expected(tournament_root: Path) -> RESULT:
    """Return the rows of the tournament."""
    expected_rows = read_archive_rows(tournament_root)
    assert len(expected_rows["games"]) == 288
    return expected_rows


@pytest.mark.parametrize(
    "how",
    [
        ("threads=5", "archive.shard_games=32"),
        *seldom(
            (("threads=2", "archive.shard_seconds=0"),),
            (("threads=1", "archive.shard_games=50"),),
        ),
    ],
    ids=" ".join,
)
def test_rows_depend_on_neither_threads_nor_files_nor_blocks(
    how: Sequence[str], tmp_path: Path, expected: RESULT, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Pace, "next_unit_count", lambda _pace, _pairings: 7)
    monkeypatch.setattr(execution, "MANY_FILES_TO_COMPACT", 1 << 60)
    outcome = play(tmp_path, *TOURNAMENT, *how)
    assert len(ArchiveStore.open(tmp_path).list_effective_ranges(outcome.run_id)) > 1
    assert_same_rows(read_archive_rows(tmp_path), expected)
    assert outcome.fingerprint == ArchiveStore.open(tmp_path).list_effective_ranges(outcome.run_id).fingerprint
    assert verify_archive(ArchiveStore.open(tmp_path)).problems == []


@pytest.mark.parametrize(("rules", "seed"), GAMES_OF_BEFORE, ids=str)
def test_a_spec_plays_the_games_that_it_always_played(rules: str, seed: int, tmp_path: Path) -> None:
    outcome = play(tmp_path, *ALL_AGAINST_ALL, f"rules={rules}", f"seed={seed}", "threads=1")
    assert (outcome.run_id, f"{outcome.fingerprint:016x}") == GAMES_OF_BEFORE[rules, seed]


def test_asking_for_more_extends_a_run(tmp_path: Path, expected: RESULT) -> None:
    first = play(tmp_path, *TOURNAMENT, "games=16")
    second = play(tmp_path, *TOURNAMENT, "games=36")
    last = play(tmp_path, *TOURNAMENT)
    assert [outcome.played for outcome in (first, second, last)] == [96, 120, 72]
    assert {outcome.run_id for outcome in (first, second, last)} == set(expected["games"]["run_id"])
    assert_same_rows(read_archive_rows(tmp_path), expected)


def test_asking_for_what_is_there_plays_nothing_and_changes_nothing(tmp_path: Path) -> None:
    assert play(tmp_path, "games=19").played == 20  # whole pairs
    files_before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    repeated = play(tmp_path, "games=20")
    fewer = play(tmp_path, "games=10", "threads=1")
    assert (repeated.played, fewer.played) == (0, 0)
    assert [result.games for result in fewer.results] == [20]
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == files_before


def test_with_fixed_seats_a_run_has_the_first_game_of_each_pair(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw_the_same_words(monkeypatch)
    play(tmp_path / "swapped", *TOURNAMENT)
    expected = read_archive_rows(tmp_path / "swapped")
    root = tmp_path / "fixed"
    outcome = play(root, *TOURNAMENT, "seats=fixed", "games=25")  # an odd number is fine: nothing is swapped
    assert outcome.played == 25 * 6
    assert play(root, *TOURNAMENT, "seats=fixed", "games=25").played == 0
    fixed_rows = read_archive_rows(root)
    first_24 = pl.col("game_id") % 2**32 < 48
    first_of_pair = pl.col("game_id") % 2 == 0
    numbering = ("run_id", "game_number")  # where seats are fixed, games are counted without the second of a pair
    for table, frame in fixed_rows.items():
        assert frame.select(first_of_pair.all()).item()
        assert_frame_equal(
            frame.filter(first_24).drop(numbering, strict=False),
            expected[table].filter(first_of_pair).drop(numbering, strict=False),
            check_dtypes=True,
        )
    assert verify_archive(ArchiveStore.open(root)).problems == []
    first = outcome.results[0]
    assert (
        first.games,
        sum(first.losses_draws_wins_in_seat(0)),
        sum(first.losses_draws_wins_in_seat(1)),
        first.by_pairs,
    ) == (
        25,
        25,
        0,
        False,
    )


def test_every_pairing_sees_the_same_openings_with_the_seats_swapped(tournament_root: Path) -> None:
    with open_archive(tournament_root) as archive:
        openings = archive.sql("""
            SELECT pair_id & 2147483647 AS pair, count(DISTINCT game_id) AS games, count(DISTINCT opening) AS openings,
                   any_value(opening) AS opening
            FROM (SELECT game_id, pair_id, string_agg(piece || '@' || cell, ' ' ORDER BY ply) AS opening
                  FROM plies JOIN games USING (run_id, game_id) WHERE ply < games.opening GROUP BY ALL)
            GROUP BY ALL ORDER BY pair""")
        assert openings["pair"].to_list() == list(range(24))
        assert set(openings["games"]) == {2 * 6}
        assert set(openings["openings"]) == {1}
        assert openings["opening"].n_unique() == 24
        seats = archive.sql("""
            SELECT pairing, game_id % 2 AS game, agent_0, agent_1, count(*) AS games
            FROM games GROUP BY ALL ORDER BY ALL""")
    labels = ["random", "semi_random", "dice", "batched"]
    pairings = [(first, second) for i, first in enumerate(labels) for second in labels[i + 1 :]]
    assert seats.rows() == [
        (number, game, *(pairing if game == 0 else pairing[::-1]), 24)
        for number, pairing in enumerate(pairings)
        for game in (0, 1)
    ]


def test_runs_of_one_seed_share_openings_and_no_other_random_words(tmp_path: Path) -> None:
    """Check that games of two runs differ, because equal games would count twice as independent evidence."""
    match = play(tmp_path, "agent@a=random", "agent@b=dumb", "games=200", "opening_plies=3")
    play(tmp_path, "agents=[random,dumb,semi_random]", "games=200", "opening_plies=3")
    with open_archive(tmp_path) as archive:
        pairs = archive.sql(f"""
            WITH lists AS (
                SELECT run_id, game_id, list(piece ORDER BY ply) AS pieces, list(cell ORDER BY ply) AS cells
                FROM plies GROUP BY ALL)
            SELECT match.pieces[:3] = other.pieces[:3] AND match.cells[:3] = other.cells[:3] AS same_opening,
                   match.pieces = other.pieces AND match.cells = other.cells AS same_game
            FROM lists AS match JOIN lists AS other USING (game_id)
            WHERE match.run_id = '{match.run_id}' AND other.run_id <> match.run_id""")
    assert (len(pairs), pairs["same_opening"].sum(), pairs["same_game"].sum()) == (200, 200, 0)


def write_misbehaving(folder: Path) -> None:
    """Write yamls of two agents that misbehave once two plies are on the board: ``raise`` and ``cheat``."""
    folder.mkdir(parents=True)
    for fault in ("raise", "cheat"):
        (folder / f"{fault}.yaml").write_text(f"_target_: {PLAYERS}.Misbehaving\nwhat: {fault}\nplies: 2\n")


def test_an_agent_that_misbehaves_forfeits_and_the_run_goes_on(qarena: Qarena, tmp_path: Path) -> None:
    write_misbehaving(tmp_path / "own/agent")
    agents = "agents=[raise,cheat,dumb]"
    result = qarena("run", "--config-dir", "own", agents, "games=20", "archive.root=games", "--keep-going")
    assert result.code == 0
    assert "error:" not in result.err
    with open_archive(tmp_path / "games") as archive:
        endings = archive.sql("""
            SELECT pairing, ending, [agent_0, agent_1][2 - winner] AS loser, min(plies), max(plies), count(*) AS games
            FROM games GROUP BY ALL ORDER BY ALL""").rows()
        counts = "SELECT (SELECT sum(plies) FROM games) = (SELECT count(*) FROM plies) AS same"
        assert archive.sql(counts)["same"].item()
    assert endings[2:] == [(1, "forfeit_error", "raise", 2, 3, 20), (2, "forfeit_illegal", "cheat", 2, 3, 20)]
    # All that was legal is kept: which of the two depends on the seat. Between the two, the first player is the one.
    assert endings[:2] == [(0, "forfeit_error", "raise", 2, 2, 10), (0, "forfeit_illegal", "cheat", 2, 2, 10)]
    assert "forfeits" in result.out
    assert "20 : 0" in result.out
    (log,) = (tmp_path / "outputs").glob("*/*/qarena.log")
    assert "lost my nerve" in log.read_text()
    assert log.read_text().count("Traceback") == 1
    assert "Traceback" not in result.err
    what_happened = r"'raise' raised RuntimeError: lost my nerve \(\S+tests/runners/players.py:\d+\)"
    assert re.search(rf"warning: agent {what_happened} in position \S+ \S and forfeits its game;", result.err)
    assert re.search(rf"agent {what_happened}, first in position \S+ \S: 30 times\n", result.err)
    last_line = result.err.splitlines()[-1]
    assert re.fullmatch(r"warning: 60 of 60 games of this run are forfeits; more in outputs/\S+/qarena.log", last_line)
    assert qarena("archive", "verify", "--archive", "games").code == 0


@pytest.mark.parametrize("executor", ["threads", *seldom("processes")])
def test_a_run_ends_early_if_an_agent_forfeits_all_its_games(executor: str, qarena: Qarena, tmp_path: Path) -> None:
    write_misbehaving(tmp_path / "own/agent")
    arguments = ("run", "raise", "random", "threads=1", f"executor={executor}", "--config-dir", "own", "--archive")
    result = qarena(*arguments, "games", "games=2000")
    assert result.code == 1
    last_line = result.err.splitlines()[-1]
    assert last_line.startswith("error: agent 'raise' has forfeited all its ")
    assert re.search(r"it raised RuntimeError: lost my nerve \(.*players.py:\d+\), first in .*--keep-going", last_line)
    with open_archive(tmp_path / "games") as archive:
        assert 20 <= archive.sql("SELECT count(*) FROM games").item() < 2000


# Code that has changed since.

OTHER = {"fingerprint": "f" * 16, "version": "9.9"}


@pytest.fixture
def upgraded_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Play 20 games, then pretend that the code is another that plays the same; return the run's id."""
    run_id = play(tmp_path, "games=20").run_id
    monkeypatch.setattr(experiment, "build_code_record", lambda *of: build_code_record(*of) | OTHER)
    return run_id


@pytest.fixture
def changed_run(upgraded_run: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Play 20 games, then pretend that the code is another that plays other games; return the run's id."""
    monkeypatch.setattr(experiment, "run_id_to_stream_key", lambda _run_id: np.uint64(8))
    return upgraded_run


def count_games(root: Path) -> dict[str, int]:
    """Return the number of games of each run."""
    with open_archive(root) as archive:
        return dict(archive.sql("SELECT run_id, games FROM runs").rows())


def test_a_run_begun_by_other_code_is_neither_shown_nor_extended_unless_the_user_says_so(
    tmp_path: Path, changed_run: str
) -> None:
    """Check that a user who edits an agent is not shown the old results."""
    rows_before = read_archive_rows(tmp_path)
    for games in (20, 22):
        with pytest.raises(
            RequestError, match=rf"run {changed_run} was begun by other code .*9\.9, f{{16}}.*=new .*=extend"
        ) as refusal:
            play(tmp_path, f"games={games}")
        game = rf"game {format_short_game_name(changed_run, 0)} \(rule_based against random\)"
        assert re.search(rf"{game} differently: ply \d was (\S+) and is now (?!\1)\S+; ", str(refusal.value))
    assert_same_rows(read_archive_rows(tmp_path), rows_before)
    assert load_status(tmp_path, changed_run) == "complete"
    assert "same_games" not in ArchiveStore.open(tmp_path).load_run(changed_run).code
    outcome = play(tmp_path, "games=20", "archive.other_code=extend")
    assert (outcome.run_id, outcome.played, outcome.results[0].games) == (changed_run, 0, 20)
    assert play(tmp_path, "games=22", "archive.other_code=extend").played == 2
    assert count_games(tmp_path) == {changed_run: 22}


def test_a_run_begun_by_other_code_is_played_anew_on_demand(tmp_path: Path, changed_run: str) -> None:
    new_outcome = play(tmp_path, "games=22", "archive.other_code=new")
    assert new_outcome.run_id != changed_run
    assert new_outcome.played == 22
    assert count_games(tmp_path) == {changed_run: 20, new_outcome.run_id: 22}
    assert play(tmp_path, "games=22", "archive.other_code=new").played == 0
    repeated = play(tmp_path, "games=24")  # the plain command finds the run of this code from then on
    assert (repeated.run_id, repeated.played) == (new_outcome.run_id, 2)


def test_a_run_goes_on_after_an_upgrade_that_plays_a_sample_of_it_equally(
    tmp_path: Path, upgraded_run: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = ArchiveStore.open(tmp_path).load_run(upgraded_run).code["fingerprint"]
    (note,) = open_experiment(store_at(tmp_path, build_run_request("games=20"))).request.notes
    assert re.fullmatch(
        rf"run {upgraded_run} was begun by other code \(.*; this is 9\.9, f{{16}}\): 20 games "
        "played again gave the same result, so it goes on",
        note,
    )
    assert "same_games" not in ArchiveStore.open(tmp_path).load_run(upgraded_run).code  # nobody has played or shown it
    assert play(tmp_path, "games=20").played == 0
    code = ArchiveStore.open(tmp_path).load_run(upgraded_run).code
    assert (code["fingerprint"], [*code["same_games"]]) == (first, ["f" * 16])
    assert "extended_by" not in code  # it added no game
    with monkeypatch.context() as patch:  # the record says so: no second sample is played
        patch.setattr(replay, "replay_sample", lambda *_: pytest.fail("a second sample"))
        assert open_experiment(store_at(tmp_path, build_run_request("games=20"))).request.notes == ()
    assert play(tmp_path, "games=22").played == 2
    monkeypatch.undo()
    assert ArchiveStore.open(tmp_path).load_run(upgraded_run).code["extended_by"] == ["f" * 16]
    assert play(tmp_path, "games=24").played == 2  # the code that began it goes on with it, too
    with open_archive(tmp_path) as opened:
        assert compute_head_to_head(opened).notes == ()


def test_a_run_without_games_goes_on_with_other_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stop = threading.Event()
    stop.set()
    run_id = play(tmp_path, "games=20", stop=stop).run_id
    monkeypatch.setattr(experiment, "build_code_record", lambda *of: build_code_record(*of) | OTHER)
    assert play(tmp_path, "games=20").run_id == run_id
    assert count_games(tmp_path) == {run_id: 20}


# What a run says of itself.


def test_a_record_says_what_was_asked_and_what_became_of_it(tmp_path: Path) -> None:
    run_request = store_at(tmp_path, build_run_request("games=20", "seed=3"))
    execute_request(run_request, "qarena run games=20 seed=3", threading.Event())
    execute_request(replace(run_request, games=30), "qarena run games=30 seed=3", threading.Event())
    record = ArchiveStore.open(tmp_path).find_run(run_request.spec.run_id)
    assert record is not None
    assert (record.status, record.games, record.command) == ("complete", 30, "qarena run games=30 seed=3")
    assert record.seconds > 0
    assert record.spec == json.loads(json.dumps(run_request.spec.to_record()))
    assert record.rules == run_request.spec.rules


def load_status(root: Path, run_id: str) -> str:
    """Return the status of a run in its record."""
    record = ArchiveStore.open(root).find_run(run_id)
    assert record is not None
    return record.status


@pytest.mark.parametrize("threads", [2, *seldom(1)])
def test_a_stopped_run_keeps_what_was_in_flight_and_is_taken_up_again(
    threads: int, tmp_path: Path, expected: RESULT, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runners.arena.executors.base.POLL_SECONDS", 0.001)
    monkeypatch.setattr(Pace, "next_unit_count", lambda *_: 1)
    stop = threading.Event()
    watcher = Watcher(stop, enough=40)
    run_request = store_at(tmp_path, build_run_request(*TOURNAMENT, f"threads={threads}"))
    outcome = execute_request(run_request, "qarena run", stop, watcher)
    assert outcome.interrupted
    assert watcher.started == [288]
    assert 40 <= outcome.played == watcher.games == len(read_archive_rows(tmp_path)["games"]) < 288
    assert load_status(tmp_path, outcome.run_id) == "interrupted"

    shorter = play(tmp_path, *TOURNAMENT, "games=2")  # which is there: but what was asked for before is not
    assert (shorter.interrupted, load_status(tmp_path, shorter.run_id)) == (False, "interrupted")

    resumed = play(tmp_path, *TOURNAMENT)
    assert (resumed.interrupted, resumed.played) == (False, 288 - outcome.played - shorter.played)
    assert load_status(tmp_path, resumed.run_id) == "complete"
    assert_same_rows(read_archive_rows(tmp_path), expected)


def test_a_run_stopped_before_it_plays_is_not_called_running(tmp_path: Path) -> None:
    stop = threading.Event()
    stop.set()
    for _ in range(2):
        outcome = play(tmp_path, "games=20", stop=stop)
        assert (outcome.played, outcome.interrupted, outcome.results) == (0, True, [])
        assert load_status(tmp_path, outcome.run_id) == "interrupted"


class Meanwhile(Watcher):
    """Plays some of the games that are about to be played, as another process might."""

    def __init__(self, root: Path) -> None:
        super().__init__()
        self.root = root

    def start(self, games: int) -> None:
        super().start(games)
        assert play(self.root, *TOURNAMENT, "games=24", "archive.shard_games=16").played == 144


def test_games_that_another_process_was_faster_with_count_once(tmp_path: Path, expected: RESULT) -> None:
    run_request = store_at(tmp_path, build_run_request(*TOURNAMENT))
    outcome = execute_request(run_request, "qarena run", threading.Event(), Meanwhile(tmp_path))
    assert not outcome.interrupted
    assert load_status(tmp_path, outcome.run_id) == "complete"
    assert_same_rows(read_archive_rows(tmp_path), expected)


def test_a_run_whose_games_cannot_be_repeated_has_one_writer_at_a_time(tmp_path: Path) -> None:
    timed = f"agents=[{{agent:random,_target_:{PLAYERS}.Dice,name:dice,turn_seconds:9}},dumb]"
    run_id = play(tmp_path, timed, "games=2").run_id
    with (
        ArchiveStore.open(tmp_path).lock_run(run_id),
        pytest.raises(RequestError, match=f"another process plays run {run_id}"),
    ):
        play(tmp_path, timed, "games=4")
    assert play(tmp_path, timed, "games=4").played == 2


# Ctrl-C.


def test_elsewhere_than_in_the_main_thread_signals_are_left_alone() -> None:
    handler_before, observations = signal.getsignal(signal.SIGINT), []

    def work() -> None:
        with stop_on_signal_then_interrupt_then_exit() as stop:
            observations.append((stop.is_set(), signal.getsignal(signal.SIGINT)))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert observations == [(False, handler_before)]


class LateListings:
    """An archive on object storage whose listings show a file only at the third look."""

    root = ObjectUrl("s3://bucket/archive")

    def __init__(self) -> None:
        self.looks = 0

    def find_run(self, _run_id: str) -> object:
        return self

    def list_effective_ranges(self, _run_id: str) -> SimpleNamespace:
        self.looks += 1
        return SimpleNamespace(covered_ranges=[(0, 8)] if self.looks < 3 else [(0, 16)])


def test_a_store_may_list_a_file_late(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(execution, "LISTING_PAUSE", 0.0)
    archive = LateListings()
    experiment_stub: Any = SimpleNamespace(archive=archive, run_id="0123456789ab")
    execution._check_written_units(experiment_stub, [(0, 16)])
    assert archive.looks == 3
    monkeypatch.setattr(execution, "LISTING_SECONDS", 0.0)
    with pytest.raises(FailureError, match=r"units 16 to 23 of run 0123456789ab were written .* are not there"):
        execution._check_written_units(experiment_stub, [(0, 16), (16, 24)])
    archive.looks = 0
    monkeypatch.setattr(execution, "LISTING_SECONDS", 60.0)
    monkeypatch.setattr(archive, "root", Path("archive"), raising=False)
    with pytest.raises(FailureError, match="units 8 to 15"):  # a folder lists what it holds
        execution._check_written_units(experiment_stub, [(0, 16)])
    assert archive.looks == 1
