"""The rules of docs/engines.md, each with a name, tried on an engine."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress

import numpy as np
from numpy.typing import NDArray

from agents.base.agent import TurnTimeoutError
from quarto.batch import Batch
from quarto.errors import RequestError
from quarto.notation import format_position
from quarto.position import position_from_plies
from quarto.rules import NONE, Rules
from runners.hosting.engines.process import (
    AGAIN_SECONDS,
    FIRST_SECONDS,
    FLUSH_HINT,
    EngineError,
    EngineProcess,
    quote_line,
)
from runners.hosting.engines.protocol import format_position_lines
from runners.hosting.illegal_turns import describe_turn_faults, format_turn

ANSWER_SECONDS = 10.0  # for an answer
QUIET_SECONDS = 0.2  # in which nothing may come
LEGAL_PLIES = [(15, 1), (3, 5), (7, 10), (9, 12), (4, 2)]
MANY_POSITIONS = 64  # positions before one go


StartProcess = Callable[[], EngineProcess]
ProtocolRule = Callable[[StartProcess, Rules], str | None]  # what is wrong


def try_protocol_rules(start: StartProcess, rules: Rules) -> Iterator[tuple[str, str | None]]:
    """Each rule of the protocol by its name, with what is wrong; None: the engine keeps it.

    ``start`` makes a process that is ready to play by ``rules``.
    """
    for name, rule in PROTOCOL_RULES.items():
        yield name, _find_rule_fault(rule, start, rules)


def _find_rule_fault(rule: ProtocolRule, start: StartProcess, rules: Rules) -> str | None:
    """The faults by a rule; the processes that it starts are ended."""
    with ExitStack() as ends:

        def start_process() -> EngineProcess:
            process = start()
            ends.callback(process.stop)
            return process

        try:
            return rule(start_process, rules)
        except (EngineError, RequestError) as error:
            return str(error)


def _build_positions_and_seeds(rules: Rules, count: int) -> tuple[Batch, NDArray[np.uint64]]:
    """Positions of a game, in turn, with seeds."""
    found = []
    for number in range(count):
        plies = LEGAL_PLIES[: number % (len(LEGAL_PLIES) + 1)]
        hand = NONE if rules.mover_chooses or not plies else 0
        found.append(position_from_plies(plies, hand)._replace(last_cell=NONE))
    return Batch.from_positions(found), np.arange(1, count + 1, dtype=np.uint64)


def _request_turns(process: EngineProcess, content: bytes, count: int) -> list[tuple[int, int]]:
    """The turns for ``count`` positions. Raises ``EngineError`` for an answer that is none, or does not come."""
    found: list[tuple[int, int]] = []
    try:
        for answer in process.request_turns(content, ANSWER_SECONDS):
            if isinstance(answer, bytes):
                raise EngineError(f"it answered {quote_line(answer)}, not 'turn CELL PIECE'")
            found.append(answer)
            if len(found) == count:
                break
    except TurnTimeoutError:
        text = f"{len(found)} of {count} turns have come, and no more within {ANSWER_SECONDS:g} seconds: {FLUSH_HINT}"
        raise EngineError(text) from None
    return found


def _find_flush_fault(start: StartProcess, rules: Rules) -> str | None:
    """A turn is not held back. One that takes its time is none that is held back."""
    batch, seeds = _build_positions_and_seeds(rules, len(LEGAL_PLIES) + 1)
    question = format_position_lines(batch.select_range(len(LEGAL_PLIES), len(seeds)), seeds[-1:]) + b"go\n"
    held = ""
    for seconds in (FIRST_SECONDS, AGAIN_SECONDS):
        process = start()
        try:
            for _ in process.request_lines(question, seconds):
                return None
        except TurnTimeoutError:
            held = process.stop_and_describe_silence()
            if not held:
                return None
    return f"no turn came within {AGAIN_SECONDS:g} seconds: {held}"


def _find_order_fault(start: StartProcess, rules: Rules) -> str | None:
    """Many positions before one ``go`` get the turns that each alone gets, in their order."""
    batch, seeds = _build_positions_and_seeds(rules, MANY_POSITIONS)
    process = start()
    together = _request_turns(process, format_position_lines(batch, seeds) + b"go\n", MANY_POSITIONS)
    alone = [
        _request_turns(process, format_position_lines(batch.select_range(i, i + 1), seeds[i : i + 1]) + b"go\n", 1)[0]
        for i in range(MANY_POSITIONS)
    ]
    for i, (one, other) in enumerate(zip(together, alone, strict=True)):
        if one != other:
            text = format_position(batch.position(i))
            return (
                f"position {text}, seed {int(seeds[i]):x}: turn {format_turn(one)} among {MANY_POSITIONS} positions, "
                f"turn {format_turn(other)} alone"
            )
    return None


def _find_legality_fault(start: StartProcess, rules: Rules) -> str | None:
    """Turns take an empty cell and a piece that is left, and what is said of them is in range."""
    batch, seeds = _build_positions_and_seeds(rules, len(LEGAL_PLIES) + 1)
    turns = _request_turns(start(), format_position_lines(batch, seeds) + b"go\n", len(seeds))
    for i, turn in enumerate(turns):
        if wrong := describe_turn_faults(batch.position(i), turn, rules):
            return f"position {format_position(batch.position(i))}: turn {format_turn(turn)}: {wrong}"
    return None


def _find_silence_fault(start: StartProcess, rules: Rules) -> str | None:
    """Nothing is written without ``go``, and nothing for a ``go`` without positions."""
    process = start()
    batch, seeds = _build_positions_and_seeds(rules, 1)
    for content, when in (
        (b"", "after 'ready'"),
        (b"go\n", "for 'go' without a position"),
        (format_position_lines(batch, seeds), "before 'go'"),
    ):
        with suppress(TurnTimeoutError):
            for line in process.request_lines(content, QUIET_SECONDS):
                return f"it wrote {quote_line(line)} {when}"
    _request_turns(process, b"go\n", 1)
    return None


def _find_limit_fault(start: StartProcess, rules: Rules) -> str | None:
    """``go SECONDS`` is answered as ``go`` is."""
    batch, seeds = _build_positions_and_seeds(rules, 2)
    _request_turns(start(), format_position_lines(batch, seeds) + b"go 5\n", 2)
    return None


def _find_quit_fault(start: StartProcess, rules: Rules) -> str | None:  # noqa: ARG001  (as every rule)
    """``quit`` ends the engine within a second."""
    process, began = start(), time.monotonic()
    return None if process.quit() else f"it did not end within {time.monotonic() - began:.0f} s after 'quit'"


PROTOCOL_RULES: dict[str, ProtocolRule] = {
    "answers are flushed": _find_flush_fault,
    "turns are legal": _find_legality_fault,
    "answers keep their order": _find_order_fault,
    "go with a limit": _find_limit_fault,
    "silence without go": _find_silence_fault,
    "quit ends it": _find_quit_fault,
}
