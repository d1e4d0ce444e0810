"""All large work gives the same with workers as with threads, and nothing that a lost worker has done counts twice."""

from __future__ import annotations

import pickle
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from analytics import open_archive
from analytics.exact.annotation import AnnotationOptions
from analytics.exact.tablebase_build import BuildProgress, ChunkStore, TablebaseBuildRequest, build_tablebase
from analytics.questions.selection import ALL_GAMES
from analytics.store import policy_store
from analytics.store.archive import ArchiveStore
from analytics.tables.verification.archive import verify_archive
from quarto.rules import Rules
from runners.arena.executors.base import THREADS, Executor, Task, Worker, WorkerPool
from runners.arena.executors.processes import TaskData, TaskResult, build_task_data, log_and_unwrap_result, run_task
from runners.arena.indexing import index_and_compact_sums
from runners.exact.annotation import annotate_games
from runners.exact.tablebases import solve_chunks
from tests.runners.conftest import Qarena
from tests.runners.experiments import play

QUICK = Rules("quick", diagonals="broken", squares="wrapped", chooser="mover")  # 157 boards of three pieces


class Inline(Executor):
    """An executor of a user's own, which pickles what would travel and carries everything out in this process.

    It carries out one chunk after the other, and counts them in ``chunks``. The first chunk is lost once after its
    work.
    """

    chunks = 0  # carried out by all objects
    shares_memory = False

    def count_workers(self, threads: int) -> int:
        return threads

    def count_processes_using_local_memory(self, threads: int) -> int:
        return threads

    def open_pool(self, task: Task[Any, Any] | Worker[Any, Any], threads: int, stop: threading.Event) -> WorkerPool:
        return InlinePool(build_task_data(task, Path.cwd()), stop)


class InlinePool(WorkerPool):
    """A single worker, which is lost once."""

    most_pending, pending = 1, 0

    def __init__(self, task: TaskData, stop: threading.Event) -> None:
        self._task, self._stop = task, stop
        self._task_results: list[TaskResult] = []
        self._logged_messages: set[str] = set()
        self._is_first = True

    def submit(self, chunk: Any) -> None:
        Inline.chunks += 1
        self.pending = 1
        for _ in range(1 + self._is_first):  # what a lost worker has written is written again
            task_result: Any = run_task(self._task, pickle.loads(pickle.dumps(chunk)), self._stop)  # noqa: S301  (its own)
        self._is_first = False
        self._task_results = [task_result]

    def wait_for_results(self) -> Iterator[Any]:
        self.pending = 0
        for task_result in self._task_results:
            yield log_and_unwrap_result(pickle.loads(pickle.dumps(task_result)), self._logged_messages)  # noqa: S301

    def forward_stop_to_processes(self) -> None:
        """Do nothing, because the task sees the request itself."""

    def release_workers_abandoning_chunks(self) -> None:
        """Do nothing, because nothing is in progress."""


