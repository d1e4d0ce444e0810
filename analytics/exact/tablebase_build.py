"""Building tablebases on any number of threads, and verifying them; a build that was killed resumes.

The boards with the most pieces are solved in chunks, and each chunk is stored as soon as it is solved. The values of
all smaller boards then follow by look-up. The result does not depend on threads, memory or interruptions.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from threading import Event
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from analytics.exact.tablebase import VALUES, BoardTable, Tablebase, name_of, open_tablebase, read, same_game, write
from analytics.store.files.backend import explained
from analytics.store.files.local import replace
from analytics.store.records import now
from quarto.errors import FailureError, RequestError
from quarto.perft import boards_of_keys, layers_of_keys
from quarto.rules import Rules
from quarto.solver.solver import Solver
from quarto.solver.table import base_bytes, base_of

CHUNK_BOARDS = 512  # seconds to minutes of work: a killed job loses at most as much for each thread
STEP_BOARDS = 8  # solved between two looks whether the solver was stopped
DIGEST = 32  # bytes of the SHA-256 that a chunk's file begins with
MOST_PIECES = 7  # 51 million boards under classic rules
# Number of boards by pieces under the rules with the fewest symmetries: an upper bound for estimates of memory.
MOST_BOARDS = (1, 3, 84, 1586, 39_055, 850_000, 15_300_000, 205_000_000)


class BuildJob(NamedTuple):
    """A tablebase to build."""

    rules: Rules
    pieces: int  # of the largest boards
    folder: Path  # of the tablebase and, while it is built, its chunks
    threads: int
    megabytes: float  # of the table that the searches share

    @property
    def chunks(self) -> Path:
        digest = hashlib.sha256(json.dumps(asdict(self.rules), sort_keys=True).encode()).hexdigest()
        return self.folder / f"{name_of(self.rules, self.pieces)}-{digest[:12]}.building"  # rules may share a name

    @property
    def path(self) -> Path:
        """The tablebase's table."""
        return self.folder / f"{name_of(self.rules, self.pieces)}.parquet"


class BuildProgress(NamedTuple):
    """Callbacks that show progress."""

    start: Callable[[int, int], None]  # number of boards to solve, and of those that are solved already
    advance: Callable[[int], None]  # number of boards that were solved


def needed_megabytes(job: BuildJob, tables: int = 1) -> float:
    """The most memory that a job may need: its tables, keys and boards of the largest layer, and the base."""
    boards = MOST_BOARDS[job.pieces]
    return tables * job.megabytes * 1.25 + (boards * 60 + base_bytes(boards)) / (1 << 20)


def check(job: BuildJob, available_megabytes: float, tables: int = 1) -> None:
    """Check a job, for which so many processes have a table each.

    Raises ``RequestError`` for a value out of range, and for a job that does not fit into memory. It also does if the
    file is the tablebase of other rules of the same name.
    """
    if not 1 <= job.pieces <= MOST_PIECES:
        raise RequestError(f"pieces={job.pieces} is not among 1 to {MOST_PIECES}: larger boards are too many to store")
    if job.threads < 1:
        raise RequestError(f"threads={job.threads} is not a number of threads: ask for at least 1")
    if not job.megabytes > 0:
        raise RequestError(f"megabytes={job.megabytes} is not a size: ask for more than 0")
    if job.path.with_suffix(".json").exists() and not same_game(open_tablebase(job.path).rules, job.rules):
        raise RequestError(
            f"{job.path} is the tablebase of other rules that are named {job.rules.name!r} too: give these another "
            "name, or build in another --directory"
        )
    if needed_megabytes(job, tables) <= available_megabytes:
        return
    rest = (available_megabytes - needed_megabytes(job._replace(megabytes=0.0))) / tables
    fits = 1 << max(0, int(rest / 1.25).bit_length() - 1)
    advice = f"the largest that fits is --memory {fits}MiB" if rest >= 1.25 else "ask for fewer pieces"
    raise RequestError(
        f"a table of {job.megabytes:,.0f} MB for boards of up to {job.pieces} pieces takes "
        f"{needed_megabytes(job, tables):,.0f} MB in all, of {available_megabytes:,.0f} MB of free memory: {advice}"
    )


