"""Commands on tablebases: building them by any executor, checking and printing them; also exact counts of games."""

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
    is_same_rules_except_name,
    list_tablebases,
    open_tablebase,
)
from analytics.exact.tablebase_build import ChunkStore, TablebaseBuildRequest, solve_chunk
from analytics.exact.theory import render_theory_page
from analytics.questions.columns import Table, format_seconds, number_column, text_column
from analytics.store.texts import format_count_with_noun
from quarto.errors import RequestError
from quarto.perft import perft
from quarto.rules import Rules
from quarto.solver.solver import Solver
from quarto.sources import source_fingerprint
from runners.arena.code_fingerprints import project_version
from runners.arena.executors.base import Executor, StopSignal, Task, Worker, available_megabytes
from runners.config.yaml_options import list_options, load_rules
from runners.hosting.interruption import exit_code, stop_on_signal_then_interrupt_then_exit
from runners.terminal import console

POLL_SECONDS = 0.1


def build_tablebase(request: TablebaseBuildRequest, executor: Executor, command: str) -> int:
    """Build a tablebase, or continue an interrupted build, and print its size; return the exit code.

    ``command`` is the user's command line without the program; if the build is interrupted, a note says to run it
    again. Raises ``RequestError`` for a tablebase that cannot be built, for example because there is too little memory.
    """
    tables = executor.count_processes_using_local_memory(request.threads)
    tablebase_build.check_build(request, available_megabytes(), tables)
    needed = tablebase_build.compute_needed_megabytes(request, tables)
    means = f"{request.threads} threads" if executor.shares_memory else "the chosen executor"
    console.print_note(
        f"{request.rules.name}, boards of up to {format_count_with_noun(request.pieces, 'piece')}: "
        f"{needed:,.0f} MB of memory at most, {means}"
    )
    code = {"version": project_version(), "fingerprint": source_fingerprint(("quarto",))[:16]}
    with (
        stop_on_signal_then_interrupt_then_exit() as stop,
        console.show_progress_bar_or_notes("solving", "boards") as bar,
    ):
        progress = tablebase_build.BuildProgress(bar.start, bar.advance)
        tablebase = tablebase_build.build_tablebase(
            request, code, stop, progress, lambda chunks, stop: solve_chunks(chunks, executor, request.threads, stop)
        )
    if tablebase is None:
        console.print_note(f"interrupted; solved boards are kept in {request.chunk_folder}. To continue:")
        console.print_note(f"  {console.find_program()} {command}")
        return exit_code()
    card, boards = tablebase.card, sum(tablebase.card.boards)
    size = f"{card.bytes:,} bytes ({card.bytes / boards:.2f} a board)"
    console.print_line(
        f"{tablebase.path}: {format_count_with_noun(boards, 'board')}, {size}, "
        f"{card.seconds:,.0f} seconds of one thread"
    )
    return 0


def verify_and_print_tablebases(file: Path | None, sample: int, megabytes: float) -> int:
    """Check a tablebase, or all tablebases if ``file`` is None, and print the problems; return the exit code.

    The exit code is 1 if there are problems, otherwise 0. In each tablebase, ``sample`` boards are drawn at random from
    those with the most pieces. They are solved again by a search that uses a table of ``megabytes`` MiB. Raises
    ``RequestError`` if the file does not exist.
    """
    if file is not None and not file.with_suffix(".json").exists():
        raise RequestError(f"there is no tablebase {file} (it has no card {file.with_suffix('.json').name} beside it)")
    problem_count = 0
    for tablebase in [open_tablebase(file)] if file else list(list_tablebases()):
        tablebase_problems = list(tablebase_build.verify_tablebase(tablebase, sample, megabytes))
        problem_count += len(tablebase_problems)
        for line in tablebase_problems:
            typer.echo(console.escape_hidden_characters(line), err=True)
        count_text = format_count_with_noun(len(tablebase_problems), "problem")
        console.print_line(
            f"{tablebase.path}: {format_count_with_noun(sum(tablebase.card.boards), 'board')}, {count_text}"
        )
    return 1 if problem_count else 0


def print_tablebases(rules: str | None, theory: bool) -> None:
    """Print the tablebases or, with ``theory``, print in Markdown what they prove.

    If ``rules`` is given, only the tablebases of these rules are considered.
    Raises ``RequestError`` if there are no tablebases.
    """
    if theory:
        rule_sets = [load_rules(rules)] if rules else [load_rules(name) for name in list_options("rules")]
        typer.echo(render_theory_page([base for base in map(find_largest_tablebase, rule_sets) if base]), nl=False)
        return
    tablebases = [
        base for base in list_tablebases() if rules is None or is_same_rules_except_name(base.rules, load_rules(rules))
    ]
    if not tablebases:
        raise RequestError(f"there is no tablebase{f' for rules {rules}' if rules else ''}: build one")
    console.print_tables(build_tablebase_tables(tablebases))


