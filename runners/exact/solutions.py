"""`qarena solve`: answers to positions in text form, as a table, as JSON, or as lines of JSON.

A search runs in a thread of its own, without the interpreter lock, so that Ctrl-C ends it at once. Files of positions
are answered on any number of threads.
"""

from __future__ import annotations

import functools
import json
import sys
import threading
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from analytics.exact.tablebase import load_tablebase_index
from analytics.questions.columns import (
    VALUE_NAMES,
    ResultColumn,
    Table,
    format_count,
    format_seconds,
    number_column,
    text_column,
)
from analytics.store.texts import format_count_with_noun
from analytics.tables.derived.threads import run_on_threads
from quarto.errors import FailureError, RequestError
from quarto.notation import format_cell, format_piece, format_position, parse_position
from quarto.position import EMPTY, PackedPosition, board
from quarto.rules import NONE, Rules, find_finished_lines
from quarto.solver.solution import (
    LEGEND,
    NO_TURN,
    SHORT_LEGEND,
    Solution,
    SolvedTurn,
    format_mark,
    group_turns_by_cell_best_first,
    turn_sort_key,
)
from quarto.solver.solver import Solver
from runners.arena.executors.base import (
    MEBIBYTE,
    THREADS,
    StopSignal,
    available_cores,
    check_solver_memory,
    read_peak_bytes,
)
from runners.config.yaml_options import load_rules
from runners.hosting.work_clock import WorkClock
from runners.terminal import console
from runners.terminal.console import show_progress_bar_or_notes
from runners.terminal.files import is_standard_stream_dash, read_file, write_file

LINES_PER_TASK = 16
ResultT = TypeVar("ResultT")


@dataclass(frozen=True)
class SolveOptions:
    """The parts of an answer that are requested in addition to the value of the position."""

    turns: bool = True
    distance: bool = True


class SolveRequest(NamedTuple):
    """A position to solve and its rules. The board has no finished line."""

    position: PackedPosition
    rules: Rules

    @property
    def text(self) -> str:
        return format_position(self.position, self.rules.name)


_load_rules = functools.cache(load_rules)


def parse_solve_request(text: str) -> SolveRequest:
    """Parse a position in text form.

    Raises ``RequestError``, which names the invalid field, if the text is not a valid position under its rules, or if a
    line is finished, so that the game is over.
    """
    position, name = parse_position(text)
    rules = _load_rules(name)
    shown_position = " ".join(text.split())
    if find_finished_lines(board(position), rules):
        raise RequestError(f"a line is finished, so the game is over (position '{shown_position}', field 1)")
    if rules.mover_chooses and position.hand != NONE:
        raise RequestError(
            f"piece '{format_piece(position.hand)}' is in hand, but under rules {rules.name} the mover chooses the "
            f"piece: write - (position '{shown_position}', field 2)"
        )
    return SolveRequest(position, rules)


class Solvers:
    """The solvers of this process: one for each thread and rule set, created when needed for the first time.

    All solvers of one rule set share their tables.
    """

    def __init__(self, megabytes: float, use_tablebase: bool = True) -> None:
        """Set the size of each rule set's table, in MiB, and whether tablebases are used in addition to search."""
        self._megabytes = megabytes
        self._use_tablebase = use_tablebase
        self._lock = threading.Lock()
        self._first: dict[Rules, Solver] = {}
        self._all: list[Solver] = []
        self._local = threading.local()
        self._stopped = False

    def get_solver_of_thread(self, rules: Rules) -> Solver:
        """Return the calling thread's solver for these rules."""
        thread_solvers: dict[Rules, Solver] = self._local.__dict__.setdefault("solvers", {})
        if rules not in thread_solvers:
            with self._lock:
                if rules not in self._first:
                    base = load_tablebase_index(rules) if self._use_tablebase else None
                    self._first[rules] = Solver(rules, self._megabytes, base)
                thread_solvers[rules] = self._first[rules].fork()
                self._all.append(thread_solvers[rules])
                if self._stopped:
                    thread_solvers[rules].stop()
        return thread_solvers[rules]

    def stop_current_and_later_searches(self) -> None:
        """Stop every search that is in progress or that begins later."""
        with self._lock:
            self._stopped = True
            for solver in self._all:
                solver.stop()

    @property
    def nodes(self) -> int:
        """The number of positions searched so far."""
        return sum(solver.nodes for solver in list(self._all))


