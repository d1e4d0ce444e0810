"""The rules of docs/engines.md, each with a name, tried on an engine."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress

import numpy as np
from numpy.typing import NDArray

from agents.base.agent import LateError
from quarto.batch import Batch
from quarto.errors import RequestError
from quarto.notation import format_position
from quarto.position import from_plies
from quarto.rules import NONE, Rules
from runners.hosting.engines.process import AGAIN_SECONDS, FIRST_SECONDS, FLUSH, EngineError, EngineProcess, shown
from runners.hosting.engines.protocol import position_lines
from runners.hosting.illegal_turns import faults_of, turn_text

SECONDS = 10.0  # for an answer
QUIET_SECONDS = 0.2  # in which nothing may come
LEGAL_PLIES = [(15, 1), (3, 5), (7, 10), (9, 12), (4, 2)]
MANY = 64  # positions before one go


Start = Callable[[], EngineProcess]
Rule = Callable[[Start, Rules], str | None]  # what is wrong


def kept_rules(start: Start, rules: Rules) -> Iterator[tuple[str, str | None]]:
    """Each rule of the protocol by its name, with what is wrong; None: the engine keeps it.

    ``start`` makes a process that is ready to play by ``rules``.
    """
    for name, rule in RULES.items():
        yield name, _wrong(rule, start, rules)


def _wrong(rule: Rule, start: Start, rules: Rules) -> str | None:
    """The faults by a rule; the processes that it starts are ended."""
    with ExitStack() as ends:

        def begun() -> EngineProcess:
            process = start()
            ends.callback(process.end)
            return process

        try:
            return rule(begun, rules)
        except (EngineError, RequestError) as error:
            return str(error)


def _positions(rules: Rules, count: int) -> tuple[Batch, NDArray[np.uint64]]:
    """Positions of a game, in turn, with seeds."""
    found = []
    for number in range(count):
        plies = LEGAL_PLIES[: number % (len(LEGAL_PLIES) + 1)]
        hand = NONE if rules.mover_chooses or not plies else 0
        found.append(from_plies(plies, hand)._replace(last_cell=NONE))
    return Batch.of(found), np.arange(1, count + 1, dtype=np.uint64)


def _asked(process: EngineProcess, content: bytes, count: int) -> list[tuple[int, int]]:
    """The turns for ``count`` positions. Raises ``EngineError`` for an answer that is none, or does not come."""
    found: list[tuple[int, int]] = []
    try:
        for answer in process.turns(content, SECONDS):
            if isinstance(answer, bytes):
                raise EngineError(f"it answered {shown(answer)}, not 'turn CELL PIECE'")
            found.append(answer)
            if len(found) == count:
                break
    except LateError:
        text = f"{len(found)} of {count} turns have come, and no more within {SECONDS:g} seconds: {FLUSH}"
        raise EngineError(text) from None
    return found


def _flushed(start: Start, rules: Rules) -> str | None:
    """A turn is not held back. One that takes its time is none that is held back."""
    batch, seeds = _positions(rules, len(LEGAL_PLIES) + 1)
    question = position_lines(batch.part(len(LEGAL_PLIES), len(seeds)), seeds[-1:]) + b"go\n"
    held = ""
    for seconds in (FIRST_SECONDS, AGAIN_SECONDS):
        process = start()
        try:
            for _ in process.answers(question, seconds):
                return None
        except LateError:
            held = process.held_back()
            if not held:
                return None
    return f"no turn came within {AGAIN_SECONDS:g} seconds: {held}"


def _together(start: Start, rules: Rules) -> str | None:
    """Many positions before one ``go`` get the turns that each alone gets, in their order."""
    batch, seeds = _positions(rules, MANY)
    process = start()
    together = _asked(process, position_lines(batch, seeds) + b"go\n", MANY)
    alone = [
        _asked(process, position_lines(batch.part(i, i + 1), seeds[i : i + 1]) + b"go\n", 1)[0] for i in range(MANY)
    ]
    for i, (one, other) in enumerate(zip(together, alone, strict=True)):
        if one != other:
            text = format_position(batch.position(i))
            among, by_itself = (turn_text(turn) for turn in (one, other))
            return (
                f"position {text}, seed {int(seeds[i]):x}: turn {among} among {MANY} positions, turn {by_itself} alone"
            )
    return None


def _legal(start: Start, rules: Rules) -> str | None:
    """Turns take an empty cell and a piece that is left, and what is said of them is in range."""
    batch, seeds = _positions(rules, len(LEGAL_PLIES) + 1)
    turns = _asked(start(), position_lines(batch, seeds) + b"go\n", len(seeds))
    for i, turn in enumerate(turns):
        if wrong := faults_of(batch.position(i), turn, rules):
            return f"position {format_position(batch.position(i))}: turn {turn_text(turn)}: {wrong}"
    return None


def _silent(start: Start, rules: Rules) -> str | None:
    """Nothing is written without ``go``, and nothing for a ``go`` without positions."""
    process = start()
    batch, seeds = _positions(rules, 1)
    for content, when in (
        (b"", "after 'ready'"),
        (b"go\n", "for 'go' without a position"),
        (position_lines(batch, seeds), "before 'go'"),
    ):
        with suppress(LateError):
            for line in process.answers(content, QUIET_SECONDS):
                return f"it wrote {shown(line)} {when}"
    _asked(process, b"go\n", 1)
    return None


def _timed(start: Start, rules: Rules) -> str | None:
    """``go SECONDS`` is answered as ``go`` is."""
    batch, seeds = _positions(rules, 2)
    _asked(start(), position_lines(batch, seeds) + b"go 5\n", 2)
    return None


def _quits(start: Start, rules: Rules) -> str | None:  # noqa: ARG001  (as every rule)
    """``quit`` ends the engine within a second."""
    process, began = start(), time.monotonic()
    return None if process.quit() else f"it did not end within {time.monotonic() - began:.0f} s after 'quit'"


RULES: dict[str, Rule] = {
    "answers are flushed": _flushed,
    "turns are legal": _legal,
    "answers keep their order": _together,
    "go with a limit": _timed,
    "silence without go": _silent,
    "quit ends it": _quits,
}
