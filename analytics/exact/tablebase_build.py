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

from analytics.exact.tablebase import (
    VALUES,
    BoardTable,
    LayerValues,
    Tablebase,
    is_same_rules_except_name,
    open_tablebase,
    read_tablebase,
    tablebase_name,
    write_tablebase,
)
from analytics.store.files.backend import explain_errors
from analytics.store.files.local_files import replace_file
from analytics.store.records import format_current_time
from quarto.errors import FailureError, RequestError
from quarto.perft import decode_board_keys, generate_key_layers
from quarto.rules import Rules
from quarto.solver.solver import Solver
from quarto.solver.table import build_tablebase_index, tablebase_index_bytes

CHUNK_BOARDS = 512  # seconds to minutes of work: a killed job loses at most as much for each thread
STEP_BOARDS = 8  # solved between two looks whether the solver was stopped
DIGEST_BYTES = 32  # bytes of the SHA-256 that a chunk's file begins with
MAX_PIECES = 7  # 51 million boards under classic rules
# Number of boards by pieces under the rules with the fewest symmetries: an upper bound for estimates of memory.
MAX_BOARDS = (1, 3, 84, 1586, 39_055, 850_000, 15_300_000, 205_000_000)


class TablebaseBuildRequest(NamedTuple):
    """The tablebase to build, and the resources for building it."""

    rules: Rules
    pieces: int  # of the largest boards
    folder: Path  # of the tablebase and, while it is built, its chunks
    threads: int
    megabytes: float  # of the table that the searches share

    @property
    def chunk_folder(self) -> Path:
        digest = hashlib.sha256(json.dumps(asdict(self.rules), sort_keys=True).encode()).hexdigest()
        return (
            self.folder / f"{tablebase_name(self.rules, self.pieces)}-{digest[:12]}.building"
        )  # rules may share a name

    @property
    def path(self) -> Path:
        """The path of the Parquet file that will hold the table."""
        return self.folder / f"{tablebase_name(self.rules, self.pieces)}.parquet"


class BuildProgress(NamedTuple):
    """Callbacks that report the progress of a build."""

    start: Callable[[int, int], None]  # number of boards to solve, and how many of them are solved already
    advance: Callable[[int], None]  # number of boards that were solved


def compute_needed_megabytes(request: TablebaseBuildRequest, table_count: int = 1) -> float:
    """Return an upper bound on the memory, in MiB, that a build needs.

    The bound covers the search tables, the largest layer and the finished tablebase. ``table_count`` is the number of
    processes, each of which has a search table.
    """
    boards = MAX_BOARDS[request.pieces]
    return table_count * request.megabytes * 1.25 + (boards * 60 + tablebase_index_bytes(boards)) / (1 << 20)


def check_build(request: TablebaseBuildRequest, available_megabytes: float, table_count: int = 1) -> None:
    """Check that the requested tablebase can be built in ``available_megabytes`` of memory.

    ``table_count`` is the number of processes, each of which has a search table. Raises ``RequestError`` if a value is
    out of range, if the build does not fit into memory, or if the file to write already exists and holds the tablebase
    of different rules that have the same name.
    """
    if not 1 <= request.pieces <= MAX_PIECES:
        raise RequestError(
            f"pieces={request.pieces} is not among 1 to {MAX_PIECES}: larger boards are too many to store"
        )
    if request.threads < 1:
        raise RequestError(f"threads={request.threads} is not a number of threads: ask for at least 1")
    if not request.megabytes > 0:
        raise RequestError(f"megabytes={request.megabytes} is not a size: ask for more than 0")
    if request.path.with_suffix(".json").exists() and not is_same_rules_except_name(
        open_tablebase(request.path).rules, request.rules
    ):
        raise RequestError(
            f"{request.path} is the tablebase of other rules that are named {request.rules.name!r} too: give these "
            "another name, or build in another --directory"
        )
    if compute_needed_megabytes(request, table_count) <= available_megabytes:
        return
    rest = (available_megabytes - compute_needed_megabytes(request._replace(megabytes=0.0))) / table_count
    fits = 1 << max(0, int(rest / 1.25).bit_length() - 1)
    advice = f"the largest that fits is --memory {fits}MiB" if rest >= 1.25 else "ask for fewer pieces"
    needed = compute_needed_megabytes(request, table_count)
    raise RequestError(
        f"a table of {request.megabytes:,.0f} MB for boards of up to {request.pieces} pieces takes {needed:,.0f} MB in "
        f"all, of {available_megabytes:,.0f} MB of free memory: {advice}"
    )


