"""Sequential tests as they are played: the same games give the same verdict, however and how often a test is begun."""

from __future__ import annotations

import copy
import json
import os
import shlex
import shutil
import signal
import threading
import time
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hydra import compose, initialize_config_module
from msgspec import structs
from omegaconf import DictConfig

from analytics import open_archive
from analytics.statistics.sprt import Hypotheses, SequentialTest, find_hypothesis_from_counts
from analytics.store import sprt_verdicts
from analytics.store.archive import ArchiveStore
from analytics.store.range_files import write_game_tables
from analytics.tables.verification.archive import verify_archive
from quarto.errors import RequestError
from runners.arena import experiment, sprt
from runners.arena.batch_engine import Pace, PairRange
from runners.arena.code_fingerprints import build_code_record
from runners.arena.replay import GameDifference, Replay
from runners.arena.sprt import SprtExperiment, SprtOutcome, execute_sprt
from runners.arena.sprt_output import _ProgressPrinter, format_llr_games_and_strength
from runners.config.requests import prepare_test
from tests.analytics.folders import snapshot
from tests.marks import seldom
from tests.runners.conftest import Qarena
from tests.runners.experiments import (
    SLEEPY,
    assert_same_rows,
    play,
    read_archive_rows,
    run_qarena,
    start_qarena,
    wait_for,
)

# About a thousand pairs, in some thirty looks.
LONG = ("agent@a=semi_random", "agent@b=rule_based", "elo0=100", "elo1=125", "seed=5")
# Five looks.
SHORT = ("agent@a=semi_random", "agent@b=rule_based")


@cache
def compose_config(*overrides: str) -> DictConfig:
    """Build the configuration of ``qarena sprt`` with some overrides."""
    with initialize_config_module("conf", version_base="1.3"):
        return compose("sprt", overrides=[*overrides], return_hydra_config=True)


def prepare_in_archive(root: Path, *overrides: str) -> SprtExperiment:
    """Prepare a test in the archive at ``root``."""
    cfg = copy.deepcopy(compose_config(*overrides))
    cfg.archive.root = str(root)
    return prepare_test(cfg, cfg.hydra.runtime.choices, cfg.hydra.overrides.task)


def ignore(_trial: SequentialTest) -> None:
    """Do nothing, because nobody watches the test."""


def run_test(root: Path, *overrides: str) -> SprtOutcome:
    return execute_sprt(prepare_in_archive(root, *overrides), "qarena sprt", threading.Event(), ignore)


def load_verdicts(root: Path) -> list[dict[str, Any]]:
    """Return the verdicts without the time and command of their making."""
    archive = ArchiveStore.open(root)
    verdicts = [
        structs.asdict(sprt_verdicts.load_verdict(archive, path)) for path in sprt_verdicts.list_verdict_files(archive)
    ]
    return [{key: value for key, value in verdict.items() if key not in ("created", "command")} for verdict in verdicts]