def build_tablebase_tables(tablebases: Sequence[Tablebase]) -> list[Table]:
    """Build a table of the tablebases and, for each tablebase, a table of its boards by number of pieces and value."""
    cards = [tablebase.card for tablebase in tablebases]
    columns = [
        text_column("rules", [str(card.rules["name"]) for card in cards]),
        number_column("pieces", [card.pieces for card in cards]),
        number_column("boards", [sum(card.boards) for card in cards]),
        number_column("bytes", [card.bytes for card in cards]),
        number_column("thread seconds", [card.seconds for card in cards], format_seconds),
        text_column("built", [card.created[:10] for card in cards]),
        text_column("file", ["ships" if base.is_shipped else str(base.path) for base in tablebases]),
    ]
    return [console.build_escaped_table(columns), *map(_build_layers_table, cards)]


def _build_layers_table(card: TablebaseCard) -> Table:
    counts_by_result = {"boards": card.boards, "won": card.won, "drawn": card.drawn, "lost": card.lost}
    columns = [number_column(name, counts) for name, counts in counts_by_result.items()]
    pieces = number_column("pieces", range(card.pieces + 1))
    return console.build_escaped_table(
        [pieces, *columns], f"{card.rules['name']}, up to {format_count_with_noun(card.pieces, 'piece')}"
    )


def print_perft(rules: str, plies: int) -> None:
    """Print exact counts of games and canonical boards at each ply up to ``plies``, under the rules named ``rules``."""
    layers = perft(load_rules(rules), plies)
    headings = ("ply", "live prefixes", "games won at ply", "canonical boards", "of them live")
    columns = [
        number_column(heading, counts) for heading, counts in zip(headings, zip(*layers, strict=True), strict=True)
    ]
    console.print_tables([console.build_escaped_table(columns, f"perft, {rules} rules")])


class BoardChunk(NamedTuple):
    """Boards of a tablebase that one task solves. A worker receives their keys, and sends back their values."""

    first: int  # the number of its first board
    content: NDArray[np.integer[Any]]  # [N] keys, uint64, or values, int8
    seconds: float = 0.0  # of one thread


@dataclass(frozen=True)
class SolveBoardsTask(Task[BoardChunk, BoardChunk | None]):
    """A task that solves chunks of boards; the threads of a process share the positions that they have solved."""

    rules: Mapping[str, Any]  # the fields of ``Rules``
    megabytes: float

    def build_worker(self) -> Worker[BoardChunk, BoardChunk | None]:
        rules = Rules(**self.rules)
        shared_solver = Solver(rules, self.megabytes)

        def solve(chunk: BoardChunk, stop: StopSignal) -> BoardChunk | None:
            solver = shared_solver.fork()
            with _forward_stop(solver, stop):
                solved = solve_chunk(solver, rules, np.asarray(chunk.content, np.uint64))
            return None if solved is None else BoardChunk(chunk.first, *solved)

        return solve


def solve_chunks(chunk_store: ChunkStore, executor: Executor, threads: int, stop: threading.Event) -> None:
    """Solve the chunks of a tablebase that are not solved yet, and store their values, until ``stop`` is set."""
    task = SolveBoardsTask(asdict(chunk_store.request.rules), chunk_store.request.megabytes)
    unsolved = (BoardChunk(first, chunk_store.chunk_keys(first)) for first in list(chunk_store.unsolved_chunks))
    for solved_chunk in executor.map(task, unsolved, threads, stop):
        if solved_chunk is not None and solved_chunk.first in chunk_store.unsolved_chunks:
            chunk_store.write_chunk_and_mark_solved(
                solved_chunk.first, np.asarray(solved_chunk.content, np.int8), solved_chunk.seconds
            )


@contextmanager
def _forward_stop(solver: Solver, stop: StopSignal) -> Iterator[None]:
    """Stop the solver when ``stop`` is set while the context's body runs.

    The body alone would notice ``stop`` too late, because a single search may take long.
    """
    context_closed = threading.Event()

    def stop_solver_when_set() -> None:
        while not context_closed.wait(POLL_SECONDS):
            if stop.is_set():
                solver.stop()
                return

    watcher = threading.Thread(target=stop_solver_when_set, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        context_closed.set()
        watcher.join()