def run_search(solvers: Solvers, work: Callable[[], ResultT], on_wait: Callable[[], None] = lambda: None) -> ResultT:
    """Run ``work``, which searches with ``solvers``, and return its result.

    While ``work`` runs, ``on_wait`` is called several times a second. An exception in this thread, for example because
    of Ctrl-C, stops the search and is passed on.
    """
    results: list[ResultT] = []
    run_on_threads([work], 1, results.append, solvers.stop_current_and_later_searches, on_wait)
    return results[0]


def solve(request: SolveRequest, options: SolveOptions, solvers: Solvers) -> Solution:
    """Solve a position; return its value and the parts that ``options`` selects. Turns are sorted, the best first."""
    solution = solvers.get_solver_of_thread(request.rules).solve(request.position, options.turns, options.distance)
    return solution._replace(turns=tuple(sorted(solution.turns, key=turn_sort_key)))


def solution_to_dict(request: SolveRequest, solution: Solution, options: SolveOptions) -> dict[str, Any]:
    """Convert an answer to values that JSON can represent, without the parts that ``options`` excludes."""
    fields: dict[str, Any] = {"position": request.text, "value": solution.value}
    if solution.distance is not None:
        fields["distance"] = solution.distance
    if options.turns:
        fields["moves"] = [_turn_to_dict(turn) for turn in solution.turns]
    return fields


def _turn_to_dict(turn: SolvedTurn) -> dict[str, Any]:
    fields: dict[str, Any] = {} if turn.cell == NONE else {"cell": format_cell(turn.cell)}
    if turn.gift != NONE:
        fields["gift"] = format_piece(turn.gift)
    fields["value"] = turn.value
    return fields if turn.distance is None else fields | {"distance": turn.distance}


def solve_lines(
    lines: Sequence[tuple[int, str]], options: SolveOptions, solvers: Solvers, threads: int
) -> Generator[dict[str, Any], None, None]:
    """Solve the positions in numbered lines, and yield the answers in order, as values that JSON can represent.

    The answer to an invalid line has the line's number under ``line`` and a message under ``error``. All searches stop
    at once when the iterator is closed or when an exception passes through it, for example because of Ctrl-C.
    """

    def solve_batch(
        task: tuple[int, list[SolveRequest | dict[str, Any]]], _stop: StopSignal
    ) -> tuple[int, list[dict[str, Any]]]:
        first, entries = task
        return first, [
            solution_to_dict(entry, solve(entry, options, solvers), options)
            if isinstance(entry, SolveRequest)
            else entry  # the error of a bad line
            for entry in entries
        ]

    starts = range(0, len(lines), LINES_PER_TASK)  # lines are parsed in this thread, where Hydra finds the rules
    tasks = (
        (start, [_parse_line_or_error(*line) for line in lines[start : start + LINES_PER_TASK]]) for start in starts
    )
    waiting_answers, next_start = dict[int, list[dict[str, Any]]](), 0  # answers that came before their turn, by start
    try:
        for first, answers in THREADS.map(solve_batch, tasks, threads, threading.Event()):
            waiting_answers[first] = answers
            while next_start in waiting_answers:
                yield from waiting_answers.pop(next_start)
                next_start += LINES_PER_TASK
    except BaseException:
        solvers.stop_current_and_later_searches()
        raise


def _parse_line_or_error(number: int, text: str) -> SolveRequest | dict[str, Any]:
    try:
        return parse_solve_request(text)
    except RequestError as error:
        return {"line": number, "error": str(error)}