@pytest.fixture(scope="module")
def long_archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the archive that ``LONG`` leaves on one thread, without an interruption."""
    root = tmp_path_factory.mktemp("uninterrupted") / "archive"
    assert run_test(root, *LONG, "threads=1").trial.accepted
    return root


def assert_as_uninterrupted(root: Path, expected: Path) -> None:
    assert load_verdicts(root) == load_verdicts(expected)
    assert_same_rows(read_archive_rows(root), read_archive_rows(expected))
    verification = verify_archive(ArchiveStore.open(root))
    assert (verification.verdicts, verification.problems) == (1, [])
    with open_archive(root) as opened:
        assert opened.sql("SELECT status, games = games_asked FROM runs").rows() == [("complete", True)]


# What is decided.


def test_the_verdict_is_that_of_a_count_pair_by_pair(long_archive: Path) -> None:
    (verdict,) = load_verdicts(long_archive)
    counts, points = [0] * 5, dict[int, float]()
    with open_archive(long_archive) as opened:
        for pair_id, agent_0, winner in opened.sql("SELECT pair_id, agent_0, winner FROM games").iter_rows():
            seat = 0 if agent_0 == "semi_random" else 1
            points[pair_id] = points.get(pair_id, 0) + (0.5 if winner == -1 else winner == seat)
    hypotheses, last_look = Hypotheses(100, 125), 0
    for pair in range(verdict["pairs"]):
        counts[int(2 * points[pair])] += 1
        if sum(counts) == last_look + max(32, last_look // 32):
            last_look = sum(counts)
            assert (find_hypothesis_from_counts(counts, hypotheses) is None) == (last_look < verdict["pairs"])
    assert last_look == verdict["pairs"] == len(points)
    assert tuple(counts) == verdict["counts"]
    assert find_hypothesis_from_counts(counts, hypotheses) == verdict["accepted"]


@pytest.mark.parametrize(
    ("max_pairs", "overrides"),
    [
        (5, ["threads=3", "archive.shard_games=50"]),
        *seldom((1, ["threads=2"]), (10**6, ["threads=2"]), (9, ["threads=8"])),
    ],
)
def test_neither_threads_nor_files_nor_the_size_of_blocks_change_anything(
    tmp_path: Path, long_archive: Path, monkeypatch: pytest.MonkeyPatch, max_pairs: int, overrides: list[str]
) -> None:
    monkeypatch.setattr(sprt, "Pace", lambda _: Pace(max_pairs))
    run_test(tmp_path / "archive", *LONG, *overrides)
    assert_as_uninterrupted(tmp_path / "archive", long_archive)


@pytest.mark.parametrize("every", [*seldom(1), 7])
def test_a_test_that_is_stopped_again_and_again_comes_to_the_same(
    tmp_path: Path, long_archive: Path, every: int
) -> None:
    root, sessions = tmp_path / "archive", 0
    while True:
        stop, reports = threading.Event(), 0

        def watch(trial: SequentialTest) -> None:
            nonlocal reports
            reports += 1
            if reports == every:
                stop.set()  # noqa: B023  (called in this round only)

        outcome = execute_sprt(prepare_in_archive(root, *LONG, "threads=2"), "qarena sprt", stop, watch)
        sessions += 1
        if outcome.trial.ended:
            break
        with open_archive(root) as opened:
            (row,) = opened.sql("SELECT status, games FROM runs").rows()
        assert row == ("interrupted", 2 * outcome.trial.pairs)
        assert load_verdicts(root) == []
    assert sessions > 1
    assert_as_uninterrupted(root, long_archive)


def test_a_gap_in_the_archive_is_played_and_what_comes_after_it_is_counted(tmp_path: Path, long_archive: Path) -> None:
    root = tmp_path / "archive"
    run_test(root, *LONG, "archive.shard_games=200", "threads=1")
    archive = ArchiveStore.open(root)
    (run_id,) = archive.list_ids_of_runs_with_games()
    missing_file = archive.list_effective_ranges(run_id)[1]
    Path(archive.find_path_of_containing_file("games", run_id, missing_file)).unlink()
    shutil.rmtree(root / "verdicts")
    outcome = run_test(root, *LONG, "threads=2")
    assert outcome.played == 2 * missing_file.units
    assert_as_uninterrupted(root, long_archive)


def test_a_run_that_has_more_games_decides_by_the_first_ones(tmp_path: Path, long_archive: Path) -> None:
    root = tmp_path / "archive"
    outcome = play(root, *LONG[:2], LONG[-1], "opening_plies=2", "games=4000")
    files_before = snapshot(root)
    test_outcome = run_test(root, *LONG)
    assert (test_outcome.played, test_outcome.experiment.run_id) == (0, outcome.run_id)
    assert load_verdicts(root) == load_verdicts(long_archive)
    files_after = snapshot(root)
    record = root / "runs" / f"{outcome.run_id}.json"  # names the verdict, and is else the same
    new_record, old_record = (json.loads(files.pop(record)) for files in (files_after, files_before))
    assert {**new_record, "verdicts": [], "checksum": old_record["checksum"]} == old_record
    assert {path: content for path, content in files_after.items() if "verdicts" not in path.parts} == files_before


def test_another_process_that_is_faster_changes_nothing(tmp_path: Path, long_archive: Path) -> None:
    root = tmp_path / "archive"
    sprt_experiment = prepare_in_archive(root, *LONG, "threads=1")
    archive, spec = ArchiveStore.open(root), sprt_experiment.experiment.request.spec

    def watch(trial: SequentialTest) -> None:
        if trial.pairs >= 64 and not archive.list_effective_ranges(spec.run_id):
            block = prepare_in_archive(root, *LONG).experiment.engine.play_block(PairRange(0, 0, 64))
            write_game_tables(archive, spec.run_id, spec.unit_line, spec.pairing_labels, (0, 64), [block])

    execute_sprt(sprt_experiment, "qarena sprt", threading.Event(), watch)
    assert_as_uninterrupted(root, long_archive)


def test_two_tests_of_a_pairing_share_its_games(tmp_path: Path) -> None:
    root = tmp_path / "archive"
    first = run_test(root, *SHORT)
    second = run_test(root, *SHORT, "elo1=5")
    assert len(ArchiveStore.open(root).list_ids_of_runs_with_games()) == 1
    assert second.played == 2 * (second.trial.pairs - first.trial.pairs) > 0
    assert len(load_verdicts(root)) == 2


@pytest.mark.slow
def test_games_by_other_code_decide_only_if_that_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "archive"
    run_test(root, *SHORT)
    monkeypatch.setattr(experiment, "build_code_record", lambda *of: build_code_record(*of) | {"fingerprint": "ab" * 8})
    differing = Replay(2, 1, GameDifference(0, 0, "0@a1", "1@a1"))
    monkeypatch.setattr("runners.arena.replay.replay_sample", lambda *_: differing)
    for more in ([], ["elo1=5"]):
        with pytest.raises(RequestError, match="was begun by other code"):
            run_test(root, *SHORT, *more)
    assert run_test(root, *SHORT, "archive.other_code=extend").played == 0
    assert run_test(root, *SHORT, "elo1=5", "archive.other_code=extend").trial.ended
    new_outcome = run_test(root, *SHORT, "archive.other_code=new")
    assert new_outcome.played == 2 * new_outcome.trial.pairs
    assert len(ArchiveStore.open(root).list_ids_of_runs_with_games()) == 2


# What a user sees.


def test_a_test_says_how_it_stands_and_what_it_came_to(qarena: Qarena, tmp_path: Path) -> None:
    result = qarena("sprt", *SHORT)
    assert result.code == 0
    assert all(line.startswith("LLR ") and line.count("nElo") == 1 for line in result.err.splitlines())
    *_, decision, time_line = result.out.splitlines()
    expected = "Decided after 384 games: semi_random is above rule_based by more than 0 nElo"
    assert decision == expected + "; 10 nElo explain the games better."
    assert time_line.startswith("384 games in ")
    files_before = snapshot(tmp_path / "data")
    repeated = qarena("sprt", *SHORT)
    assert (repeated.code, repeated.err) == (0, "")
    *same_lines, time_line = repeated.out.splitlines()
    assert same_lines == result.out.splitlines()[:-1]
    assert time_line.startswith("Nothing to play: run ")
    assert snapshot(tmp_path / "data") == files_before
    verified = qarena("archive", "verify")
    assert "384 games" in verified.out
    assert verified.out.endswith("1 verdict: no problems\n")


def test_undecided_has_an_exit_code_of_its_own_and_more_games_go_on(qarena: Qarena, tmp_path: Path) -> None:
    result = qarena("sprt", *SHORT, "games=99", "progress=false")
    assert result.code == 3
    assert result.err == "games=99 is odd; games come in pairs with the seats swapped, so 100 will be played\n"
    assert "Undecided after 100 games, as many as were allowed: games=… allows more." in result.out
    continued = qarena("sprt", *SHORT, "progress=false")
    assert (continued.code, continued.err) == (0, "")
    assert "\n284 games in " in continued.out
    with open_archive(tmp_path / "data/archive") as opened:
        verdicts = opened.sql("SELECT accepted, pairs FROM verdicts ORDER BY pairs").rows()
    assert verdicts == [(None, 50), ("elo1", 192)]


def test_agents_without_chance_come_to_an_end_and_are_told_why(qarena: Qarena) -> None:
    drawn = qarena("sprt", "agent@a=dumb", "agent@b=dumb", "opening_plies=0", "games=200")
    assert drawn.code == 3
    assert "All pairs had the same outcome" in drawn.out
    won = qarena("sprt", "agent@a=minimax", "agent@b=dumb", "opening_plies=0", "games=2000")
    assert won.code == 0
    assert "minimax is above dumb by more than 0 nElo" in won.out


def test_counts_alone_come_to_the_figures_of_an_independent_implementation(qarena: Qarena) -> None:
    first = qarena("sprt", "--counts", "379,10170,21828,10640,343", "elo0=0", "elo1=2")
    assert (first.code, first.err) == (0, "")
    for figure in (
        "LLR    2.9455, bounds \N{MINUS SIGN}2.9444 and 2.9444",
        "nElo   3.0505 ± 2.3124\n",
        "Elo    1.5946 ± 1.2087\n",
    ):
        assert figure in first.out
    second = qarena("sprt", "elo1=3", "--counts=78,2504,5251,2695,95")
    for figure in ("LLR    2.8980", "nElo   6.9904 ± 4.6718\n", "Elo    3.6796 ± 2.4593\n", "LOS    0.99832\n"):
        assert figure in second.out


@pytest.mark.slow
def test_a_sweep_of_tests_has_a_row_for_each(qarena: Qarena) -> None:
    result = qarena("sprt", "-m", *SHORT, "elo1=10,40", "games=400", "progress=false")
    assert result.code == 0
    assert result.out.count("│ semi_random │ rule_based │") == 2
    assert "elo1" in result.out
    assert qarena("sql", "--format", "csv", "SELECT count(*) FROM verdicts").out.endswith("\n2\n")


def test_a_line_is_said_when_pairs_have_doubled_or_time_has_passed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    moments = iter([0.0, 1.0, 2.0, 3.0, 33.0, 34.0])
    monkeypatch.setattr(time, "monotonic", lambda: next(moments))
    printer, trial = _ProgressPrinter(), SequentialTest(Hypotheses(), 1000)
    line_counts = []
    for pairs in (16, 31, 32, 40, 50):
        trial.counts = (0, 0, pairs, 0, 0)
        printer.print_if_doubled_or_overdue(trial)
        line_counts.append(capsys.readouterr().err.count("\n"))
    assert line_counts == [1, 0, 1, 1, 0]
    assert (
        format_llr_games_and_strength(trial) == "LLR 0.00 (\N{MINUS SIGN}2.94 to 2.94) after 100 games, nElo 0.0 ± 68.1"
    )


# Signals.

SLOW = ("sprt", "--config-dir", "own", "agent@a=random", "agent@b=sleepy", "elo1=30", "archive.shard_seconds=0.1")


@pytest.mark.slow
def test_sighup_and_kill_lose_nothing_that_matters(tmp_path: Path) -> None:
    (tmp_path / "own/agent").mkdir(parents=True)
    (tmp_path / "own/agent/sleepy.yaml").write_text("_target_: sleepy_player.Sleepy\n")
    (tmp_path / "own/sleepy_player.py").write_text(SLEEPY)
    importable = os.pathsep.join(filter(None, [str(tmp_path / "own"), os.environ.get("PYTHONPATH")]))
    fast_variables = {"PYTHONPATH": importable}
    variables = fast_variables | {"PAUSE": "0.002"}
    uninterrupted = run_qarena(tmp_path, *SLOW, "archive.root=whole", "threads=1", **fast_variables)
    assert uninterrupted.returncode == 0, uninterrupted.stderr

    def files() -> int:
        return len([*tmp_path.glob("parts/games/*/*.parquet")])

    arguments = (*SLOW, "archive.root=parts", "threads=2")
    with start_qarena(tmp_path, *arguments, **variables) as process:
        wait_for(process, lambda: files() >= 1)
        process.kill()
        process.communicate(timeout=60)
    files_before = files()
    with start_qarena(tmp_path, *arguments, **variables) as process:
        wait_for(process, lambda: files() > files_before)
        process.send_signal(signal.SIGHUP)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 129, err
    assert "Undecided so far" in out
    *_, resume = err.splitlines()
    assert shlex.split(resume) == ["qarena", *SLOW, "archive.root=parts", "threads=2"]
    resumed = run_qarena(tmp_path, *shlex.split(resume)[1:], **fast_variables)
    assert resumed.returncode == 0, resumed.stderr
    assert_as_uninterrupted(tmp_path / "parts", tmp_path / "whole")
