"""Tablebases: solving their chunks by any executor, and printing them; also exact counts of games."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from analytics.perfect.tablebase import Card, Tablebase
from analytics.perfect.tablebase_build import Chunks, solved
from analytics.results.columns import Table, column, words
from quarto.perft import Layer
from quarto.rules import Rules
from quarto.solver.solver import Solver
from runners.executors.base import Executor, Stop, Task
from runners.terminal import console


def tablebase_tables(found: Sequence[Tablebase]) -> list[Table]:
    """A list of tablebases, then for each the number of boards by pieces and value for the player to act."""
    cards = [each.card for each in found]
    columns = [
        words("rules", [str(card.rules["name"]) for card in cards]),
        column("pieces", [card.pieces for card in cards]),
        column("boards", [sum(card.boards) for card in cards]),
        column("bytes", [card.bytes for card in cards]),
        column("thread seconds", [card.seconds for card in cards], "{:,.0f}".format),
        words("built", [card.created[:10] for card in cards]),
        words("file", ["ships" if each.shipped else str(each.path) for each in found]),
    ]
    return [console.tabulated(columns), *map(_layers_table, cards)]


def _layers_table(card: Card) -> Table:
    parts = {"boards": card.boards, "won": card.won, "drawn": card.drawn, "lost": card.lost}
    columns = [column(name, counts) for name, counts in parts.items()]
    pieces = column("pieces", range(card.pieces + 1))
    return console.tabulated([pieces, *columns], f"{card.rules['name']}, up to {card.pieces} pieces")


def perft_table(rules: str, layers: Sequence[Layer]) -> Table:
    """The counts of each ply."""
    headings = ("ply", "live prefixes", "games won at ply", "canonical boards", "of them live")
    columns = [column(heading, counts) for heading, counts in zip(headings, zip(*layers, strict=True), strict=True)]
    return console.tabulated(columns, f"perft, {rules} rules")


POLL_SECONDS = 0.1


class BoardChunk(NamedTuple):
    """A chunk of boards: their keys, then their values."""

    first: int  # the number of its first board
    content: NDArray[np.integer[Any]]  # [N] keys, uint64, or values, int8
    seconds: float = 0.0  # of one thread


@dataclass(frozen=True)
class SolveTask(Task):
    """Solves chunks. The threads of a process share what they find."""

    rules: Mapping[str, Any]  # the fields of ``Rules``
    megabytes: float

    def __call__(self, part: BoardChunk, stop: Stop) -> BoardChunk | None:
        rules = Rules(**self.rules)
        solver = self.once("solver", lambda: Solver(rules, self.megabytes)).fork()
        with _stopping(solver, stop):
            found = solved(solver, rules, np.asarray(part.content, np.uint64))
        return None if found is None else BoardChunk(part.first, *found)


def solve(chunks: Chunks, executor: Executor, threads: int, stop: threading.Event) -> None:
    """Solve what is left of a tablebase and store it, until ``stop`` is set."""
    task = SolveTask(asdict(chunks.job.rules), chunks.job.megabytes)
    parts = (BoardChunk(first, chunks.keys(first)) for first in list(chunks.left))
    for found in executor.map(task, parts, threads, stop):
        if found is not None and found.first in chunks.left:
            chunks.keep(found.first, np.asarray(found.content, np.int8), found.seconds)


@contextmanager
def _stopping(solver: Solver, stop: Stop) -> Iterator[None]:
    """Inside the context, stop the solver, whose searches take any time, once ``stop`` is set."""
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(POLL_SECONDS):
            if stop.is_set():
                solver.stop()
                return

    watching = threading.Thread(target=watch, daemon=True)
    watching.start()
    try:
        yield
    finally:
        ended.set()
        watching.join()
