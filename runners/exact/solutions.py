"""`qarena solve`: answers to positions in text form, and their output as a table, as JSON, or as lines of JSON.

A search runs in a thread of its own without the interpreter lock. So Ctrl-C is noticed during a search and ends it at
once. Files of positions are answered on any number of threads.
"""

from __future__ import annotations

import functools
import json
import resource
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
    format_count_with_noun,
    format_seconds,
    number_column,
    text_column,
)
from analytics.tables.derived.threads import run_on_threads
from quarto.errors import FailureError, RequestError
from quarto.notation import format_cell, format_piece, format_position, parse_position
from quarto.position import EMPTY, Position, board
from quarto.rules import NONE, Rules, find_finished_lines
from quarto.solver.solver import Solution, SolvedTurn, Solver
from runners.arena.executors.base import MEBIBYTE, THREADS, StopSignal, available_cores, check_solver_memory
from runners.config.yaml_options import load_rules
from runners.hosting.work_clock import WorkClock
from runners.terminal import console
from runners.terminal.console import show_progress_bar
from runners.terminal.files import is_standard_stream, read_file, write_file

LINES_PER_TASK = 16
ResultT = TypeVar("ResultT")
LEGEND = "+n wins and -n loses in n placements, = draws, · is no legal turn; best first"
SHORT_LEGEND = "+ wins, - loses, = draws, · is no legal turn; best first"


@dataclass(frozen=True)
class SolveOptions:
    """The parts of an answer besides the value of the position."""

    turns: bool = True
    distance: bool = True


class SolveRequest(NamedTuple):
    """A live position to solve, and its rules."""

    position: Position
    rules: Rules

    @property
    def text(self) -> str:
        return format_position(self.position, self.rules.name)


_load_rules = functools.cache(load_rules)


def parse_solve_request(text: str) -> SolveRequest:
    """Read a position in text form. Raises ``RequestError`` naming the field if it is no live position."""
    position, name = parse_position(text)
    rules = _load_rules(name)
    shown = " ".join(text.split())
    if find_finished_lines(board(position), rules):
        raise RequestError(f"a line is finished, so the game is over (position '{shown}', field 1)")
    if rules.mover_chooses and position.hand != NONE:
        raise RequestError(
            f"piece '{format_piece(position.hand)}' is in hand, but under rules {rules.name} the mover chooses the "
            f"piece: write - (position '{shown}', field 2)"
        )
    return SolveRequest(position, rules)


class Solvers:
    """A solver for each variant and thread, made when first needed. The solvers of a variant share their tables."""

    def __init__(self, megabytes: float, use_tablebase: bool = True) -> None:
        """Each variant gets a table of ``megabytes``. Without a tablebase every value is proven by search alone."""
        self._megabytes = megabytes
        self._use_tablebase = use_tablebase
        self._lock = threading.Lock()
        self._first: dict[Rules, Solver] = {}
        self._all: list[Solver] = []
        self._local = threading.local()
        self._stopped = False

    def get_solver(self, rules: Rules) -> Solver:
        """The solver of these rules for the calling thread."""
        mine: dict[Rules, Solver] = self._local.__dict__.setdefault("solvers", {})
        if rules not in mine:
            with self._lock:
                if rules not in self._first:
                    base = load_tablebase_index(rules) if self._use_tablebase else None
                    self._first[rules] = Solver(rules, self._megabytes, base)
                mine[rules] = self._first[rules].fork()
                self._all.append(mine[rules])
                if self._stopped:
                    mine[rules].stop()
        return mine[rules]

    def stop(self) -> None:
        """End every search, also those that begin later."""
        with self._lock:
            self._stopped = True
            for solver in self._all:
                solver.stop()

    @property
    def nodes(self) -> int:
        """Positions searched so far."""
        return sum(solver.nodes for solver in list(self._all))


def run_search(solvers: Solvers, work: Callable[[], ResultT], on_wait: Callable[[], None] = lambda: None) -> ResultT:
    """The result of ``work``, which searches with ``solvers``; ``on_wait`` is called several times a second.

    An exception in this thread, such as by Ctrl-C, ends the search and is passed on.
    """
    found: list[ResultT] = []
    run_on_threads([work], 1, found.append, solvers.stop, on_wait)
    return found[0]


def solve(request: SolveRequest, options: SolveOptions, solvers: Solvers) -> Solution:
    """The value of a position and the parts that ``options`` asks for, its turns best first."""
    found = solvers.get_solver(request.rules).solve(request.position, options.turns, options.distance)
    return found._replace(turns=tuple(sorted(found.turns, key=turn_sort_key)))


def turn_sort_key(turn: SolvedTurn) -> tuple[int, int, int, int]:
    """Sort key: wins, the soonest first; draws; losses, the latest first."""
    sign = turn.value or 1
    return -turn.value, sign * (turn.distance or 0), turn.cell, turn.gift


