"""`archive.evaluations=true` stores what agents report and changes no game; missing evaluations are played again."""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from agents.base.agent import Evaluation
from analytics import open_archive
from analytics.store import policy_store
from analytics.store.archive import ArchiveStore
from analytics.tables.derived.definitions import EVALUATIONS_TABLE
from analytics.tables.upkeep.archive_merge import MergeOptions, merge_archives
from analytics.tables.upkeep.compaction import compact_run
from analytics.tables.upkeep.garbage import list_unneeded_files, remove_replaced_files
from analytics.tables.verification.archive import verify_archive
from quarto.errors import FailureError
from quarto.rng import GAMMA, Streams
from quarto.views import BatchView, Position
from runners.arena import experiment
from runners.arena.execution import execute_request
from tests import naive
from tests.analytics.tables.verification.damage import changed, rewrite
from tests.paths import ROOT
from tests.runners.conftest import Qarena
from tests.runners.experiments import Watcher, assert_same_rows, build_run_request, play, read_archive_rows, store_at
from tests.runners.learning.training.trainings import without_pictures
from tests.runners.players import Batched, Dice, OneByOne

PLAYERS = "tests.runners.arena.test_evaluations"
OWN = f"{{agent:random,_target_:{PLAYERS}.Own,name:own}}"
AGENTS = "agents=[{agent:mcts,iterations:20},{agent:oracle,horizon:11},random]"
GAMES = (AGENTS, "games=40", "opening_plies=1", "threads=1", "seed=3")
SMALL = ("archive.shard_games=16",)
EVALUATIONS = "archive.evaluations=true"
EVALUATORS = {"free": "", "apart": ",isolation:process", "timed": ",turn_seconds:30"}
ALL_ROWS = "FROM evaluations ORDER BY run_id, ply, game_id"


class Conceited(OneByOne):
    def choose(self, position: Position, rng: np.random.Generator) -> Any:
        return *super().choose(position, rng), Evaluation(1.5)


class BatchEvaluator(Batched):
    def play(self, batch: BatchView, rng: Streams) -> Any:
        return *super().play(batch, rng), Evaluation(np.linspace(-1, 1, len(batch.hand)))


class Own(Dice):
    """Plays other games each time."""

    def choose(self, position: Position, rng: np.random.Generator) -> tuple[int, int]:
        return super().choose(position, np.random.default_rng())


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("made")
    play(root, *GAMES, *SMALL, EVALUATIONS)
    return root


def query(root: Path, question: str = ALL_ROWS) -> pl.DataFrame:
    with open_archive(root) as archive:
        return archive.sql(question)


def files(root: Path, table: str) -> set[str]:
    return {path.name for path in (root / table).rglob("*.parquet")}


def open_only_run(root: Path) -> tuple[ArchiveStore, str]:
    archive = ArchiveStore.open(root)
    return archive, archive.list_ids_of_runs_with_games()[0]


def has_no_problems(root: Path) -> bool:
    return not verify_archive(ArchiveStore.open(root)).problems


def test_games_are_the_same_with_and_without_and_there_is_a_row_for_each_turn(original: Path, tmp_path: Path) -> None:
    play(tmp_path, *GAMES, *SMALL)
    assert_same_rows(read_archive_rows(tmp_path), read_archive_rows(original))
    assert (files(tmp_path, "games"), files(tmp_path, "plies")) == (files(original, "games"), files(original, "plies"))
    assert (files(tmp_path, "evaluations"), len(query(tmp_path))) == (set(), 0)
    turns = query(original, "SELECT sum(plies - opening + 1) AS turns FROM games")["turns"].item()
    assert len(query(original)) == turns
    assert has_no_problems(original)


def test_each_agent_reports_its_own(original: Path) -> None:
    ranges = "SELECT agent, min(value) AS low, max(value) AS high, max(visits) AS visits FROM evaluations"
    assert query(original, f"{ranges} GROUP BY ALL ORDER BY ALL").rows() == [
        ("mcts(iterations=20)", -1.0, 1.0, 15),
        ("oracle(horizon=11)", -1.0, 1.0, None),
        ("random", None, None, None),
    ]
    wrong_rows = (
        "SELECT count(*) AS n FROM evaluations WHERE NOT (seat = (ply + 1) % 2 AND seconds >= 0 AND rules = 'classic')"
    )
    assert query(original, wrong_rows)["n"].item() == 0
    wrong_agent = "evaluations.agent <> CASE seat WHEN 0 THEN agent_0 ELSE agent_1 END"
    agents = f"SELECT count(*) AS n FROM evaluations JOIN games USING (run_id, game_id) WHERE {wrong_agent}"
    assert query(original, agents)["n"].item() == 0


def read_values(root: Path) -> pl.DataFrame:
    return query(root).drop("seconds")


