"""An agent in the arena: it is asked for turns. Any fault forfeits its game and is logged once."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agents.base.agent import ERROR_CELL, LATE_CELL, Agent, SomeTurnsFailedError, TurnTimeoutError
from agents.base.player import BatchPlayer, build_player
from quarto.batch import Batch, Evaluations, Turns
from quarto.errors import (
    AnswerError,
    ArenaError,
    FailureError,
    RemoteError,
    RequestError,
    find_error_location,
    is_ctrl_c,
)
from quarto.notation import format_position
from quarto.position import Position
from quarto.rng import Streams
from quarto.rules import NONE, Rules
from runners.hosting.illegal_turns import format_answer_and_illegality_report

logger = logging.getLogger(__name__)

MAX_LOGGED_FAULTS = 10  # lines of an agent's code whose exceptions are logged
MAX_ERROR_CHARACTERS = 300  # of an exception's text
NUMBERS_HINT = ": a cell is a number from 0 to 15, 4 * row + column, and a gift is one too"
RAISED, NO_TURN = "raised", "gave no turn:"
WAS_LATE, ILLEGAL = "took too long for a turn", "answered with an illegal turn"
FAULT_VERBS = (RAISED, NO_TURN, WAS_LATE, ILLEGAL)
MIN_FORFEITED_GAMES = 20  # an agent that forfeits all of so many will not play
ErrorCallback = Callable[[BaseException], None]  # takes what an agent raised
Misbehaviour = dict[str, Any]  # faults, and remarks


@contextmanager
def silence_forfeit_log() -> Iterator[None]:
    """Within the context forfeits are counted and not logged: the caller reports them."""
    logger.addFilter(_reject_record)
    try:
        yield
    finally:
        logger.removeFilter(_reject_record)


def _reject_record(_record: logging.LogRecord) -> bool:
    return False


class StuckError(FailureError):
    """Too many turns of an agent do not end: the run cannot go on. Games that were finished are kept."""


class AllForfeitedError(FailureError):
    """An agent has forfeited all its games so far: the run is not worth its time. What was played is kept."""


@dataclass
class Fault:
    """One way in which an agent forfeits games."""

    verb: str  # of ALL
    what: str  # the exception and its text, or the illegal turn
    line: str  # of the author's code, or nothing
    position: str  # of the first time
    count: int = 1  # of turns

    def __str__(self) -> str:
        return " ".join(filter(None, (self.verb, self.what, self.line and f"({self.line})")))

    @property
    def description(self) -> str:
        """The fault, its first position, and how often it happened."""
        times = "once" if self.count == 1 else f"{self.count:,} times"
        return f"{self}, first in position {self.position}: {times}"


class GuardedAgent:
    """An agent with its label, for all threads: lifts it, asks for turns, and turns its failures into forfeits."""

    def __init__(self, agent: Agent, label: str, rules: Rules) -> None:
        self.label = label
        self.rules = rules
        self._writes_turns: bool = getattr(agent, "writes_turns", False)
        try:
            self._player = build_player(agent, rules, label)
        except ArenaError:
            raise
        except BaseException as error:
            if is_ctrl_c(error):
                raise
            reason = " ".join(f"{type(error).__name__}: {error}".split())
            raise RequestError(f"agent '{label}' cannot be set up for rules '{rules.name}': {reason}") from error
        self._lock = threading.Lock()  # of what follows
        self._faults: dict[str, Fault] = {}  # by verb, exceptions by class and line of code
        self.first_illegal_report = ""  # lines on its first illegal turn
        self._games = self._forfeits = 0
        self._told: dict[str, int] = {}  # counts that another process has
        self._remarks: list[str] = []  # of its players in other processes, or reported to another process

    def __getstate__(self) -> dict[str, Any]:
        """Everything but the lock, for a copy. Raises ``RequestError`` for a player that cannot be copied."""
        if self._player.copy_obstacle:
            raise RequestError(
                f"agent '{self.label}' cannot be copied: {self._player.copy_obstacle}; "
                "copy a game against another agent, or make another environment and repeat the actions"
            )
        return {name: value for name, value in self.__dict__.items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _lock=threading.Lock())

    def fork_player(self) -> BatchPlayer:
        """The player for one thread."""
        return self._player.fork()

    def replace_player(self, player: BatchPlayer) -> None:
        """Use ``player`` from now on."""
        self._player = player

    @property
    def game_words(self) -> int:
        """The number of uint64 words that a player remembers of each game."""
        return self._player.game_words

    def take_turns(
        self,
        player: BatchPlayer,
        batch: Batch,
        rng: Streams,
        slots: NDArray[np.uint32],
        on_error: ErrorCallback | None = None,
        evaluations: Evaluations | None = None,
    ) -> Turns:
        """The turns of ``player``, which plays for this agent; its evaluations into ``evaluations`` [B].

        If it raises, the cell is ``ERROR_CELL`` and the exception goes to ``on_error``, by default to the log. If it
        takes too long, the cell is ``LATE_CELL``. An exception does not show which game of the batch caused it, so each
        game is then asked for alone. Raises ``StuckError``.
        """
        size = len(rng.seeds)
        if size > 1 and not player.one_position_at_a_time:
            try:
                return _take_turns_and_time(player, batch, rng, slots, evaluations)
            except StuckError:
                raise
            except SomeTurnsFailedError as some:
                return self._fill_in_failures(some, batch, on_error)
            except BaseException as error:  # an agent may call sys.exit, or cancel a task of asyncio
                if is_ctrl_c(error):
                    raise
        turns = Turns.empty(size)
        if evaluations is not None:
            evaluations.put(slice(None), Evaluations.blank(size))
        for i in range(size):
            one = slice(i, i + 1)
            evaluation = None if evaluations is None else evaluations.select(one)
            part = batch.select_range(i, i + 1), Streams(rng.seeds[one]), slots[one], evaluation
            turns.cells[i], turns.gifts[i] = self._take_single_turn(player, *part, on_error)
        return turns

    def _take_single_turn(
        self,
        player: BatchPlayer,
        batch: Batch,
        rng: Streams,
        slots: NDArray[np.uint32],
        evaluations: Evaluations | None,
        on_error: ErrorCallback | None,
    ) -> tuple[int, int]:
        """The turn in a single position: cell and gift."""
        try:
            turns = _take_turns_and_time(player, batch, rng, slots, evaluations)
        except StuckError:
            raise
        except SomeTurnsFailedError as some:
            turns = self._fill_in_failures(some, batch, on_error)
        except BaseException as error:
            if is_ctrl_c(error):
                raise
            return self._record_and_encode_failure(error, batch.position(0), on_error), NONE
        return int(turns.cells[0]), int(turns.gifts[0])

    def _fill_in_failures(
        self, turns_error: SomeTurnsFailedError, batch: Batch, on_error: ErrorCallback | None
    ) -> Turns:
        """The turns of a batch, those that were not taken as ``ERROR_CELL`` or ``LATE_CELL``."""
        for i, error in turns_error.failures.items():
            turns_error.turns.cells[i], turns_error.turns.gifts[i] = (
                self._record_and_encode_failure(error, batch.position(i), on_error),
                NONE,
            )
        return turns_error.turns

    def _record_and_encode_failure(
        self, error: BaseException, position: Position, on_error: ErrorCallback | None
    ) -> int:
        """The code in place of the cell of a turn that was not taken; reports an exception, counts a late turn."""
        if isinstance(error, TurnTimeoutError):
            self._record_fault(WAS_LATE, Fault(WAS_LATE, "", "", self._format_position(position)))
            return LATE_CELL
        if on_error is not None:
            on_error(error)
        else:
            kind = error.details.kind if isinstance(error, RemoteError) else type(error).__name__
            verb = NO_TURN if kind == AnswerError.__name__ else RAISED
            fault = Fault(verb, format_agent_error(error), find_error_location(error), self._format_position(position))
            self._record_fault(f"{kind} at {fault.line}", fault, error)
        return ERROR_CELL

    def _format_position(self, position: Position) -> str:
        name = self.rules.name  # perhaps with the keys that differ: then it would not parse
        return format_position(position) if name == "classic" else f"{format_position(position)} {name}"

    def _record_fault(self, kind: str, fault: Fault, error: BaseException | None = None) -> None:
        """Count a fault; the first of its kind is logged, an exception with its traceback."""
        with self._lock:
            known = self._add_fault(kind, fault)
        if known is fault and len(self._faults) <= MAX_LOGGED_FAULTS:
            logger.warning(
                "agent '%s' %s in position %s and forfeits its game; any more are only counted",
                *(self.label, fault, fault.position),
                exc_info=error,
            )

    def _add_fault(self, kind: str, fault: Fault) -> Fault:
        """Count a fault; returns the one that is kept of its kind. The lock is held."""
        known = self._faults.setdefault(kind, fault)
        if known is not fault:
            known.count += fault.count
            if not known.position:
                known.what, known.position = fault.what, fault.position
        return known

    # Illegal turns.

    @property
    def illegal_turn_unreported(self) -> bool:
        """Whether no illegal turn of it has been described yet."""
        return not self.first_illegal_report

    def log_first_illegal_turn(self, player: BatchPlayer, position: Position, seed: int, turn: tuple[int, int]) -> None:
        """Log its first illegal turn; ``seed`` is that of the turn. ``add_illegal_turn`` counts it."""
        unusual: dict[int, tuple[int, int]] = getattr(player, "unusual", {})
        answered, text = format_answer_and_illegality_report(
            position, unusual.get(seed, turn), self.rules, self._writes_turns
        )
        with self._lock:
            if self.first_illegal_report:
                return
            self.first_illegal_report = text
            self._add_fault(ILLEGAL, Fault(ILLEGAL, answered, "", self._format_position(position), 0))
        logger.warning(
            "agent '%s' answered with an illegal turn and forfeits its game; any more are only counted\n%s",
            *(self.label, text),
        )

    def add_illegal_turn(self) -> None:
        """One more game was forfeited by the illegal turn that was described, or another one."""
        with self._lock:
            self._add_fault(ILLEGAL, Fault(ILLEGAL, "", "", ""))

    # What it did wrong.

    def list_faults(self, *verbs: str) -> list[Fault]:
        """Its faults of some kinds, the most frequent first."""
        with self._lock:
            found = [each for each in self._faults.values() if each.verb in verbs and each.count]
        return sorted(found, key=lambda each: -each.count)

    def describe_misbehaviour(self) -> Iterator[str]:
        """A line for each way in which it forfeited games, and what its player has to say."""
        for fault in self.list_faults(*FAULT_VERBS):
            yield f"agent '{self.label}' {fault.description}"
        for line in [*self._list_player_remarks(), *self._remarks]:
            yield f"agent '{self.label}' {line}"

    def _list_player_remarks(self) -> list[str]:
        remarks: Callable[[], list[str]] = getattr(self._player, "remarks", list)
        return remarks()

    def add_game_counts(self, games: int, forfeits: int) -> None:
        """It has ended so many games more, and forfeited so many of them."""
        with self._lock:
            self._games += games
            self._forfeits += forfeits

    def check_forfeits(self) -> None:
        """Raise ``AllForfeitedError`` if it has forfeited all its games, and these are not few."""
        if self._games >= MIN_FORFEITED_GAMES and self._forfeits == self._games:
            faults = "; ".join(fault.description for fault in self.list_faults(*FAULT_VERBS))
            raise AllForfeitedError(
                f"agent '{self.label}' has forfeited all its {self._games:,} games: it {faults}; "
                "what was played is kept, and --keep-going plays on"
            )

    def take_new_misbehaviour(self) -> Misbehaviour:
        """Its games and faults since the last call, as JSON values for another process."""
        with self._lock:
            remarks = [line for line in self._list_player_remarks() if line not in self._remarks]
            counts = {kind: fault.count for kind, fault in self._faults.items()}
            counts |= {"games": self._games, "forfeits": self._forfeits}
            new = {kind: count - self._told.get(kind, 0) for kind, count in counts.items()}
            self._told = counts
            self._remarks.extend(remarks)
        faults = {kind: asdict(fault) | {"count": new[kind]} for kind, fault in self._faults.items() if new[kind]}
        taken = {"faults": faults, "remarks": remarks, "games": new["games"], "forfeits": new["forfeits"]}
        return {name: value for name, value in taken.items() if value}

    def add_misbehaviour(self, misbehaviour: Misbehaviour) -> None:
        """Add what it did wrong in another process."""
        self.add_game_counts(misbehaviour.get("games", 0), misbehaviour.get("forfeits", 0))
        with self._lock:
            for kind, fault in misbehaviour.get("faults", {}).items():
                self._add_fault(kind, Fault(**fault))
            self._remarks.extend(line for line in misbehaviour.get("remarks", ()) if line not in self._remarks)


def _take_turns_and_time(
    player: BatchPlayer, batch: Batch, rng: Streams, slots: NDArray[np.uint32], evaluations: Evaluations | None
) -> Turns:
    """The turns of a player; if evaluations are asked for, with the time of each that it has not measured itself."""
    if evaluations is None:
        return player.play(batch, rng, slots)
    started = time.perf_counter()
    try:
        return player.play(batch, rng, slots, evaluations)
    finally:
        evaluations.share_time_among_untimed(time.perf_counter() - started)


def format_agent_error(error: BaseException) -> str:
    """An exception with its own text, in one line."""
    text = str(error) if isinstance(error, RemoteError) else f"{type(error).__name__}: {error}"
    text = " ".join(text.removeprefix(f"{AnswerError.__name__}: ").split()).removesuffix(":")
    return f"{text:.{MAX_ERROR_CHARACTERS}}{NUMBERS_HINT if text.endswith('not (cell, gift)') else ''}"


def build_jitted_error(label: str) -> RequestError:
    """The error for an agent that has limits and is jitted."""
    return RequestError(
        f"agent '{label}' is jitted: turn_seconds and isolation are for agents in Python, whose turns can be ended; "
        "leave them out"
    )