def solution_to_dict(request: SolveRequest, solution: Solution, options: SolveOptions) -> dict[str, Any]:
    """The answer as JSON values, without the parts that were not asked for."""
    found: dict[str, Any] = {"position": request.text, "value": solution.value}
    if solution.distance is not None:
        found["distance"] = solution.distance
    if options.turns:
        found["moves"] = [_turn_to_dict(turn) for turn in solution.turns]
    return found


def _turn_to_dict(turn: SolvedTurn) -> dict[str, Any]:
    found: dict[str, Any] = {} if turn.cell == NONE else {"cell": format_cell(turn.cell)}
    if turn.gift != NONE:
        found["gift"] = format_piece(turn.gift)
    found["value"] = turn.value
    return found if turn.distance is None else found | {"distance": turn.distance}


def solve_lines(
    lines: Sequence[tuple[int, str]], options: SolveOptions, solvers: Solvers, threads: int
) -> Generator[dict[str, Any], None, None]:
    """The answers to numbered lines as JSON values, in their order; that to a bad line is its ``line`` and ``error``.

    All searches end at once when the iterator is closed or an exception, such as by Ctrl-C, passes through it.
    """

    def solve_batch(
        task: tuple[int, list[SolveRequest | dict[str, Any]]], _stop: StopSignal
    ) -> tuple[int, list[dict[str, Any]]]:
        first, asked = task
        return first, [
            solution_to_dict(each, solve(each, options, solvers), options) if isinstance(each, SolveRequest) else each
            for each in asked
        ]

    starts = range(0, len(lines), LINES_PER_TASK)  # texts are parsed in this thread: rules are read as Hydra finds them
    tasks = (
        (start, [_parse_line_or_error(*line) for line in lines[start : start + LINES_PER_TASK]]) for start in starts
    )
    early, following = dict[int, list[dict[str, Any]]](), 0  # answers to later lines, and the line that comes next
    try:
        for first, found in THREADS.map(solve_batch, tasks, threads, threading.Event()):
            early[first] = found
            while following in early:
                yield from early.pop(following)
                following += LINES_PER_TASK
    except BaseException:
        solvers.stop()
        raise


def _parse_line_or_error(number: int, text: str) -> SolveRequest | dict[str, Any]:
    try:
        return parse_solve_request(text)
    except RequestError as error:
        return {"line": number, "error": str(error)}


def format_json_line(content: Mapping[str, Any]) -> str:
    """One answer as one line of JSON."""
    return json.dumps(content, ensure_ascii=False)


def find_whole_game_rules_name(position: str | None, file: Path | None, game: bool, rules: str | None) -> str | None:
    """The name of the rules whose whole game is to be proven, None if positions are asked for.

    Raises ``RequestError`` unless exactly one thing is asked for.
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
    """Print the value of a position and its turns, or write them as JSON.

    Raises ``RequestError`` for a text that is no live position.
    """
    question = parse_solve_request(text)
    check_solver_memory(megabytes)
    solvers = Solvers(megabytes)
    clock = WorkClock()
    with _show_search_progress(solvers) as on_wait:
        solution = run_search(solvers, lambda: solve(question, options, solvers), on_wait)
    seconds = clock.seconds
    if _write_json_if_requested(solution_to_dict(question, solution, options), json_file):
        return
    console.print_line(describe_solution(question, solution))
    if solution.turns:
        console.print_tables([build_turns_table(question, solution)])
        console.print_line(LEGEND if options.distance else SHORT_LEGEND)
    console.print_note(f"{solvers.nodes:,} positions searched in {seconds:.2f} s")


def print_file_solutions(path: Path, options: SolveOptions, megabytes: float) -> None:
    """Print an answer for each line of a file, in order. Blank lines are skipped.

    Raises ``RequestError`` if the file cannot be read; ``FailureError`` at the end if lines could not be answered.
    """
    text = read_file(str(path)).decode(errors="replace")
    lines = [(number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
    check_solver_memory(
        megabytes, max(1, len({line.split()[2] if len(line.split()) == 3 else "" for _, line in lines}))
    )
    bad = 0
    with show_progress_bar("solving", "positions") as bar:
        bar.start(len(lines))
        for answer in solve_lines(lines, options, Solvers(megabytes), available_cores()):
            _print_answer_line(format_json_line(answer))
            if "error" in answer:
                bad += 1
                console.print_note(f"line {answer['line']}: {answer['error']}")
            bar.advance()
    if bad:
        raise FailureError(f"{format_count_with_noun(bad, 'line')} could not be answered; all others were")


def output_game_value(rules_name: str, megabytes: float, json_file: Path | None) -> None:
    """Prove the value of the whole game; print it with the number of positions, the time and the memory used."""
    rules = load_rules(rules_name)
    check_solver_memory(megabytes)
    solvers = Solvers(megabytes, use_tablebase=False)
    clock = WorkClock()
    with _show_search_progress(solvers) as on_wait:
        value = run_search(solvers, lambda: solvers.get_solver(rules).value(EMPTY), on_wait)
    seconds, peak = clock.seconds, read_peak_megabytes()
    content = {"rules": rules.name, "value": value, "nodes": solvers.nodes, "seconds": round(seconds, 3)}
    if _write_json_if_requested(content | {"megabytes": round(peak, 1)}, json_file):
        return
    first = "the player who moves first" if rules.mover_chooses else "the player who gives the first piece"
    columns = [
        text_column("rules", [rules.name]),
        text_column("value", [f"{VALUE_NAMES[value]} for {first}"]),
        number_column("positions searched", [solvers.nodes]),
        number_column("seconds", [seconds], format_seconds),
        number_column("memory, MB", [peak], format_count),
    ]
    console.print_tables([console.build_table(columns)])


def _write_json_if_requested(answer: Mapping[str, object], json_file: Path | None) -> bool:
    """Write an answer as a line of JSON if that is asked for; whether it was printed."""
    if json_file is not None:
        write_file(json_file, f"{format_json_line(answer)}\n".encode())
    return is_standard_stream(json_file)


def read_peak_megabytes() -> float:
    """The peak memory of this process, in MiB."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / MEBIBYTE