def test_what_is_missing_is_played_again_and_only_that(original: Path, tmp_path: Path) -> None:
    play(tmp_path, *GAMES, "games=16", *SMALL)
    games_before = files(tmp_path, "games")
    watcher = Watcher()
    execute_request(
        store_at(tmp_path, build_run_request(*GAMES, *SMALL, EVALUATIONS)), "qarena run", threading.Event(), watcher
    )
    assert watcher.started == [120]
    assert files(tmp_path, "games") >= games_before
    assert_frame_equal(read_values(tmp_path), read_values(original))
    outcome = play(tmp_path, *GAMES, *SMALL, EVALUATIONS)
    assert (outcome.played, outcome.interrupted) == (0, False)
    assert has_no_problems(tmp_path)


def test_what_a_run_or_an_index_has_stored_is_missed_when_it_is_lost(copy: Path, qarena: Qarena) -> None:
    (record,) = ArchiveStore.open(copy).load_runs()
    assert record.derived == {"evaluations": record.units}
    assert qarena("archive", "index", "--archive", str(copy)).code == 0
    (record,) = ArchiveStore.open(copy).load_runs()
    assert record.derived == dict.fromkeys(("evaluations", "positions", "first_plies"), record.units)
    assert verify_archive(ArchiveStore.open(copy)).problems == []
    lost_file = min((copy / "evaluations").glob("*/*"))
    lost_file.unlink()
    (problem,) = verify_archive(ArchiveStore.open(copy)).problems
    problem_end = f"units, which were there: restore the files from a copy, or run '{EVALUATIONS_TABLE.command}' again"
    assert problem.fault.endswith(f" of {record.units} {problem_end}")
    result = qarena("sql", "SELECT count(*) FROM evaluations", "--archive", str(copy))
    assert (result.code, result.out) == (1, "")
    assert result.err == f"error: {problem.file} {problem.fault}\n"
    play(copy, *GAMES, *SMALL, EVALUATIONS)  # which plays these games again
    assert verify_archive(ArchiveStore.open(copy)).problems == []
    assert len(query(copy)) > 0


def test_after_an_interruption_the_rest_is_played(original: Path, tmp_path: Path) -> None:
    play(tmp_path, *GAMES, "archive.shard_games=64")
    stop = threading.Event()
    run_request = store_at(tmp_path, build_run_request(*GAMES, "archive.shard_games=8", EVALUATIONS))
    watcher = Watcher(stop, 16)
    assert execute_request(run_request, "qarena run", stop, watcher).interrupted
    assert watcher.started == [120]
    assert 0 < execute_request(run_request, "qarena run", threading.Event()).played < 120
    assert_frame_equal(read_values(tmp_path), read_values(original))


def test_games_that_differ_are_left_as_they_are(tmp_path: Path) -> None:
    overrides = (f"agents=[{OWN},random]", "games=20", "threads=1")
    play(tmp_path, *overrides)
    rows_before = read_archive_rows(tmp_path)
    with pytest.raises(FailureError, match="came out differently when they were played again"):
        play(tmp_path, *overrides, EVALUATIONS)
    assert_same_rows(read_archive_rows(tmp_path), rows_before)
    assert len(query(tmp_path)) == 0


def test_of_two_files_of_one_range_the_smaller_check_counts(copy: Path) -> None:
    archive, run_id = open_only_run(copy)
    folder = archive.folder("evaluations", run_id)
    file = archive.list_effective_ranges(run_id, "evaluations")[0]
    copy_of_file = file._replace(checksum="ffffffff")
    archive.write_file(folder / copy_of_file.name, archive.backend.read(folder / file.name))
    assert archive.list_effective_ranges(run_id, "evaluations")[0].checksum == min(file.checksum, copy_of_file.checksum)


def copy_archive(original: Path, tmp_path: Path) -> Path:
    merge_archives([ArchiveStore.open(original)], ArchiveStore.open(tmp_path / "copy", create=True), MergeOptions())
    return tmp_path / "copy"


@pytest.fixture
def copy(original: Path, tmp_path: Path) -> Path:
    return copy_archive(original, tmp_path)


def test_merging_copies_them_and_compacting_joins_them(original: Path, copy: Path) -> None:
    assert files(copy, "evaluations") == files(original, "evaluations")
    assert len(files(copy, "evaluations")) > 4
    archive, run_id = open_only_run(copy)
    compact_run(archive, run_id)
    assert len(archive.list_effective_ranges(run_id, "evaluations")) == 1
    assert_frame_equal(query(copy), query(original))
    assert has_no_problems(copy)
    remove_replaced_files(archive, run_id, 0)
    assert len(files(copy, "evaluations")) == 1
    assert not list_unneeded_files(ArchiveStore.open(copy))
    assert_frame_equal(query(copy), query(original))


def test_games_with_evaluations_stay_apart_from_those_without(tmp_path: Path) -> None:
    play(tmp_path, *GAMES, "games=16", *SMALL, EVALUATIONS)
    play(tmp_path, *GAMES, "games=64", *SMALL)
    rows_before = query(tmp_path)
    archive, run_id = open_only_run(tmp_path)
    compact_run(archive, run_id)
    assert len(archive.list_effective_ranges(run_id)) > 1
    assert_frame_equal(query(tmp_path), rows_before)


