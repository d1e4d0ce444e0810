"""Checks of an engine against the rules of docs/engines.md, each of which has a name."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from typing import NamedTuple

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

ANSWER_SECONDS = 10.0  # time for an answer
QUIET_SECONDS = 0.2  # time in which the engine must stay silent
LEGAL_PLIES = [(15, 1), (3, 5), (7, 10), (9, 12), (4, 2)]
MANY_POSITIONS = 64  # positions before one ``go``


StartProcess = Callable[[], EngineProcess]
ProtocolRule = Callable[[StartProcess, Rules], str | None]  # returns the engine's fault; None if it has none


class RuleCheck(NamedTuple):
    """The name of a rule of the protocol, and a description of how the engine breaks the rule.

    The description is None if the engine keeps the rule.
    """

    name: str
    fault: str | None


def try_protocol_rules(start: StartProcess, rules: Rules) -> Iterator[RuleCheck]:
    """Check whether an engine keeps each rule of the protocol, and yield one result per rule.

    ``start`` starts a process that is ready to play by ``rules``.
    """
    for name, rule in PROTOCOL_RULES.items():
        yield RuleCheck(name, _find_rule_fault(rule, start, rules))


def _find_rule_fault(rule: ProtocolRule, start: StartProcess, rules: Rules) -> str | None:
    """Return how the engine breaks one rule, or None if it keeps the rule.

    Afterwards, all processes that the check of this rule has started are stopped.
    """
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
    """Build ``count`` positions, by repeating the positions of one game, and a seed for each position."""
    positions = []
    for number in range(count):
        plies = LEGAL_PLIES[: number % (len(LEGAL_PLIES) + 1)]
        hand = NONE if rules.mover_chooses or not plies else 0
        positions.append(position_from_plies(plies, hand)._replace(last_cell=NONE))
    return Batch.from_positions(positions), np.arange(1, count + 1, dtype=np.uint64)


def _request_turns(process: EngineProcess, content: bytes, count: int) -> list[tuple[int, int]]:
    """Send ``content``, which ends with ``go``, and return the turns (cell, gift) that the engine answers.

    ``content`` usually holds ``count`` positions too; it does not if the engine has already received them.

    Raises ``EngineError`` if an answer is not a turn, or if fewer than ``count`` answers arrive in time.
    """
    turns: list[tuple[int, int]] = []
    try:
        for answer in process.request_turns(content, ANSWER_SECONDS):
            if isinstance(answer, bytes):
                raise EngineError(f"it answered {quote_line(answer)}, not 'turn CELL PIECE'")
            turns.append(answer)
            if len(turns) == count:
                break
    except TurnTimeoutError:
        text = f"{len(turns)} of {count} turns have come, and no more within {ANSWER_SECONDS:g} seconds: {FLUSH_HINT}"
        raise EngineError(text) from None
    return turns


def _find_flush_fault(start: StartProcess, rules: Rules) -> str | None:
    """Return evidence that the engine does not flush each turn at once, or None if there is no such evidence.

    An engine that is merely slow does not break this rule.
    """
    batch, seeds = _build_positions_and_seeds(rules, len(LEGAL_PLIES) + 1)
    request = format_position_lines(batch.select_range(len(LEGAL_PLIES), len(seeds)), seeds[-1:]) + b"go\n"
    reason = ""
    for seconds in (FIRST_SECONDS, AGAIN_SECONDS):
        process = start()
        try:
            for _ in process.request_lines(request, seconds):
                return None
        except TurnTimeoutError:
            reason = process.stop_and_describe_flush_fault()
            if not reason:
                return None
    return f"no turn came within {AGAIN_SECONDS:g} seconds: {reason}"


def _find_batched_versus_single_turn_fault(start: StartProcess, rules: Rules) -> str | None:
    """Describe the first position in which the engine's turn depends on whether other positions are sent with it.

    Returns None if there is no such position. If many positions are sent before one ``go``, the engine must answer them
    in the same order, and in each position choose the turn that it chooses if the position is sent alone.
    """
    batch, seeds = _build_positions_and_seeds(rules, MANY_POSITIONS)
    process = start()
    together = _request_turns(process, format_position_lines(batch, seeds) + b"go\n", MANY_POSITIONS)
    alone = [
        _request_turns(process, format_position_lines(batch.select_range(i, i + 1), seeds[i : i + 1]) + b"go\n", 1)[0]
        for i in range(MANY_POSITIONS)
    ]
    for i, (batch_turn, single_turn) in enumerate(zip(together, alone, strict=True)):
        if batch_turn != single_turn:
            text = format_position(batch.position(i))
            return (
                f"position {text}, seed {int(seeds[i]):x}: turn {format_turn(batch_turn)} among {MANY_POSITIONS} "
                f"positions, turn {format_turn(single_turn)} alone"
            )
    return None


def _find_legality_fault(start: StartProcess, rules: Rules) -> str | None:
    """Describe the first illegal turn of the engine, or return None if all its turns are legal.

    A turn must name an empty cell and a remaining piece. Raises ``EngineError`` if an evaluation is out of range.
    """
    batch, seeds = _build_positions_and_seeds(rules, len(LEGAL_PLIES) + 1)
    turns = _request_turns(start(), format_position_lines(batch, seeds) + b"go\n", len(seeds))
    for i, turn in enumerate(turns):
        if faults := describe_turn_faults(batch.position(i), turn, rules):
            return f"position {format_position(batch.position(i))}: turn {format_turn(turn)}: {faults}"
    return None


def _find_silence_fault(start: StartProcess, rules: Rules) -> str | None:
    """Return what the engine writes while it must be silent, or None if it is silent.

    It must be silent until it receives ``go``, and after a ``go`` without positions.
    """
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


def _find_timed_go_answer_fault(start: StartProcess, rules: Rules) -> str | None:
    """Check that the engine answers ``go SECONDS`` in the same form as ``go``.

    Always returns None, because ``EngineError`` is raised if the answer has another form.
    """
    batch, seeds = _build_positions_and_seeds(rules, 2)
    _request_turns(start(), format_position_lines(batch, seeds) + b"go 5\n", 2)
    return None


def _find_quit_fault(start: StartProcess, rules: Rules) -> str | None:  # noqa: ARG001  (as every rule)
    """Return how the engine ignores ``quit``, or None if ``quit`` ends it within a second."""
    process, started = start(), time.monotonic()
    return None if process.quit() else f"it did not end within {time.monotonic() - started:.0f} s after 'quit'"


PROTOCOL_RULES: dict[str, ProtocolRule] = {
    "answers are flushed": _find_flush_fault,
    "turns are legal": _find_legality_fault,
    "answers keep their order": _find_batched_versus_single_turn_fault,
    "go with a limit": _find_timed_go_answer_fault,
    "silence without go": _find_silence_fault,
    "quit ends it": _find_quit_fault,
}
