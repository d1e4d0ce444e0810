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
from analytics.exact.tablebase import (
    Tablebase,
    TablebaseCard,
    find_largest_tablebase,
    is_equivalent_rules,
    list_tablebases,
    open_tablebase,
)
from analytics.exact.tablebase_build import ChunkStore, TablebaseBuildRequest, solve_chunk
from analytics.exact.theory import render_theory_page
from analytics.questions.columns import Table, format_count_with_noun, format_seconds, number_column, text_column
from quarto.errors import RequestError
from quarto.perft import perft
from quarto.rules import Rules
from quarto.solver.solver import Solver
from quarto.sources import source_fingerprint
from runners.arena.code_fingerprints import project_version
from runners.arena.executors.base import Executor, StopSignal, Task, Worker, available_megabytes
from runners.config.yaml_options import list_options, load_rules
from runners.hosting.interruption import exit_code, stop_on_signal
from runners.terminal import console

POLL_SECONDS = 0.1


def build_tablebase(request: TablebaseBuildRequest, executor: Executor, command: str) -> int:
    """Build a tablebase, or continue, and print its size; ``command``: the arguments to continue with.

    Returns the exit code. Raises ``RequestError`` for what cannot be built.
    """
    tables = executor.count_processes_using_local_memory(request.threads)
    tablebase_build.check_build(request, available_megabytes(), tables)
    needed = tablebase_build.compute_needed_megabytes(request, tables)
    means = f"{request.threads} threads" if executor.shares_memory else "the chosen executor"
    console.print_note(
        f"{request.rules.name}, boards of up to {request.pieces} pieces: {needed:,.0f} MB of memory at most, {means}"
    )
    code = {"version": project_version(), "fingerprint": source_fingerprint(("quarto",))[:16]}
    with stop_on_signal() as stop, console.show_progress_bar("solving", "boards") as bar:
        progress = tablebase_build.BuildProgress(bar.start, bar.advance)
        found = tablebase_build.build_tablebase(
            request, code, stop, progress, lambda chunks, stop: solve_chunks(chunks, executor, request.threads, stop)
        )
    if found is None:
        console.print_note(f"interrupted; solved boards are kept in {request.chunk_folder}. To continue:")
        console.print_note(f"  {console.find_program()} {command}")
        return exit_code()
    card, boards = found.card, sum(found.card.boards)
    size = f"{card.bytes:,} bytes ({card.bytes / boards:.2f} a board)"
    console.print_line(f"{found.path}: {boards:,} boards, {size}, {card.seconds:,.0f} seconds of one thread")
    return 0


def verify_and_print_tablebases(file: Path | None, sample: int, megabytes: float) -> int:
    """Check a tablebase, or all, and print the problems. Returns the exit code: 1 if there are any.

    Raises ``RequestError`` if there is no such file.
    """
    if file is not None and not file.with_suffix(".json").exists():
        raise RequestError(f"there is no tablebase {file} (it has no card {file.with_suffix('.json').name} beside it)")
    problems = 0
    for found in [open_tablebase(file)] if file else list(list_tablebases()):
        wrong = list(tablebase_build.verify_tablebase(found, sample, megabytes))
        problems += len(wrong)
        for line in wrong:
            typer.echo(console.escape_hidden_characters(line), err=True)
        counted = format_count_with_noun(len(wrong), "problem")
        console.print_line(f"{found.path}: {sum(found.card.boards):,} boards, {counted}")
    return 1 if problems else 0


def print_tablebases(rules: str | None, theory: bool) -> None:
    """Print the tablebases, or as Markdown what they prove. Raises ``RequestError`` if there are none."""
    if theory:
        asked = [load_rules(rules)] if rules else [load_rules(name) for name in list_options("rules")]
        typer.echo(render_theory_page([found for found in map(find_largest_tablebase, asked) if found]), nl=False)
        return
    chosen = [
        found for found in list_tablebases() if rules is None or is_equivalent_rules(found.rules, load_rules(rules))
    ]
    if not chosen:
        raise RequestError(f"there is no tablebase{f' for rules {rules}' if rules else ''}: build one")
    console.print_tables(build_tablebase_tables(chosen))