@pytest.mark.parametrize(
    ("column", "value", "problem"),
    [
        ("value", 1_000_001, "a value is not from -1 to 1"),
        ("seat", 0, "a seat is not that of its ply"),
        ("ply", 15, "its rows are not in order"),
        ("game_id", 1 << 40, "a turn is of no game"),
        ("microseconds", -1, "a number of visits or microseconds is below 0"),
    ],
)
def test_verify_names_what_is_wrong(copy: Path, column: str, value: int, problem: str) -> None:
    row = -1 if column in ("game_id", "microseconds") else 0
    archive, run_id = open_only_run(copy)
    rewrite(
        archive,
        EVALUATIONS_TABLE.name,
        lambda frame: changed(column, range(len(frame))[row], value)(frame),
        run_id=run_id,
    )
    problems = [str(fault) for fault in verify_archive(archive).problems]
    assert any(problem in text for text in problems), problems


def test_agents_in_python_also_in_processes_and_engines_may_return_evaluations(tmp_path: Path) -> None:
    reported_before = 'print("info value 0.5\\ninfo nodes 12 depth 3" if position[-1] < "8" else "info nodes many")'
    script = (ROOT / "runners/hosting/engines/examples/careful.py").read_text()
    engine = tmp_path / "engine.py"
    engine.write_text(script.replace("print(choose_turn(", f"{reported_before}; print(choose_turn("))
    evaluator = "agent:random,_target_:tests.runners.players.Evaluator"
    agents = [
        *(f"{{{evaluator},name:{name}{more}}}" for name, more in EVALUATORS.items()),
        f"{{agent:engine,command:'{sys.executable} {engine}',name:engine}}",
    ]
    root = tmp_path / "archive"
    play(root, f"agents=[random,{','.join(agents)}]", "schedule=gauntlet", "games=6", "threads=1", EVALUATIONS)
    answer = query(root, "SELECT agent, list(DISTINCT (value, visits)) AS evaluations FROM evaluations GROUP BY ALL")
    distinct = {agent: {tuple(pair.values()) for pair in evaluations} for agent, evaluations in answer.rows()}
    for name in EVALUATORS:
        assert distinct[name] == {(None, None), (0.25, 7), (None, 3)}
    assert distinct["engine"] == {(0.5, 12), (None, None)}
    assert has_no_problems(root)


def test_a_batch_may_have_an_evaluation_and_one_out_of_range_forfeits_with_and_without_the_option(
    tmp_path: Path,
) -> None:
    players = (f"{{agent:random,_target_:{PLAYERS}.{name},name:{name}}}" for name in ("Conceited", "BatchEvaluator"))
    overrides = (f"agents=[{','.join(players)}]", "games=12", "threads=1", "keep_going=true")
    for folder, more in (("a", (EVALUATIONS,)), ("b", ())):
        play(tmp_path / folder, *overrides, *more)
    assert_same_rows(read_archive_rows(tmp_path / "b"), read_archive_rows(tmp_path / "a"))
    assert {*read_archive_rows(tmp_path / "a")["games"]["ending"]} == {"forfeit_error"}
    extremes = "SELECT min(value), max(value) FROM evaluations WHERE agent = 'BatchEvaluator'"
    assert query(tmp_path / "a", extremes).row(0) == (-1.0, 1.0)


def test_a_policy_is_learned_from_values_and_rebuilt_bit_for_bit(copy: Path, qarena: Qarena) -> None:
    archive, run_id = open_only_run(copy)
    where = ("--archive", str(copy))
    learned = ("kind=line_values", "kind.method=evaluations", "kind.passes=1")
    with without_pictures():
        built = qarena("policy", "build", *learned, "name=mine", *where)
    assert built.code == 0, built.err
    card = policy_store.find(archive, "mine")
    values = query(
        copy, "SELECT game_id, ply, round(value * 1e6)::INTEGER AS v FROM evaluations WHERE value IS NOT NULL"
    )
    mask, total, gamma = (1 << 64) - 1, 0, int(GAMMA)
    for game_id, ply, value in values.filter(pl.col("ply") >= 0).iter_rows():
        word = naive.mix((game_id + gamma) & mask) ^ (((ply << 32) ^ (value & mask)) + gamma & mask)
        total = (total + naive.mix(word)) & mask
    assert card.learned["evaluations"] == {run_id: f"{total:016x}"}
    assert qarena("policy", "rebuild", "mine", *where).out.startswith("identical")

    def changed_values(frame: pl.DataFrame) -> pl.DataFrame:
        return frame.with_columns(value=pl.when(pl.col("value").abs() < 400_000).then(-7).otherwise("value"))

    rewrite(archive, EVALUATIONS_TABLE.name, lambda frame: changed_values(frame).cast(frame.schema), 0, run_id)
    again = qarena("policy", "rebuild", "mine", *where)
    assert again.code == 1
    assert f"the evaluations of run {run_id} are not what they were" in again.out + again.err


def test_no_id_depends_on_it() -> None:
    assert build_run_request(*GAMES, EVALUATIONS).spec.run_id == build_run_request(*GAMES).spec.run_id
    assert experiment.build_engine(build_run_request(*GAMES).spec).collects_evaluations is False