def build(
    job: BuildJob,
    code: Mapping[str, str],
    stop: Event,
    progress: BuildProgress,
    solve: Callable[[Chunks, Event], None],
) -> Tablebase | None:
    """Build a tablebase, or resume building it; None once ``stop`` is set: boards solved by then are kept.

    ``solve`` solves chunks, and keeps them, until none is left or ``stop`` is set. Raises ``RequestError`` when another
    process builds it, ``FailureError`` when a file cannot be written.
    """
    keys = list(layers_of_keys(job.rules, job.pieces))
    with explained("write", job.chunks):
        job.chunks.mkdir(parents=True, exist_ok=True)
    with _alone(job.chunks):
        chunks = Chunks(job, keys[-1], progress)
        if chunks.left:
            solve(chunks, stop)
        if chunks.left:
            return None
        layers = smaller(job.rules, keys, chunks.values)
        seconds = round(_seconds(job.chunks), 1)
        found = write(job.path, job.rules, layers, {"created": now(), "seconds": seconds, "code": dict(code)})
        shutil.rmtree(job.chunks)
    return found


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Lock a folder, so that only one process builds in it. The lock ends with the process."""
    with (folder / "lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise RequestError(f"another process builds in {folder}: wait for it, or stop it first") from error
        yield


class Chunks:
    """The largest boards of a tablebase, in chunks; those that a stopped build has stored are read."""

    def __init__(self, job: BuildJob, keys: NDArray[np.uint64], progress: BuildProgress) -> None:
        self.job = job
        self.values = np.zeros(len(keys), np.int8)  # [N]
        self.progress = progress
        self._keys = keys
        firsts = range(0, len(keys), CHUNK_BOARDS)
        # The first boards of the chunks that are not solved.
        self.left = {
            first: None for first in firsts if not _read_chunk(job.chunks, first, self.values[self._span(first)])
        }
        progress.start(len(keys), len(keys) - sum(len(self.keys(first)) for first in self.left))

    def keys(self, first: int) -> NDArray[np.uint64]:
        """The keys of a chunk's boards."""
        return self._keys[self._span(first)]

    def keep(self, first: int, values: NDArray[np.int8], seconds: float) -> None:
        """Store the values of a chunk, which one thread found in ``seconds``. Raises ``FailureError``.

        Its file holds the SHA-256 of the rest, the seconds (float64, little-endian), the values (int8).
        """
        self.values[self._span(first)] = values
        content = np.array([seconds], "<f8").tobytes() + values.tobytes()
        with explained("write", self.job.chunks):
            replace(_chunk_path(self.job.chunks, first), hashlib.sha256(content).digest() + content)
        del self.left[first]
        self.progress.advance(len(values))

    def _span(self, first: int) -> slice:
        return slice(first, min(first + CHUNK_BOARDS, len(self.values)))


def solved(solver: Solver, rules: Rules, keys: NDArray[np.uint64]) -> tuple[NDArray[np.int8], float] | None:
    """The values of a chunk's boards and the seconds that they took; None if the solver was stopped."""
    started, values = time.monotonic(), np.zeros(len(keys), np.int8)
    lanes, occupied = boards_of_keys(keys, rules)
    for step in range(0, len(keys), STEP_BOARDS):
        part = slice(step, min(step + STEP_BOARDS, len(keys)))
        values[part] = solver.values(lanes[part], occupied[part])
        if solver.stopped:
            return None
    return values, time.monotonic() - started


def _chunk_path(folder: Path, first: int) -> Path:
    return folder / f"values-{first:09d}.chunk"