def describe_solution(request: SolveRequest, solution: Solution) -> str:
    """The value, and the distance if it is known, in words."""
    gives = request.position.hand == NONE and not request.rules.mover_chooses
    value = f"{request.text}: {VALUE_NAMES[solution.value]} for the player to {'give' if gives else 'move'}"
    if solution.distance is None:
        return value
    placements = f"{solution.distance} placement{'' if solution.distance == 1 else 's'}"
    return f"{value}, {'the board is full' if solution.distance == 0 else f'over in {placements}'}"


def build_turns_table(request: SolveRequest, solution: Solution) -> Table:
    """All turns, best first: a row a gift on a board without a hand, else a row a cell and a column a piece."""
    if solution.turns[0].cell == NONE:
        return _build_gifts_table(solution.turns)
    by_cell: dict[int, dict[int, SolvedTurn]] = {}
    for turn in solution.turns:  # best first, so that the order of cells is that of their best turns
        by_cell.setdefault(turn.cell, {})[turn.gift] = turn
    cells = sorted(by_cell, key=lambda cell: cell_sort_key(list(by_cell[cell].values())))
    pieces = sorted({turn.gift for turn in solution.turns} - {NONE})
    best = [format_mark(next(iter(by_cell[cell].values()))) for cell in cells]
    columns = [text_column("cell", [format_cell(cell) for cell in cells]), ResultColumn("best", best)]
    for piece in pieces:
        marks = [format_mark(by_cell[cell][piece]) if piece in by_cell[cell] else "·" for cell in cells]
        columns.append(ResultColumn(format_piece(piece), marks))
    what = "piece" if request.rules.mover_chooses else "gift"
    return console.build_table(columns, f"Cells by {what}")


def cell_sort_key(turns: Sequence[SolvedTurn]) -> tuple[int, ...]:
    """Sort key of a cell by its turns: best value, then soonest win or latest loss, then number of such turns."""
    best = max(turn.value for turn in turns)
    distances = [turn.distance or 0 for turn in turns if turn.value == best]
    soonest = min(distances) if best > 0 else -max(distances)
    good = sum(turn.value == best for turn in turns)
    return -best, soonest, -good if best >= 0 else 0, turns[0].cell


def _build_gifts_table(turns: Sequence[SolvedTurn]) -> Table:
    columns = [
        text_column("gift", [format_piece(turn.gift) for turn in turns]),
        text_column("value", [VALUE_NAMES[turn.value] for turn in turns]),
    ]
    if turns[0].distance is not None:
        columns.append(number_column("placements", [turn.distance for turn in turns]))
    return console.build_table(columns)


def format_mark(turn: SolvedTurn) -> str:
    """A turn's value and distance in at most three characters, as in ``LEGEND``."""
    if turn.value == 0:
        return "="
    return ("+" if turn.value > 0 else "-") + ("" if turn.distance is None else str(turn.distance))


def _print_answer_line(line: str) -> None:
    try:
        sys.stdout.write(line + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        raise SystemExit(0) from None  # the reader has closed the pipe early (| head)


@contextmanager
def _show_search_progress(solvers: Solvers) -> Iterator[Callable[[], None]]:
    """A bar that counts searched positions. The yielded function brings it up to date."""
    with show_progress_bar("searching", "positions") as bar:
        bar.start(None)
        yield lambda: bar.set_done(solvers.nodes)
