"""One contract of every command that can go on: whatever ends it early, the same command ends with the same rows.

A command is a process with several threads. It is killed at random moments, and given again until it ends by itself; or
the disk refuses. A reader beside it never sees less than before.
"""

from __future__ import annotations

import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import polars as pl
import pytest

from analytics.questions.sql.database import OpenArchive
from analytics.store import policy_store
from analytics.store.archive import ArchiveStore
from analytics.store.ranges import StoredRange
from analytics.store.records import SweepJob
from analytics.tables.derived.definitions import TABLE_FOLDERS, NotIndexedError
from analytics.tables.derived.indexing import index_runs
from analytics.tables.upkeep.garbage import list_unneeded_files, remove_unneeded_files
from analytics.tables.verification.archive import verify_archive
from quarto.errors import RequestError
from runners.cli import main
from tests.analytics.folders import snapshot
from tests.analytics.stored_policies import COUNTS, origin
from tests.marks import seldom

NAME = "games here"  # of the archive, in the folder where a command is typed
HERE = "--archive", NAME
RUN = (
    *("run", "agent@a=rule_based", "agent@b=random", "opening_plies=2", "games=600", "threads=3"),
    *(f"archive.root={NAME}", "archive.shard_games=8"),
)
ANNOTATE = "annotate", *HERE, "--from-pieces", "10", "--choices", "--threads", "3", "--memory", "4MiB"
INDEX = "archive", "index", *HERE, "--threads", "3"
COMPACT = "archive", "compact", *HERE  # removes only what nobody has needed for ten minutes
MERGE = "archive", "merge", "source", NAME
COMPACT_AND_REMOVE_ALL = "archive", "compact", "--age", "0", *HERE
COMPACT_BESIDE_WRITERS = "archive", "compact", "--age", "1s", *HERE  # no writer needs a temporary file for longer
DEADLINE = 120.0  # seconds that no command takes here

NUMBERS = (
    *(f"SELECT count(*) FROM {view}" for view in ("games", "plies", "decisions")),
    *(f"SELECT coalesce(sum(games), 0)::BIGINT FROM {view}" for view in ("runs", "first_plies", "positions")),
)
ROWS = (
    *(f"FROM {view} ORDER BY ALL" for view in ("games", "plies", "decisions", "first_plies", "results")),
    "SELECT position, ply, cell, piece, sum(games), min(sample_game) FROM positions GROUP BY ALL ORDER BY ALL",
    "SELECT run_id, status, games FROM runs",
    "SELECT name, policy_id FROM policies",
    "SELECT sweep_id, job, status FROM sweeps",
)
State = tuple[Mapping[Any, Any], Mapping[str, Sequence[Any]]]  # see ``read_state``

# What commands import and prepare when they are carried out. A process that starts a command has it all, but no thread.
MODULES = ("config.application", "config.execution", "terminal.tables", "cli.queries", "exact.annotation")
READY = ("tests.commands_ready", *(f"runners.{name}" for name in MODULES), "analytics.tables.upkeep.archive_merge")
PROCESSES = get_context("forkserver")
PROCESSES.set_forkserver_preload([__name__, *READY])


