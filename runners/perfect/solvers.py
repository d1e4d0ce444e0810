"""`qarena solve`: positions in their text form are answered with values, distances and turns.

A search runs in a thread of its own, without the interpreter lock, so that Ctrl-C is noticed while it goes on and ends
it at once.
"""

from __future__ import annotations

import functools
import json
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotYet
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from analytics.perfect.tablebase import base_for
from quarto.errors import RequestError
from quarto.notation import format_cell, format_piece, format_position, parse_position
from quarto.position import EMPTY, Position, board
from quarto.rules import NONE, Rules, finished_lines
from quarto.solver.solver import Solution, Solver, Turn
from runners.arena.config_groups import load_rules

POLL_SECONDS = 0.1  # between two looks at a search
LINES_A_TASK = 16
TASKS_AHEAD = 8  # for each thread: answers are given in the order of the questions, however long each takes

VALUE_NAMES = {1: "win", 0: "draw", -1: "loss"}

Result = TypeVar("Result")


@dataclass(frozen=True)
class Wanted:
    """What is asked of a position besides its value."""

    turns: bool = True
    distance: bool = True


class Question(NamedTuple):
    """A position that can be solved."""

    position: Position
    rules: Rules

    @property
    def text(self) -> str:
        return format_position(self.position, self.rules.name)


@functools.cache
def _rules(name: str) -> Rules:
    return load_rules(name)


def question(text: str) -> Question:
    """The question that a line asks. Raises ``RequestError`` naming the field for what is no live position."""
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
    """A solver for each variant and thread, made when it is needed; those of a variant share their tables.

    Unless ``based``, none looks anything up in a tablebase: what it says it has proven itself.
    """

    def __init__(self, megabytes: float, based: bool = True) -> None:
        self._megabytes = megabytes
        self._based = based
        self._lock = threading.Lock()
        self._first: dict[Rules, Solver] = {}
        self._all: list[Solver] = []
        self._local = threading.local()
        self._stopped = False

    def of(self, rules: Rules) -> Solver:
        """This thread's solver."""
        own: dict[Rules, Solver] = self._local.__dict__.setdefault("solvers", {})
        if rules not in own:
            with self._lock:
                if rules not in self._first:
                    base = base_for(rules) if self._based else None
                    self._first[rules] = Solver(rules, self._megabytes, base)
                own[rules] = self._first[rules].fork()
                self._all.append(own[rules])
                if self._stopped:
                    own[rules].stop()
        return own[rules]

    def stop(self) -> None:
        """End every search, also those that have not begun."""
        with self._lock:
            self._stopped = True
            for solver in self._all:
                solver.stop()

    @property
    def nodes(self) -> int:
        """Positions searched so far."""
        return sum(solver.nodes for solver in list(self._all))


def attended(solvers: Solvers, work: Callable[[], Result], look: Callable[[], None] = lambda: None) -> Result:
    """The result of ``work``, which searches with ``solvers``; ``look`` is called now and then meanwhile.

    Whatever is raised here, such as by Ctrl-C, ends the search before it is passed on.
    """
    with ThreadPoolExecutor(1, thread_name_prefix="solve") as pool:
        future = pool.submit(work)
        try:
            while True:
                try:
                    return future.result(POLL_SECONDS)
                except NotYet:
                    look()
        except BaseException:
            solvers.stop()
            raise


def solve(asked: Question, wanted: Wanted, solvers: Solvers) -> Solution:
    """A position's value and what else is wanted of it, its turns best first."""
    found = solvers.of(asked.rules).solve(asked.position, wanted.turns, wanted.distance)
    return found._replace(turns=tuple(sorted(found.turns, key=_best_first)))


def _best_first(turn: Turn) -> tuple[int, int, int, int]:
    """Wins, the soonest first; draws; losses, the latest first."""
    hurry = turn.value or 1
    return -turn.value, hurry * (turn.distance or 0), turn.cell, turn.gift


def as_mapping(asked: Question, solution: Solution, wanted: Wanted) -> dict[str, Any]:
    """The answer as JSON values; what was not asked for is not there."""
    found: dict[str, Any] = {"position": asked.text, "value": solution.value}
    if solution.distance is not None:
        found["distance"] = solution.distance
    if wanted.turns:
        found["moves"] = [_move(turn) for turn in solution.turns]
    return found


def _move(turn: Turn) -> dict[str, Any]:
    found: dict[str, Any] = {} if turn.cell == NONE else {"cell": format_cell(turn.cell)}
    if turn.gift != NONE:
        found["gift"] = format_piece(turn.gift)
    found["value"] = turn.value
    return found if turn.distance is None else found | {"distance": turn.distance}


class Answer(NamedTuple):
    """What a line of a file came to."""

    line: int  # from 1
    content: dict[str, Any]  # JSON values; of a bad line its number and what is wrong with it
    wrong: str | None


def answers(
    lines: Sequence[tuple[int, str]], wanted: Wanted, solvers: Solvers, threads: int
) -> Generator[Answer, None, None]:
    """The answers to numbered lines in their order; a bad line does not keep the others from theirs.

    When the iterator is closed, or an exception such as Ctrl-C passes through it, all searches end at once.
    """
    tasks = (lines[start : start + LINES_A_TASK] for start in range(0, len(lines), LINES_A_TASK))
    pending: deque[Future[list[Answer]]] = deque()
    ended = False
    with ThreadPoolExecutor(threads, thread_name_prefix="solve") as pool:
        try:
            for task in tasks:
                asked = [(number, _question_or_error(text)) for number, text in task]
                pending.append(pool.submit(_answered, asked, wanted, solvers))
                if len(pending) >= TASKS_AHEAD * threads:
                    yield from _awaited(pending.popleft())
            while pending:
                yield from _awaited(pending.popleft())
            ended = True
        finally:
            if not ended:
                solvers.stop()
            for future in pending:
                future.cancel()


def _awaited(future: Future[list[Answer]]) -> list[Answer]:
    """The result of a future, by short waits: a long one would keep Ctrl-C waiting too."""
    while True:
        try:
            return future.result(POLL_SECONDS)
        except NotYet:
            continue


def _question_or_error(text: str) -> Question | RequestError:
    try:
        return question(text)
    except RequestError as error:
        return error


def _answered(task: Sequence[tuple[int, Question | RequestError]], wanted: Wanted, solvers: Solvers) -> list[Answer]:
    found = []
    for number, asked in task:
        if isinstance(asked, RequestError):
            found.append(Answer(number, {"line": number, "error": str(asked)}, str(asked)))
        else:
            found.append(Answer(number, as_mapping(asked, solve(asked, wanted, solvers), wanted), None))
    return found


def as_line(content: dict[str, Any]) -> str:
    """One answer as one line of JSON."""
    return json.dumps(content, ensure_ascii=False)


class Proof(NamedTuple):
    """The value of the whole game, and what it took."""

    rules: Rules
    value: int  # for who acts first: gives the first piece or, where the mover chooses it, moves
    nodes: int
    seconds: float


def prove(rules: Rules, solvers: Solvers, look: Callable[[], None] = lambda: None) -> Proof:
    """Prove the value of the game from the empty board on."""
    started = time.perf_counter()
    value = attended(solvers, lambda: solvers.of(rules).value(EMPTY), look)
    return Proof(rules, value, solvers.nodes, time.perf_counter() - started)