def build_tablebase(
    request: TablebaseBuildRequest,
    code: Mapping[str, str],
    stop: Event,
    progress: BuildProgress,
    solve_chunks: Callable[[ChunkStore, Event], None],
) -> Tablebase | None:
    """Build a tablebase, or resume an interrupted build; return the tablebase, or None if ``stop`` was set.

    If ``stop`` was set, the boards that were solved by then remain stored. ``solve_chunks`` solves chunks and stores
    them until none is left or ``stop`` is set. ``code`` describes the code that builds the tablebase, for the card.
    Raises ``RequestError`` if another process is building this tablebase, and ``FailureError`` if a file cannot be
    written.
    """
    keys = list(generate_key_layers(request.rules, request.pieces))
    with explain_errors("write", request.chunk_folder):
        request.chunk_folder.mkdir(parents=True, exist_ok=True)
    with _lock_folder(request.chunk_folder):
        chunks = ChunkStore(request, keys[-1], progress)
        if chunks.unsolved_chunks:
            solve_chunks(chunks, stop)
        if chunks.unsolved_chunks:
            return None
        layers = solve_smaller_layers(request.rules, keys, chunks.values)
        seconds = round(_sum_seconds(request.chunk_folder), 1)
        tablebase = write_tablebase(
            request.path,
            request.rules,
            layers,
            {"created": format_current_time(), "seconds": seconds, "code": dict(code)},
        )
        shutil.rmtree(request.chunk_folder)
    return tablebase