def _read_chunk(folder: Path, first: int, values: NDArray[np.int8]) -> bool:
    """Read a chunk into ``values``; false if it is missing or damaged."""
    path = _chunk_path(folder, first)
    if not path.exists():
        return False
    content = path.read_bytes()
    if len(content) != DIGEST + 8 + len(values) or hashlib.sha256(content[DIGEST:]).digest() != content[:DIGEST]:
        return False
    values[:] = np.frombuffer(content[DIGEST + 8 :], np.int8)
    return True


def _seconds(folder: Path) -> float:
    """The sum of the seconds that the chunks took."""
    parts = (path.read_bytes()[DIGEST : DIGEST + 8] for path in folder.glob("values-*.chunk"))
    return sum(float(np.frombuffer(part, "<f8")[0]) for part in parts)


def smaller(
    rules: Rules, keys: Sequence[NDArray[np.uint64]], largest: NDArray[np.int8]
) -> list[tuple[NDArray[np.uint64], NDArray[np.int8]]]:
    """Keys and values of all layers, given the values of the last: each follows from the one with a piece more."""
    layers = [(keys[-1], largest)]
    for pieces in range(len(keys) - 2, -1, -1):
        above, values = layers[-1]
        solver = Solver(rules, 0.0, base_of(above, values, pieces + 1))
        layers.append((keys[pieces], solver.values(*boards_of_keys(keys[pieces], rules))))
    return layers[::-1]


def verify(tablebase: Tablebase, sample: int, megabytes: float) -> Iterator[str]:
    """Yield the problems of a tablebase, one line each.

    It checks:

    - its checksum;
    - its boards, against those that play reaches;
    - the values of smaller boards, against those of the larger boards that turns lead to;
    - the values of a random ``sample`` of the largest boards, solved from the rules alone with a table of
      ``megabytes``.
    """
    try:
        table = read(tablebase)
    except FailureError as error:
        yield str(error)
        return
    wrong = list(_boards(tablebase, table))
    yield from wrong
    if not wrong:
        yield from _values(tablebase, table)
        yield from _solved(tablebase, table, sample, megabytes)


def _boards(tablebase: Tablebase, table: BoardTable) -> Iterator[str]:
    card = tablebase.card
    expected = layers_of_keys(tablebase.rules, card.pieces)
    for pieces, (part, keys) in enumerate(zip(card.layers, expected, strict=True)):
        if not np.array_equal(table.keys[part], keys) or (table.pieces[part] != pieces).any():
            yield f"{tablebase.path}: its boards of {pieces} pieces are not the {len(keys):,} that play reaches"
        counts = [int((table.values[part] == value).sum()) for value in VALUES]
        if counts != [card.won[pieces], card.drawn[pieces], card.lost[pieces]]:
            yield f"{tablebase.path}: {counts} boards of {pieces} pieces are won, drawn, lost, unlike on its card"


def _values(tablebase: Tablebase, table: BoardTable) -> Iterator[str]:
    parts = tablebase.card.layers
    layers = smaller(tablebase.rules, [table.keys[part] for part in parts], table.values[parts[-1]])
    for pieces, ((_, values), part) in enumerate(zip(layers, parts, strict=True)):
        wrong = int((values != table.values[part]).sum())
        if wrong:
            yield f"{tablebase.path}: {wrong:,} boards of {pieces} pieces do not have the value that their turns give"


def _solved(tablebase: Tablebase, table: BoardTable, sample: int, megabytes: float) -> Iterator[str]:
    part = tablebase.card.layers[-1]
    keys, values = table.keys[part], table.values[part]
    chosen = np.sort(np.random.default_rng().choice(len(keys), min(sample, len(keys)), replace=False))
    solver = Solver(tablebase.rules, megabytes)
    found = solver.values(*boards_of_keys(keys[chosen], tablebase.rules))
    for i in np.flatnonzero(found != values[chosen]):
        yield f"{tablebase.path}: the board with key {keys[chosen[i]]} has value {found[i]}, not {values[chosen[i]]}"
