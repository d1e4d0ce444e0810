"""Answers to positions in text form: values, distances and turns, on any number of threads.

A search runs in a thread of its own without the interpreter lock. So Ctrl-C is noticed during a search and ends it at
once.
"""

from __future__ import annotations

import functools
import json
import threading
from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from analytics.derived_tables.jobs import run_jobs
from analytics.perfect.tablebase import base_for
from quarto.errors import RequestError
from quarto.notation import format_cell, format_piece, format_position, parse_position
from quarto.position import Position, board
from quarto.rules import NONE, Rules, finished_lines
from quarto.solver.solver import Solution, SolvedTurn, Solver
from runners.arena.config_groups import load_rules

LINES_A_TASK = 16
TASKS_AHEAD = 8  # for each thread: answers come in the order of the questions, and one may take long

VALUE_NAMES = {1: "win", 0: "draw", -1: "loss"}

Result = TypeVar("Result")


@dataclass(frozen=True)
class SolveOptions:
    """The parts of an answer besides the value of the position."""

    turns: bool = True
    distance: bool = True


class Question(NamedTuple):
    """A live position to solve, and its rules."""

    position: Position
    rules: Rules

    @property
    def text(self) -> str:
        return format_position(self.position, self.rules.name)


_rules = functools.cache(load_rules)


def parse_question(text: str) -> Question:
    """Read a position in text form. Raises ``RequestError`` naming the field if it is no live position."""
    position, name = parse_position(text)
    rules = _rules(name)
    shown = " ".join(text.split())
    if finished_lines(board(position), rules):
        raise RequestError(f"a line is finished, so the game is over (position '{shown}', field 1)")
    if rules.mover_chooses and position.hand != NONE:
        raise RequestError(
            f"piece '{format_piece(position.hand)}' is in hand, but under rules {rules.name} the mover chooses the "
            f"piece: write - (position '{shown}', field 2)"
        )
    return Question(position, rules)


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

    def solver_for(self, rules: Rules) -> Solver:
        """The solver of these rules for the calling thread."""
        mine: dict[Rules, Solver] = self._local.__dict__.setdefault("solvers", {})
        if rules not in mine:
            with self._lock:
                if rules not in self._first:
                    base = base_for(rules) if self._use_tablebase else None
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


def run_search(solvers: Solvers, work: Callable[[], Result], on_wait: Callable[[], None] = lambda: None) -> Result:
    """The result of ``work``, which searches with ``solvers``; ``on_wait`` is called several times a second.

    An exception in this thread, such as by Ctrl-C, ends the search and is passed on.
    """
    found: list[Result] = []
    run_jobs([work], 1, found.append, solvers.stop, on_wait)
    return found[0]


def solve(question: Question, options: SolveOptions, solvers: Solvers) -> Solution:
    """The value of a position and the parts that ``options`` asks for, its turns best first."""
    found = solvers.solver_for(question.rules).solve(question.position, options.turns, options.distance)
    return found._replace(turns=tuple(sorted(found.turns, key=best_first)))


def best_first(turn: SolvedTurn) -> tuple[int, int, int, int]:
    """Sort key: wins, the soonest first; draws; losses, the latest first."""
    sign = turn.value or 1
    return -turn.value, sign * (turn.distance or 0), turn.cell, turn.gift


def as_mapping(question: Question, solution: Solution, options: SolveOptions) -> dict[str, Any]:
    """The answer as JSON values, without the parts that were not asked for."""
    found: dict[str, Any] = {"position": question.text, "value": solution.value}
    if solution.distance is not None:
        found["distance"] = solution.distance
    if options.turns:
        found["moves"] = [_move(turn) for turn in solution.turns]
    return found


def _move(turn: SolvedTurn) -> dict[str, Any]:
    found: dict[str, Any] = {} if turn.cell == NONE else {"cell": format_cell(turn.cell)}
    if turn.gift != NONE:
        found["gift"] = format_piece(turn.gift)
    found["value"] = turn.value
    return found if turn.distance is None else found | {"distance": turn.distance}


def answers(
    lines: Sequence[tuple[int, str]], options: SolveOptions, solvers: Solvers, threads: int
) -> Generator[dict[str, Any], None, None]:
    """The answers to numbered lines as JSON values, in their order; that to a bad line is its ``line`` and ``error``.

    All searches end at once when the iterator is closed or an exception, such as by Ctrl-C, passes through it.
    """
    tasks = (lines[start : start + LINES_A_TASK] for start in range(0, len(lines), LINES_A_TASK))
    pending: deque[Future[list[dict[str, Any]]]] = deque()
    with ThreadPoolExecutor(threads, thread_name_prefix="solve") as pool:
        try:
            for task in tasks:
                questions = [(number, _question_or_error(text)) for number, text in task]
                pending.append(pool.submit(_answer_all, questions, options, solvers))
                if len(pending) >= TASKS_AHEAD * threads:
                    yield from pending.popleft().result()
            while pending:
                yield from pending.popleft().result()
        except BaseException:
            solvers.stop()
            for future in pending:
                future.cancel()
            raise


def _question_or_error(text: str) -> Question | RequestError:
    try:
        return parse_question(text)
    except RequestError as error:
        return error


def _answer_all(
    task: Sequence[tuple[int, Question | RequestError]], options: SolveOptions, solvers: Solvers
) -> list[dict[str, Any]]:
    return [
        {"line": number, "error": str(question)}
        if isinstance(question, RequestError)
        else as_mapping(question, solve(question, options, solvers), options)
        for number, question in task
    ]


def as_json_line(content: Mapping[str, Any]) -> str:
    """One answer as one line of JSON."""
    return json.dumps(content, ensure_ascii=False)