@contextmanager
def _lock_folder(folder: Path) -> Iterator[None]:
    """Lock a folder inside the context, so that only one process builds in it.

    If the process ends, the lock ends too. Raises ``RequestError`` if another process holds the lock.
    """
    with (folder / "lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise RequestError(f"another process builds in {folder}: wait for it, or stop it first") from error
        yield


class ChunkStore:
    """The boards of a tablebase that have the most pieces, which are solved and stored in chunks.

    Chunks that an interrupted build stored are read back.
    """

    def __init__(self, request: TablebaseBuildRequest, keys: NDArray[np.uint64], progress: BuildProgress) -> None:
        self.request = request
        self.values = np.zeros(len(keys), np.int8)  # [N]
        self.progress = progress
        self._keys = keys
        firsts = range(0, len(keys), CHUNK_BOARDS)
        # The first boards of the chunks that are not solved.
        self.unsolved_chunks = {
            first: None
            for first in firsts
            if not _read_chunk_if_valid(request.chunk_folder, first, self.values[self._chunk_slice(first)])
        }
        progress.start(len(keys), len(keys) - sum(len(self.chunk_keys(first)) for first in self.unsolved_chunks))

    def chunk_keys(self, first: int) -> NDArray[np.uint64]:
        """Return the keys of the boards in the chunk that begins with board ``first``."""
        return self._keys[self._chunk_slice(first)]

    def write_chunk_and_mark_solved(self, first: int, values: NDArray[np.int8], seconds: float) -> None:
        """Store the values of the chunk that begins with board ``first``, and mark the chunk as solved.

        ``seconds`` is the time that one thread took to solve the chunk. The file begins with the SHA-256 of its other
        bytes, which are the seconds (float64, little-endian) and the values (int8). Raises ``FailureError`` if the file
        cannot be written.
        """
        self.values[self._chunk_slice(first)] = values
        content = np.array([seconds], "<f8").tobytes() + values.tobytes()
        with explain_errors("write", self.request.chunk_folder):
            replace_file(_chunk_path(self.request.chunk_folder, first), hashlib.sha256(content).digest() + content)
        del self.unsolved_chunks[first]
        self.progress.advance(len(values))

    def _chunk_slice(self, first: int) -> slice:
        return slice(first, min(first + CHUNK_BOARDS, len(self.values)))


class SolvedChunk(NamedTuple):
    """The values of a chunk's boards, and the time that solving them took."""

    values: NDArray[np.int8]  # [B]
    seconds: float  # that solving took


def solve_chunk(solver: Solver, rules: Rules, keys: NDArray[np.uint64]) -> SolvedChunk | None:
    """Solve the boards of a chunk and return their values, or None if the solver was stopped."""
    started, values = time.monotonic(), np.zeros(len(keys), np.int8)
    lanes, occupied = decode_board_keys(keys, rules)
    for step in range(0, len(keys), STEP_BOARDS):
        part = slice(step, min(step + STEP_BOARDS, len(keys)))
        values[part] = solver.values(lanes[part], occupied[part])
        if solver.stopped:
            return None
    return SolvedChunk(values, time.monotonic() - started)


def _chunk_path(folder: Path, first: int) -> Path:
    return folder / f"values-{first:09d}.chunk"


def _read_chunk_if_valid(folder: Path, first: int, values: NDArray[np.int8]) -> bool:
    """Read a chunk into ``values`` and return True, or return False if the chunk's file is missing or damaged."""
    path = _chunk_path(folder, first)
    if not path.exists():
        return False
    content = path.read_bytes()
    if (
        len(content) != DIGEST_BYTES + 8 + len(values)
        or hashlib.sha256(content[DIGEST_BYTES:]).digest() != content[:DIGEST_BYTES]
    ):
        return False
    values[:] = np.frombuffer(content[DIGEST_BYTES + 8 :], np.int8)
    return True


def _sum_seconds(folder: Path) -> float:
    """Return the total time, in seconds, that solving the stored chunks took."""
    parts = (path.read_bytes()[DIGEST_BYTES : DIGEST_BYTES + 8] for path in folder.glob("values-*.chunk"))
    return sum(float(np.frombuffer(part, "<f8")[0]) for part in parts)


def solve_smaller_layers(
    rules: Rules, keys: Sequence[NDArray[np.uint64]], largest_values: NDArray[np.int8]
) -> list[LayerValues]:
    """Return the keys and values of all layers, given the values of the layer with the most pieces.

    ``keys[n]`` holds the keys of the boards with ``n`` pieces. The values of each layer follow from the values of the
    layer with one more piece.
    """
    layers = [LayerValues(keys[-1], largest_values)]
    for pieces in range(len(keys) - 2, -1, -1):
        above, values = layers[-1]
        solver = Solver(rules, 0.0, build_tablebase_index(above, values, pieces + 1))
        layers.append(LayerValues(keys[pieces], solver.values(*decode_board_keys(keys[pieces], rules))))
    return layers[::-1]


def verify_tablebase(tablebase: Tablebase, sample_size: int, megabytes: float) -> Iterator[str]:
    """Yield the problems found in a tablebase, one line each.

    The checks are:

    - the table has the checksum that its card names;
    - the boards are those that play can reach, and as many are won, drawn and lost as the card says;
    - the values of boards agree with the values of the boards that one more placement reaches;
    - the values of ``sample_size`` random boards with the most pieces agree with a search that uses only the rules.

    ``megabytes`` is the size of the table of this search.
    """
    try:
        table = read_tablebase(tablebase)
    except FailureError as error:
        yield str(error)
        return
    wrong = list(_verify_boards_and_value_counts(tablebase, table))
    yield from wrong
    if not wrong:
        yield from _verify_values(tablebase, table)
        yield from _verify_sample_of_largest_boards(tablebase, table, sample_size, megabytes)


def _verify_boards_and_value_counts(tablebase: Tablebase, table: BoardTable) -> Iterator[str]:
    card = tablebase.card
    expected = generate_key_layers(tablebase.rules, card.pieces)
    for pieces, (part, keys) in enumerate(zip(card.layer_slices, expected, strict=True)):
        if not np.array_equal(table.keys[part], keys) or (table.pieces[part] != pieces).any():
            yield f"{tablebase.path}: its boards of {pieces} pieces are not the {len(keys):,} that play reaches"
        counts = [int((table.values[part] == value).sum()) for value in VALUES]
        if counts != [card.won[pieces], card.drawn[pieces], card.lost[pieces]]:
            yield f"{tablebase.path}: boards of {pieces} pieces: {counts} are won, drawn, lost, unlike on its card"


def _verify_values(tablebase: Tablebase, table: BoardTable) -> Iterator[str]:
    parts = tablebase.card.layer_slices
    layers = solve_smaller_layers(tablebase.rules, [table.keys[part] for part in parts], table.values[parts[-1]])
    for pieces, ((_, values), part) in enumerate(zip(layers, parts, strict=True)):
        wrong = int((values != table.values[part]).sum())
        if wrong:
            yield f"{tablebase.path}: turns give other values than those of {wrong:,} of the boards of {pieces} pieces"


def _verify_sample_of_largest_boards(
    tablebase: Tablebase, table: BoardTable, sample_size: int, megabytes: float
) -> Iterator[str]:
    part = tablebase.card.layer_slices[-1]
    keys, values = table.keys[part], table.values[part]
    chosen = np.sort(np.random.default_rng().choice(len(keys), min(sample_size, len(keys)), replace=False))
    solver = Solver(tablebase.rules, megabytes)
    solved = solver.values(*decode_board_keys(keys[chosen], tablebase.rules))
    for i in np.flatnonzero(solved != values[chosen]):
        yield f"{tablebase.path}: the board with key {keys[chosen[i]]} has value {solved[i]}, not {values[chosen[i]]}"
