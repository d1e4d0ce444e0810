"""Tablebases: building them by any executor, checking and printing them; also exact counts of games."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import typer
from numpy.typing import NDArray

from analytics.exact import tablebase_build
from analytics.exact.tablebase import Card, Tablebase, largest_for, open_tablebase, same_game, tablebases
from analytics.exact.tablebase_build import BuildJob, Chunks, solved
from analytics.exact.theory import report
from analytics.questions.columns import Table, column, words
from quarto.errors import RequestError
from quarto.perft import perft
from quarto.rules import Rules
from quarto.solver.solver import Solver
from quarto.sources import source_fingerprint
from runners.arena.code import version
from runners.arena.executors.base import Executor, Stop, Task, available_megabytes
from runners.config.options import load_rules, names
from runners.hosting.interruption import exit_code, interruptible
from runners.terminal import console


def build(job: BuildJob, executor: Executor, command: str) -> int:
    """Build a tablebase, or continue, and print its size; ``command``: the arguments to continue with.

    Returns the exit code. Raises ``RequestError`` for what cannot be built.
    """
    tables = executor.here(job.threads)
    tablebase_build.check(job, available_megabytes(), tables)
    needed = tablebase_build.needed_megabytes(job, tables)
    means = f"{job.threads} threads" if executor.shares_memory else "the chosen executor"
    console.print_note(
        f"{job.rules.name}, boards of up to {job.pieces} pieces: {needed:,.0f} MB of memory at most, {means}"
    )
    code = {"version": version(), "fingerprint": source_fingerprint(("quarto",))[:16]}
    with interruptible() as stop, console.progress_bar("solving", "boards") as bar:
        progress = tablebase_build.BuildProgress(bar.start, bar.advance)
        found = tablebase_build.build(
            job, code, stop, progress, lambda chunks, stop: solve(chunks, executor, job.threads, stop)
        )
    if found is None:
        console.print_note(f"interrupted; solved boards are kept in {job.chunks}. To continue:")
        console.print_note(f"  {console.program()} {command}")
        return exit_code()
    card, boards = found.card, sum(found.card.boards)
    size = f"{card.bytes:,} bytes ({card.bytes / boards:.2f} a board)"
    console.print_line(f"{found.path}: {boards:,} boards, {size}, {card.seconds:,.0f} seconds of one thread")
    return 0


def verify(file: Path | None, sample: int, megabytes: float) -> int:
    """Check a tablebase, or all, and print the problems. Returns the exit code: 1 if there are any.

    Raises ``RequestError`` if there is no such file.
    """
    if file is not None and not file.with_suffix(".json").exists():
        raise RequestError(f"there is no tablebase {file} (it has no card {file.with_suffix('.json').name} beside it)")
    problems = 0
    for found in [open_tablebase(file)] if file else list(tablebases()):
        wrong = list(tablebase_build.verify(found, sample, megabytes))
        problems += len(wrong)
        for line in wrong:
            typer.echo(console.escaped(line), err=True)
        counted = console.number_of(len(wrong), "problem")
        console.print_line(f"{found.path}: {sum(found.card.boards):,} boards, {counted}")
    return 1 if problems else 0


def show_tablebases(rules: str | None, theory: bool) -> None:
    """Print the tablebases, or as Markdown what they prove. Raises ``RequestError`` if there are none."""
    if theory:
        asked = [load_rules(rules)] if rules else [load_rules(name) for name in names("rules")]
        typer.echo(report([found for found in map(largest_for, asked) if found]), nl=False)
        return
    chosen = [found for found in tablebases() if rules is None or same_game(found.rules, load_rules(rules))]
    if not chosen:
        raise RequestError(f"there is no tablebase{f' for rules {rules}' if rules else ''}: build one")
    console.show(tablebase_tables(chosen))


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


def show_perft(rules: str, plies: int) -> None:
    """Print the counts of each ply under the rules of this name."""
    layers = perft(load_rules(rules), plies)
    headings = ("ply", "live prefixes", "games won at ply", "canonical boards", "of them live")
    columns = [column(heading, counts) for heading, counts in zip(headings, zip(*layers, strict=True), strict=True)]
    console.show([console.tabulated(columns, f"perft, {rules} rules")])


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