def format_json_line(content: Mapping[str, Any]) -> str:
    """Format one answer as one line of JSON."""
    return json.dumps(content, ensure_ascii=False)


def find_whole_game_rules_name(position: str | None, file: Path | None, game: bool, rules: str | None) -> str | None:
    """Return the name of the rules if the whole game is to be solved, or None if positions are to be solved.

    Raises ``RequestError`` unless the user named exactly one of these: a position, a file of positions or the whole
    game. It is also raised if rules are given with positions, which name their rules themselves.
    """
    if position is not None and position.startswith("rules="):
        rules, position = position.removeprefix("rules="), None
    if sum((position is not None, file is not None, game)) != 1:
        raise RequestError(
            "name one thing to solve: a position in quotes, such as '...F/.3../..../.... 7', --file FILE, or --game"
        )
    if rules is not None and not game:
        raise RequestError(f"--rules {rules} goes with --game: a position names its rules itself, as its last field")
    return (rules or "classic") if game else None


def output_position_solution(text: str, options: SolveOptions, megabytes: float, json_file: Path | None) -> None:
    """Print the value of a position and of its turns, or write them as JSON if ``json_file`` is given.

    Raises ``RequestError`` if the text is not a valid position under its rules, or if a line is finished, so that the
    game is over.
    """
    request = parse_solve_request(text)
    check_solver_memory(megabytes)
    solvers = Solvers(megabytes)
    clock = WorkClock()
    with _show_search_progress(solvers) as on_wait:
        solution = run_search(solvers, lambda: solve(request, options, solvers), on_wait)
    seconds = clock.seconds
    _write_json_if_requested(solution_to_dict(request, solution, options), json_file)
    if is_standard_stream_dash(json_file):
        return
    console.print_line(describe_value_and_distance(request, solution))
    if solution.turns:
        console.print_tables([build_turns_table(request, solution)])
        console.print_line(LEGEND if options.distance else SHORT_LEGEND)
    console.print_note(f"{format_count_with_noun(solvers.nodes, 'position')} searched in {seconds:.2f} s")