@pytest.fixture(scope="module")
def source_archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Create an archive of two runs with five files of games."""
    root = tmp_path_factory.mktemp("source_archive") / "archive"
    for games in (20, 40):
        play(root, "agents=[random,semi_random]", f"games={games}", "opening_plies=12", "threads=1")
    play(root, "agents=[random,rule_based]", "games=30", "opening_plies=12", "threads=1")
    return root


@pytest.fixture
def roots(source_archive: Path, tmp_path: Path) -> tuple[Path, Path]:
    """Copy the archive twice."""
    for name in ("here", "there"):
        shutil.copytree(source_archive, tmp_path / name)
    return tmp_path / "here", tmp_path / "there"


@pytest.fixture
def executors(tmp_path: Path) -> dict[str, Executor]:
    Inline.chunks = 0
    return {"here": THREADS, "there": Inline()}


def assert_same_view(view: str, roots: tuple[Path, Path]) -> None:
    views = []
    for root in roots:
        with open_archive(root) as opened:
            views.append(opened.sql(f"FROM {view} ORDER BY ALL"))
    assert len(views[0])
    assert_frame_equal(*views)


def test_an_index_and_annotations(roots: tuple[Path, Path], executors: dict[str, Executor]) -> None:
    totals = []
    for root in roots:
        archive = ArchiveStore.open(root)
        totals.append(
            index_and_compact_sums(archive, archive.list_ids_of_runs_with_games(), 16, 1, executors[root.name])
        )
    assert totals[0] == totals[1]
    assert totals[0][0].games == 70
    assert Inline.chunks == 2  # of up to eight files each
    local_line, remote_line = (
        annotate_games(root, ALL_GAMES, AnnotationOptions(megabytes=0.1), 1, executors[root.name]) for root in roots
    )
    assert local_line.partition(" judged in ")[0] == remote_line.partition(" judged in ")[0]
    assert "of 70 games" in local_line
    assert Inline.chunks == 2 + 5
    for view in ("positions", "decisions"):
        assert_same_view(view, roots)
    assert verify_archive(ArchiveStore.open(roots[1])).problems == []


@pytest.mark.slow
def test_a_tablebase(tmp_path: Path, executors: dict[str, Executor], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("analytics.exact.tablebase_build.CHUNK_BOARDS", 40)
    tables, solved = {}, dict.fromkeys(executors, 0)
    for name, executor in executors.items():
        job = TablebaseBuildRequest(QUICK, 3, tmp_path / name, 1, 1.0)

        def advance(boards: int, name: str = name) -> None:
            solved[name] += boards

        def solving(chunks: ChunkStore, stop: threading.Event, executor: Executor = executor) -> None:
            solve_chunks(chunks, executor, 1, stop)

        progress = BuildProgress(lambda _all, _done: None, advance)
        tablebase = build_tablebase(job, {"version": "1", "fingerprint": "ab"}, threading.Event(), progress, solving)
        assert tablebase is not None
        tables[name] = pl.read_parquet(tablebase.path)
    assert_frame_equal(tables["here"], tables["there"])
    assert solved["here"] == solved["there"] > 0
    assert (solved["there"], Inline.chunks) == (157, 4)


@pytest.fixture
def inline(tmp_path: Path) -> tuple[str, ...]:
    """Write the configuration of an executor of a user's own, and return the options that choose it."""
    (tmp_path / "own/executor").mkdir(parents=True)
    (tmp_path / "own/executor/inline.yaml").write_text(
        "_target_: tests.runners.arena.executors.test_large_work.Inline\n"
    )
    Inline.chunks = 0
    return "--config-dir", "own", "executor=inline"


@pytest.mark.slow
def test_a_policy_that_follows_from_counts(roots: tuple[Path, Path], inline: tuple[str, ...], qarena: Qarena) -> None:
    cards, where = [], "agent_0 = 'random' AND game_id % 3 > 0"
    for root, how in zip(roots, ((), inline), strict=True):
        result = qarena("policy", "build", "kind=gift", "name=g", "--where", where, "--archive", str(root), *how)
        assert (result.code, result.err) == (0, "")
        cards.append(policy_store.find(ArchiveStore.open(root), "g"))
    assert Inline.chunks == 5
    local_card, remote_card = cards
    assert local_card.knowledge == remote_card.knowledge
    changing_keys = ("command",)
    assert [{key: value for key, value in card.learned.items() if key not in changing_keys} for card in cards] == [
        {key: value for key, value in local_card.learned.items() if key not in changing_keys}
    ] * 2
    tables = [
        policy_store.read_table(ArchiveStore.open(root), card, "games") for root, card in zip(roots, cards, strict=True)
    ]
    assert_frame_equal(*tables)
    assert qarena("policy", "rebuild", "g", "--archive", str(roots[1])).code == 0


def test_what_workers_cannot_do_says_why_it_stays_here(inline: tuple[str, ...], qarena: Qarena) -> None:
    trained = qarena("train", "trainer=q_table", "trainer.games=20", "--archive", "a", *inline)
    assert trained.code == 0
    assert trained.err == (
        "trainer q_table plays in this process, on one thread, whatever the executor is: it learns from each game "
        "before the next one is played\n"
    )
    built = qarena("policy", "build", "kind=q_table", "name=q", "--archive", "a", *inline)
    assert built.code == 0
    assert built.err == (
        "kind q_table is derived in this process, whatever the executor is: it needs all games at once\n"
    )
    assert Inline.chunks == 0