def run_in_process(folder: str, arguments: tuple[str, ...], most_bytes: int = resource.RLIM_INFINITY) -> None:
    """Carry out ``qarena …`` as the work of a process, which may write files of at most so many bytes."""
    os.chdir(folder)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, resource.RLIM_INFINITY))
    log = os.open("log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for stream in (1, 2):
        os.dup2(log, stream)
    sys.argv = ["qarena", *arguments]
    main.main()


def start(folder: Path, arguments: tuple[str, ...], most_bytes: int = resource.RLIM_INFINITY) -> BaseProcess:
    process = PROCESSES.Process(target=run_in_process, args=(str(folder), arguments, most_bytes), daemon=True)
    process.start()
    return process


def carry_out(folder: Path, arguments: tuple[str, ...]) -> float:
    """Carry a command out; the seconds that it took."""
    began, process = time.monotonic(), start(folder, arguments)
    process.join(DEADLINE)
    assert process.exitcode == 0, (folder / "log").read_text()
    return time.monotonic() - began


# The archives that commands find, each made once: most of them by the command before.


class Undisturbed(NamedTuple):
    """What a command leaves that nobody kills."""

    folder: Path
    seconds: float
    state: State


class Archives:
    """Carries each command out once, when that is needed first."""

    def __init__(self, new_folder: Callable[[], Path]) -> None:
        self._new_folder = new_folder
        self._known: dict[str, Undisturbed] = {}

    def get_undisturbed(self, name: str) -> Undisturbed:
        """Return what a command leaves when nobody disturbs it."""
        if name not in self._known:
            folder, command = self._new_folder(), COMMANDS.get(name, LARGER_FILES)
            command.scene(folder, self)
            before = snapshot(folder / NAME)
            seconds = carry_out(folder, command.arguments)
            assert snapshot(folder / NAME) != before
            self._known[name] = Undisturbed(folder, seconds, read_state(folder / NAME))
        return self._known[name]

    def copy(self, name: str, place: Path) -> ArchiveStore:
        """Copy the archive that a command leaves to another place."""
        shutil.copytree(self.get_undisturbed(name).folder / NAME, place, dirs_exist_ok=True)
        return ArchiveStore.open(place)


def prepare_nothing(folder: Path, archives: Archives) -> None:
    """Prepare nothing: the run is the archive's first."""


def copy_games(folder: Path, archives: Archives) -> None:
    """Copy games in files that are not so many that they become one by themselves."""
    archives.copy("larger files", folder / NAME)


def copy_annotated_games(folder: Path, archives: Archives) -> None:
    archives.copy("annotate", folder / NAME)


def index_small_files(folder: Path, archives: Archives) -> None:
    archive = archives.copy("annotate", folder / NAME)
    index_runs(archive, archive.list_ids_of_runs_with_games())


def copy_all_tables(folder: Path, archives: Archives) -> None:
    archives.copy("index", folder / NAME)


def copy_two_archives(folder: Path, archives: Archives) -> None:
    """Copy two archives: the destination has fewer games, and its last file ends where no file of the source does."""
    source = archives.copy("index", folder / "source")
    policy_store.save(source, COUNTS, origin())
    source.write_sweep_job(SweepJob("sweep", 0, {"games": "600"}))
    carry_out(folder, (*RUN, "games=204"))


def write_garbage(folder: Path, archives: Archives) -> None:
    """Write what compaction replaced, and what killed writers leave."""
    archive = archives.copy("compact", folder / NAME)
    for table in TABLE_FOLDERS:
        folder_of_table = Path(archive.folder(table, archive.list_ids_of_runs_with_games()[0]))
        folder_of_table.mkdir(parents=True, exist_ok=True)
        (folder_of_table / f".tmp-{uuid4().hex}").write_bytes(b"half")
        if table != "games":
            extent = {"decisions": "16", "positions": "06"}.get(table, "")
            (folder_of_table / StoredRange(1024, 1032, 7, "01234567", extent).name).write_bytes(b"of no games")


class Command(NamedTuple):
    """A command that can go on, and what it finds in the folder where it is typed."""

    arguments: tuple[str, ...]
    scene: Callable[[Path, Archives], None]


COMMANDS = {
    "run": Command(RUN, prepare_nothing),
    "annotate": Command(ANNOTATE, copy_games),
    "index": Command(INDEX, copy_annotated_games),
    "roll up": Command(INDEX, index_small_files),
    "compact": Command(COMPACT, copy_all_tables),
    "merge": Command(MERGE, copy_two_archives),
    "remove": Command(COMPACT_AND_REMOVE_ALL, write_garbage),
}
LARGER_FILES = Command((*RUN[:-1], "archive.shard_games=16"), prepare_nothing)


@pytest.fixture(scope="module")
def archives(tmp_path_factory: pytest.TempPathFactory) -> Archives:
    return Archives(lambda: tmp_path_factory.mktemp("undisturbed"))


# What an archive says.


def ask_questions(root: Path, questions: Sequence[str]) -> Mapping[str, pl.DataFrame]:
    """Return the answers to questions in SQL; none to those that need an index which is not there yet."""
    frames = {}
    with OpenArchive(root) as opened:
        for question in questions:
            with suppress(NotIndexedError):
                frames[question] = opened.sql(question)
    return frames


def read_state(root: Path) -> State:
    """Return the rows of an archive, and the fingerprint of the games that each table holds."""
    archive = ArchiveStore.open(root)
    ranges_by_table = [
        (run_id, table, archive.list_effective_ranges(run_id, table))
        for run_id in archive.list_ids_of_runs_with_games()
        for table in TABLE_FOLDERS
    ]
    sums = {(run_id, table): (ranges.covered_ranges, ranges.fingerprint) for run_id, table, ranges in ranges_by_table}
    return sums, {question: frame.rows() for question, frame in ask_questions(root, ROWS).items()}


def read_counts(root: Path) -> dict[str, int]:
    """Return what a reader counts, in SQL and by the names of files."""
    archive = ArchiveStore.open(root)
    units = {
        f"{run_id} {table}": archive.list_effective_ranges(run_id, table).units
        for run_id in archive.list_ids_of_runs_with_games()
        for table in TABLE_FOLDERS
    }
    return units | {question: frame.item() for question, frame in ask_questions(root, NUMBERS).items()}


@contextmanager
def watch_counts(root: Path) -> Iterator[None]:
    """Count all the time, on a thread, and fail if what was there once is not there ever after."""
    done, wrong = threading.Event(), list[object]()

    def look() -> None:
        highest: dict[str, int] = {}
        try:
            while not done.is_set() and not wrong:
                with suppress(RequestError):  # there is no archive yet
                    current = read_counts(root)
                    decreased = [name for name, count in highest.items() if current.get(name, 0) < count]
                    wrong.extend((name, highest[name], current.get(name)) for name in decreased)
                    highest = current
                time.sleep(0.1)
        except Exception as error:  # noqa: BLE001  (whatever a reader meets fails the test)
            wrong.append(error)

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
    assert not wrong


# The contract.


@pytest.mark.parametrize(
    ("name", "seed", "kills"),
    [("run", 1, 1), *seldom(*((name, 2, 10) for name in COMMANDS))],
)
def test_a_command_that_is_killed_at_any_moment_ends_with_the_same_rows_when_it_is_given_again(
    archives: Archives, tmp_path: Path, name: str, seed: int, kills: int
) -> None:
    command, expected, dice = COMMANDS[name], archives.get_undisturbed(name), random.Random(seed)
    moments = list[float]()
    while len(moments) < kills:
        folder = tmp_path / str(len(moments))
        folder.mkdir()
        command.scene(folder, archives)
        with watch_counts(folder / NAME):
            while kill_after(folder, command, moment := expected.seconds * dice.random()):
                moments.append(moment)
                if len(moments) == kills:
                    carry_out(folder, command.arguments)
                    break
        assert_as_if_nobody_had_killed_it(folder, command, expected.state)
        shutil.rmtree(folder)


def kill_after(folder: Path, command: Command, moment: float) -> bool:
    """Carry a command out and kill it after so many seconds, unless it ends before."""
    process = start(folder, command.arguments)
    process.join(moment)
    process.kill()
    process.join()
    assert process.exitcode in (0, -signal.SIGKILL), (folder / "log").read_text()
    return process.exitcode != 0


def assert_as_if_nobody_had_killed_it(folder: Path, command: Command, expected: State) -> None:
    archive = ArchiveStore.open(folder / NAME)
    assert verify_archive(archive).problems == []
    before = snapshot(folder / NAME)
    carry_out(folder, command.arguments)
    assert snapshot(folder / NAME) == before
    remove_unneeded_files(archive, list_unneeded_files(archive), 0)
    assert list_unneeded_files(archive) == []
    assert read_state(folder / NAME) == expected


# Several at once.


@pytest.mark.parametrize(("players", "beside"), [(2, ()), *seldom((6, (COMPACT, COMPACT_BESIDE_WRITERS)))])
def test_processes_play_one_run_at_once(
    archives: Archives, tmp_path: Path, players: int, beside: Sequence[tuple[str, ...]]
) -> None:
    expected = archives.get_undisturbed("run")
    with watch_counts(tmp_path / NAME):
        racing = [start(tmp_path, RUN) for _ in range(players)]
        while any(process.exitcode is None for process in racing):
            time.sleep(0.05)
            for arguments in beside if (tmp_path / NAME / "games").exists() else ():
                carry_out(tmp_path, arguments)
        assert [process.exitcode for process in racing] == [0] * players, (tmp_path / "log").read_text()
    assert_as_if_nobody_had_killed_it(tmp_path, COMMANDS["run"], expected.state)


# Commands that ask for other numbers of games, in files of other sizes: the last files of these overlap.
ASKED = ((330, 128), (340, 32), (300, 8), (600, 64), (478, 16), (254, 256))


@pytest.mark.parametrize(("kills", "players"), [(0, 2), *seldom((60, 6))])
def test_processes_ask_for_other_numbers_of_games_at_once(
    archives: Archives, tmp_path: Path, kills: int, players: int
) -> None:
    """Processes are killed beside maintenance, and each command is given again until it ends by itself."""
    expected, dice = archives.get_undisturbed("run"), random.Random(7)
    commands = [
        (*RUN[:-1], f"games={games}", f"archive.shard_games={most}") for games, most in (*ASKED[:players], (600, 8))
    ]
    upkeep = (COMPACT, COMPACT_BESIDE_WRITERS)
    with watch_counts(tmp_path / NAME):
        racing = [start(tmp_path, command) for command in commands]
        while kills:
            time.sleep(0.3 * dice.random())
            number = dice.randrange(len(commands))
            kills -= racing[number].is_alive()
            racing[number].kill()
            racing[number].join()
            racing[number] = start(tmp_path, commands[number])
            if kills % 10 == 0 and (tmp_path / NAME / "games").exists():
                carry_out(tmp_path, dice.choice(upkeep))
        for process in racing:
            process.join(DEADLINE)
        assert [process.exitcode for process in racing] == [0] * len(racing), (tmp_path / "log").read_text()
    assert_as_if_nobody_had_killed_it(tmp_path, COMMANDS["run"], expected.state)


# A disk that refuses.

SMALLEST = 1200  # bytes: every file of a table is larger
REFUSALS = {
    "full": r"the disk is full: free some space and run the same command again",
    "limited": r"a limit on the size of files was hit \(see 'ulimit -f'\): raise it and run the same command again",
    "read-only": r"(?i)read-only file system|the file system is read-only|archive games here is not writable",
}


@contextmanager
def mount_disk(folder: Path) -> Iterator[Callable[[str], None]]:
    """Mount a disk of its own at a folder; the function changes its options."""

    def mount(options: str) -> None:
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)], check=False)
        if done.returncode:
            pytest.skip("this machine does not let us mount a small disk")

    mount("size=1g")
    try:
        yield lambda options: mount(f"remount,{options}")
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def sum_blocks(folder: Path) -> int:
    """Return the bytes of the blocks of files."""
    return sum(-(-len(content) // 4096) * 4096 for content in snapshot(folder).values())


@pytest.mark.parametrize(
    ("name", "refusal"),
    [
        ("run", "full"),
        *seldom(*((name, "full") for name in ("annotate", "index", "roll up", "compact", "merge"))),
        *seldom(*((name, "limited") for name in ("annotate", "index", "roll up", "compact", "merge"))),
        *seldom(*((name, "read-only") for name in COMMANDS)),
    ],
)
def test_a_disk_that_refuses_costs_one_line_and_nothing_that_was_there(
    archives: Archives, tmp_path: Path, name: str, refusal: str
) -> None:
    command, expected = COMMANDS[name], archives.get_undisturbed(name)
    (tmp_path / NAME).mkdir()
    with mount_disk(tmp_path / NAME) as change:
        command.scene(tmp_path, archives)
        before, used = snapshot(tmp_path / NAME), sum_blocks(tmp_path / NAME)
        if refusal == "full":
            change(f"size={(used + sum_blocks(expected.folder / NAME)) // 2}")
        if refusal == "read-only":
            change("ro")
        (tmp_path / "log").unlink(missing_ok=True)
        process = start(tmp_path, command.arguments, SMALLEST if refusal == "limited" else resource.RLIM_INFINITY)
        process.join(DEADLINE)
        assert process.exitcode in (1, 2), (tmp_path / "log").read_text()
        message = (tmp_path / "log").read_text().splitlines()[-1]
        assert message.startswith("error: ")
        assert re.search(REFUSALS[refusal], message)
        change("rw,size=1g")
        after = snapshot(tmp_path / NAME)
        assert before.items() <= after.items() | {entry for entry in before.items() if entry[0].parent.name == "runs"}
        if (tmp_path / NAME / "archive.json").exists():
            assert verify_archive(ArchiveStore.open(tmp_path / NAME)).problems == []
        carry_out(tmp_path, command.arguments)
        assert_as_if_nobody_had_killed_it(tmp_path, command, expected.state)