def print_file_solutions(path: Path, options: SolveOptions, megabytes: float) -> None:
    """Print an answer for each line of a file, in order; blank lines are skipped.

    Raises ``RequestError`` if the file cannot be read. If some lines could not be answered, raises ``FailureError``
    after all other lines have been answered.
    """
    text = read_file(str(path)).decode(errors="replace")
    lines = [(number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
    check_solver_memory(
        megabytes, max(1, len({line.split()[2] if len(line.split()) == 3 else "" for _, line in lines}))
    )
    bad_lines = 0
    with show_progress_bar_or_notes("solving", "positions") as bar:
        bar.start(len(lines))
        for answer in solve_lines(lines, options, Solvers(megabytes), available_cores()):
            _print_or_exit_on_closed_pipe(format_json_line(answer))
            if "error" in answer:
                bad_lines += 1
                console.print_note(f"line {answer['line']}: {answer['error']}")
            bar.advance()
    if bad_lines:
        raise FailureError(f"{format_count_with_noun(bad_lines, 'line')} could not be answered; all others were")


def output_game_value(rules_name: str, megabytes: float, json_file: Path | None) -> None:
    """Prove the value of the whole game; print it, or write it as JSON if ``json_file`` is given.

    The number of searched positions, the time and the memory are also shown.
    """
    rules = load_rules(rules_name)
    check_solver_memory(megabytes)
    solvers = Solvers(megabytes, use_tablebase=False)
    clock = WorkClock()
    with _show_search_progress(solvers) as on_wait:
        value = run_search(solvers, lambda: solvers.get_solver_of_thread(rules).value(EMPTY), on_wait)
    seconds, peak = clock.seconds, read_peak_bytes() / MEBIBYTE
    content = {"rules": rules.name, "value": value, "nodes": solvers.nodes, "seconds": round(seconds, 3)}
    _write_json_if_requested(content | {"megabytes": round(peak, 1)}, json_file)
    if is_standard_stream_dash(json_file):
        return
    player = "the player who moves first" if rules.mover_chooses else "the player who gives the first piece"
    columns = [
        text_column("rules", [rules.name]),
        text_column("value", [f"{VALUE_NAMES[value]} for {player}"]),
        number_column("positions searched", [solvers.nodes]),
        number_column("seconds", [seconds], format_seconds),
        number_column("memory, MB", [peak], format_count),
    ]
    console.print_tables([console.build_escaped_table(columns)])


def _write_json_if_requested(answer: Mapping[str, object], json_file: Path | None) -> None:
    """Write an answer as a line of JSON to ``json_file``, if it is given."""
    if json_file is not None:
        write_file(json_file, f"{format_json_line(answer)}\n".encode())


def describe_value_and_distance(request: SolveRequest, solution: Solution) -> str:
    """Describe in words the value of a position and, if it is known, the distance to the end."""
    gives = request.position.hand == NONE and not request.rules.mover_chooses
    value = f"{request.text}: {VALUE_NAMES[solution.value]} for the player to {'give' if gives else 'move'}"
    if solution.distance is None:
        return value
    placements = f"{solution.distance} placement{'' if solution.distance == 1 else 's'}"
    return f"{value}, {'the board is full' if solution.distance == 0 else f'over in {placements}'}"


def build_turns_table(request: SolveRequest, solution: Solution) -> Table:
    """Build a table of all turns, the best turns first.

    If turns have a cell, the table has a row for each cell and a column for each gift or, if the mover chooses the
    piece, for each piece. Otherwise it has a row for each gift.
    """
    if solution.turns[0].cell == NONE:
        return _build_gifts_table(solution.turns)
    turns_by_cell = group_turns_by_cell_best_first(solution.turns)
    pieces = sorted({turn.gift for turn in solution.turns} - {NONE})
    best = [format_mark(next(iter(turns.values()))) for turns in turns_by_cell.values()]
    columns = [text_column("cell", [format_cell(cell) for cell in turns_by_cell]), ResultColumn("best", best)]
    for piece in pieces:
        marks = [format_mark(turns[piece]) if piece in turns else NO_TURN for turns in turns_by_cell.values()]
        columns.append(ResultColumn(format_piece(piece), marks))
    column_noun = "piece" if request.rules.mover_chooses else "gift"
    return console.build_escaped_table(columns, f"Cells by {column_noun}")


def cell_sort_key(turns: Sequence[SolvedTurn]) -> tuple[int, ...]:
    """Return a key that sorts cells from best to worst. ``turns`` are all turns on one cell.

    Cells are compared by the best value of a turn. If these are equal, the cell with the sooner win or the later loss
    comes first. Among cells that are still equal, except for lost ones, the cell with more turns of the best value
    comes first.
    """
    best = max(turn.value for turn in turns)
    distances = [turn.distance or 0 for turn in turns if turn.value == best]
    soonest = min(distances) if best > 0 else -max(distances)
    best_count = sum(turn.value == best for turn in turns)
    return -best, soonest, -best_count if best >= 0 else 0, turns[0].cell


def _build_gifts_table(turns: Sequence[SolvedTurn]) -> Table:
    columns = [
        text_column("gift", [format_piece(turn.gift) for turn in turns]),
        text_column("value", [VALUE_NAMES[turn.value] for turn in turns]),
    ]
    if turns[0].distance is not None:
        columns.append(number_column("placements", [turn.distance for turn in turns]))
    return console.build_escaped_table(columns)


def _print_or_exit_on_closed_pipe(line: str) -> None:
    try:
        sys.stdout.write(line + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        raise SystemExit(0) from None  # the reader has closed the pipe early (| head)


@contextmanager
def _show_search_progress(solvers: Solvers) -> Iterator[Callable[[], None]]:
    """Show a bar that counts searched positions; yield a function that updates it."""
    with show_progress_bar_or_notes("searching", "positions") as bar:
        bar.start(None)
        yield lambda: bar.set_done(solvers.nodes)