def build_tablebase_tables(tablebases: Sequence[Tablebase]) -> list[Table]:
    """A list of tablebases, then for each the number of boards by pieces and value for the player to act."""
    cards = [each.card for each in tablebases]
    columns = [
        text_column("rules", [str(card.rules["name"]) for card in cards]),
        number_column("pieces", [card.pieces for card in cards]),
        number_column("boards", [sum(card.boards) for card in cards]),
        number_column("bytes", [card.bytes for card in cards]),
        number_column("thread seconds", [card.seconds for card in cards], format_seconds),
        text_column("built", [card.created[:10] for card in cards]),
        text_column("file", ["ships" if each.is_shipped else str(each.path) for each in tablebases]),
    ]
    return [console.build_table(columns), *map(_build_layers_table, cards)]


def _build_layers_table(card: TablebaseCard) -> Table:
    counts_by_result = {"boards": card.boards, "won": card.won, "drawn": card.drawn, "lost": card.lost}
    columns = [number_column(name, counts) for name, counts in counts_by_result.items()]
    pieces = number_column("pieces", range(card.pieces + 1))
    return console.build_table([pieces, *columns], f"{card.rules['name']}, up to {card.pieces} pieces")


def print_perft(rules: str, plies: int) -> None:
    """Print the counts of each ply under the rules of this name."""
    layers = perft(load_rules(rules), plies)
    headings = ("ply", "live prefixes", "games won at ply", "canonical boards", "of them live")
    columns = [
        number_column(heading, counts) for heading, counts in zip(headings, zip(*layers, strict=True), strict=True)
    ]
    console.print_tables([console.build_table(columns, f"perft, {rules} rules")])


class BoardChunk(NamedTuple):
    """Boards of a tablebase that one task solves: their keys, and as its result their values."""

    first: int  # the number of its first board
    content: NDArray[np.integer[Any]]  # [N] keys, uint64, or values, int8
    seconds: float = 0.0  # of one thread


@dataclass(frozen=True)
class SolveBoardsTask(Task[BoardChunk, BoardChunk | None]):
    """Solves chunks. The threads of a process share what they find."""

    rules: Mapping[str, Any]  # the fields of ``Rules``
    megabytes: float

    def build_worker(self) -> Worker[BoardChunk, BoardChunk | None]:
        rules = Rules(**self.rules)
        shared_solver = Solver(rules, self.megabytes)

        def solve(chunk: BoardChunk, stop: StopSignal) -> BoardChunk | None:
            solver = shared_solver.fork()
            with _forward_stop(solver, stop):
                found = solve_chunk(solver, rules, np.asarray(chunk.content, np.uint64))
            return None if found is None else BoardChunk(chunk.first, *found)

        return solve


def solve_chunks(chunk_store: ChunkStore, executor: Executor, threads: int, stop: threading.Event) -> None:
    """Solve what is left of a tablebase and store it, until ``stop`` is set."""
    task = SolveBoardsTask(asdict(chunk_store.request.rules), chunk_store.request.megabytes)
    unsolved = (BoardChunk(first, chunk_store.chunk_keys(first)) for first in list(chunk_store.unsolved_chunks))
    for found in executor.map(task, unsolved, threads, stop):
        if found is not None and found.first in chunk_store.unsolved_chunks:
            chunk_store.write_chunk(found.first, np.asarray(found.content, np.int8), found.seconds)


@contextmanager
def _forward_stop(solver: Solver, stop: StopSignal) -> Iterator[None]:
    """Inside the context, stop the solver, whose searches take any time, once ``stop`` is set."""
    ended = threading.Event()

    def stop_solver_when_set() -> None:
        while not ended.wait(POLL_SECONDS):
            if stop.is_set():
                solver.stop()
                return

    watching = threading.Thread(target=stop_solver_when_set, daemon=True)
    watching.start()
    try:
        yield
    finally:
        ended.set()
        watching.join()
