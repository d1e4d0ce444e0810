"""An agent in the arena, from which turns are requested. Any fault forfeits the agent's game, and is logged once."""

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

from agents.base.agent import ERROR_CELL, LATE_CELL, Agent, GameTimeoutError, SomeTurnsFailedError, TurnTimeoutError
from agents.base.player import BatchPlayer, build_player
from quarto.batch import Batch, Evaluations, Turns
from quarto.errors import (
    Advice,
    AnswerError,
    ArenaError,
    FailureError,
    RemoteError,
    RequestError,
    describe_author_error_location,
    is_ctrl_c_in_main_thread,
)
from quarto.notation import format_position
from quarto.position import PackedPosition
from quarto.rng import Streams
from quarto.rules import NONE, Rules
from runners.hosting.illegal_turns import describe_illegal_turn

logger = logging.getLogger(__name__)

MAX_LOGGED_FAULTS = 10  # different faults of an agent that are logged
MAX_ERROR_CHARACTERS = 300  # length to which an exception's text is cut
NUMBERS_HINT = ": a cell is a number from 0 to 15, 4 * row + column, and a gift is one too"
RAISED, NO_TURN = "raised", "gave no turn:"
WAS_LATE, ILLEGAL = "took too long for a turn", "answered with an illegal turn"
USED_UP = "used up the processor time of a game,"
FAULT_VERBS = (RAISED, NO_TURN, WAS_LATE, USED_UP, ILLEGAL)
MIN_FORFEITED_GAMES = 20  # number of games after which an agent that forfeited all of them is given up
ErrorCallback = Callable[[BaseException], None]  # receives what an agent raised
Misbehaviour = dict[str, Any]  # JSON values: faults, remarks, counts of games and forfeits


@contextmanager
def silence_forfeit_log() -> Iterator[None]:
    """Count forfeits without logging them while the context lasts, because the caller reports them."""
    logger.addFilter(_reject_record)
    try:
        yield
    finally:
        logger.removeFilter(_reject_record)


def _reject_record(_record: logging.LogRecord) -> bool:
    return False


class StuckError(FailureError):
    """The error raised if so many turns of an agent never end that the run cannot go on.

    Finished games are kept.
    """


class AllForfeitedError(FailureError):
    """The error raised if an agent has forfeited all its games so far, so that going on would be pointless.

    Games already played are kept.
    """


@dataclass
class Fault:
    """A fault for which an agent forfeits games."""

    verb: str  # one of ``FAULT_VERBS``
    cause: str  # the exception and its text, or the illegal turn
    line: str  # place in the author's code; may be empty
    position: str  # the first position in which the fault occurred
    count: int = 1  # number of turns with the fault

    def __str__(self) -> str:
        return " ".join(filter(None, (self.verb, self.cause, self.line and f"({self.line})")))

    @property
    def description(self) -> str:
        """The fault, the first position in which it occurred, and how often it occurred."""
        times = "once" if self.count == 1 else f"{self.count:,} times"
        return f"{self}, first in position {self.position}: {times}"


class GuardedAgent:
    """An agent and its label, with guards against its failures; all threads share this object.

    It builds the agent's players, requests their turns, and turns failures into forfeits.
    """

    def __init__(self, agent: Agent, label: str, rules: Rules) -> None:
        self.label = label
        self.rules = rules
        self._writes_turns: bool = getattr(agent, "writes_turns", False)
        try:
            self._player = build_player(agent, rules, label)
        except ArenaError:
            raise
        except BaseException as error:
            if is_ctrl_c_in_main_thread(error):
                raise
            reason = " ".join(f"{type(error).__name__}: {error}".split())
            raise RequestError(f"agent '{label}' cannot be set up for rules '{rules.name}': {reason}") from error
        self._lock = threading.Lock()  # guards the attributes below
        self._faults: dict[str, Fault] = {}  # by kind: the verb or, for exceptions, class and line of code
        self.first_illegal_report = ""  # report on the agent's first illegal turn
        self._games = self._forfeits = 0
        self._reported_counts: dict[str, int] = {}  # counts that were sent to another process
        self._remarks: list[str] = []  # from players in other processes, or sent to another process

    def __getstate__(self) -> dict[str, Any]:
        """Return the state to copy, without the lock. Raises ``RequestError`` if the player cannot be copied."""
        if self._player.copy_obstacle:
            raise RequestError(
                f"agent '{self.label}' cannot be copied: {self._player.copy_obstacle}; "
                "copy a game against another agent, or make another environment and repeat the actions"
            )
        return {name: value for name, value in self.__dict__.items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _lock=threading.Lock())

    def fork_player(self) -> BatchPlayer:
        """Return a player for an additional thread."""
        return self._player.fork()

    def replace_player(self, player: BatchPlayer) -> None:
        """Let ``player`` choose this agent's turns from now on."""
        self._player = player

    @property
    def game_words(self) -> int:
        """The number of uint64 words that a player remembers about each game."""
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
        """Return the turns that ``player`` chooses for this agent.

        If the player raises an exception, the cell is ``ERROR_CELL``; if it takes too long, the cell is ``LATE_CELL``.
        An exception does not show which game of the batch caused it, so each game's turn is then requested on its own.

        Args:
            player: Player of the calling thread.
            batch: Positions [B].
            rng: Random streams [B], one for each turn.
            slots: Slot of each game [B], the number by which a player with memory finds what it remembers of the game.
            on_error: Receives exceptions of the player; None logs them as faults.
            evaluations: Filled in with the player's evaluations [B]; None if they are not requested.

        Raises:
            StuckError: Too many turns of the agent never end.

        """
        size = len(rng.seeds)
        if size > 1 and not player.one_position_at_a_time:
            try:
                return _take_turns_and_time(player, batch, rng, slots, evaluations)
            except StuckError:
                raise
            except SomeTurnsFailedError as turns_error:
                return self._fill_in_failures(turns_error, batch, on_error)
            except BaseException as error:  # an agent may call sys.exit, or cancel a task of asyncio
                if is_ctrl_c_in_main_thread(error):
                    raise
        turns = Turns.allocate(size)
        if evaluations is not None:
            evaluations.put(slice(None), Evaluations.blank(size))
        for i in range(size):
            index_range = slice(i, i + 1)
            evaluation = None if evaluations is None else evaluations.select(index_range)
            single_game = batch.select_range(i, i + 1), Streams(rng.seeds[index_range]), slots[index_range], evaluation
            turns.cells[i], turns.gifts[i] = self._take_single_turn(player, *single_game, on_error)
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
        """Return the turn (cell, gift) in the only position of ``batch``."""
        try:
            turns = _take_turns_and_time(player, batch, rng, slots, evaluations)
        except StuckError:
            raise
        except SomeTurnsFailedError as turns_error:
            turns = self._fill_in_failures(turns_error, batch, on_error)
        except BaseException as error:
            if is_ctrl_c_in_main_thread(error):
                raise
            return self._record_and_encode_failure(error, batch.position(0), on_error), NONE
        return int(turns.cells[0]), int(turns.gifts[0])

    def _fill_in_failures(
        self, turns_error: SomeTurnsFailedError, batch: Batch, on_error: ErrorCallback | None
    ) -> Turns:
        """Record the failures in ``turns_error``, and return its turns.

        The cell of each turn that failed is ``ERROR_CELL`` or ``LATE_CELL``.
        """
        for i, error in turns_error.failures.items():
            turns_error.turns.cells[i], turns_error.turns.gifts[i] = (
                self._record_and_encode_failure(error, batch.position(i), on_error),
                NONE,
            )
        return turns_error.turns

    def _record_and_encode_failure(
        self, error: BaseException, position: PackedPosition, on_error: ErrorCallback | None
    ) -> int:
        """Record an exception or a late turn, and return the code that stands for its cell."""
        if isinstance(error, GameTimeoutError):
            self._record_fault(USED_UP, Fault(USED_UP, str(error), "", self._format_position(position)))
            return LATE_CELL
        if isinstance(error, TurnTimeoutError):
            limit = f"({error})" if str(error) else ""  # with the key, so that the author knows which one
            self._record_fault(WAS_LATE, Fault(WAS_LATE, limit, "", self._format_position(position)))
            return LATE_CELL
        if on_error is not None:
            on_error(error)
        else:
            kind = error.details.kind if isinstance(error, RemoteError) else type(error).__name__
            verb = NO_TURN if kind == AnswerError.__name__ else RAISED
            fault = Fault(
                verb,
                format_error_class_and_text(error),
                describe_author_error_location(error),
                self._format_position(position),
            )
            self._record_fault(f"{kind} at {fault.line}", fault, error)
        return ERROR_CELL

    def _format_position(self, position: PackedPosition) -> str:
        name = self.rules.name  # may contain changed keys, with which the text does not parse
        return format_position(position) if name == "classic" else f"{format_position(position)} {name}"

    def _record_fault(self, kind: str, fault: Fault, error: BaseException | None = None) -> None:
        """Count a fault; if it is the first of its ``kind``, also log it, unless many kinds have been logged already.

        If ``error`` is given, it is logged with its traceback.
        """
        with self._lock:
            kept_fault = self._add_fault(kind, fault)
        if kept_fault is fault and len(self._faults) <= MAX_LOGGED_FAULTS:
            logger.warning(
                "agent '%s' %s in position %s and forfeits its game; any more are only counted",
                *(self.label, fault, fault.position),
                exc_info=error,
            )

    def _add_fault(self, kind: str, fault: Fault) -> Fault:
        """Count a fault, and return the fault that represents its kind. The caller must hold the lock."""
        kept_fault = self._faults.setdefault(kind, fault)
        if kept_fault is not fault:
            kept_fault.count += fault.count
            if not kept_fault.position:
                kept_fault.cause, kept_fault.position = fault.cause, fault.position
        return kept_fault

    # Illegal turns.

    @property
    def illegal_turn_unreported(self) -> bool:
        """Whether no illegal turn of the agent has been reported yet."""
        return not self.first_illegal_report

    def log_first_illegal_turn(
        self, player: BatchPlayer, position: PackedPosition, seed: int, turn: tuple[int, int]
    ) -> None:
        """Log an illegal turn, unless an illegal turn of the agent was logged before.

        The turn is not counted here, but by ``add_illegal_turn``.

        Args:
            player: The player that chose the turn.
            position: The position in which it was chosen.
            seed: The seed of the turn.
            turn: The turn (cell, gift).

        """
        answer, report = describe_illegal_turn(position, player.unusual.get(seed, turn), self.rules, self._writes_turns)
        with self._lock:
            if self.first_illegal_report:
                return
            self.first_illegal_report = report
            self._add_fault(ILLEGAL, Fault(ILLEGAL, answer, "", self._format_position(position), 0))
        logger.warning(
            "agent '%s' answered with an illegal turn and forfeits its game; any more are only counted\n%s",
            *(self.label, report),
        )

    def add_illegal_turn(self) -> None:
        """Count one more game that was forfeited by an illegal turn."""
        with self._lock:
            self._add_fault(ILLEGAL, Fault(ILLEGAL, "", "", ""))

    # Misbehaviour.

    def list_faults_by_frequency(self, *verbs: str) -> list[Fault]:
        """Return the agent's faults of the kinds named by ``verbs``, with the most frequent first.

        Each of ``verbs`` is one of ``FAULT_VERBS``, such as ``raised``.
        """
        with self._lock:
            faults = [fault for fault in self._faults.values() if fault.verb in verbs and fault.count]
        return sorted(faults, key=lambda fault: -fault.count)

    def describe_misbehaviour(self) -> Iterator[str]:
        """Yield a line about each fault for which the agent forfeited games, and the remarks of the agent's players."""
        for fault in self.list_faults_by_frequency(*FAULT_VERBS):
            yield f"agent '{self.label}' {fault.description}"
        for line in [*self._list_player_remarks(), *self._remarks]:
            yield f"agent '{self.label}' {line}"

    def _list_player_remarks(self) -> list[str]:
        return self._player.remarks()

    def add_game_counts(self, games: int, forfeits: int) -> None:
        """Add to the counts of finished and forfeited games."""
        with self._lock:
            self._games += games
            self._forfeits += forfeits

    def check_not_all_forfeited(self) -> None:
        """Raise ``AllForfeitedError`` if the agent has forfeited all its games.

        No error is raised before the agent has finished ``MIN_FORFEITED_GAMES`` games.
        """
        if self._games >= MIN_FORFEITED_GAMES and self._forfeits == self._games:
            # Without their counts, which include turns of games that other threads have not finished.
            faults = "; ".join(
                f"{fault}, first in position {fault.position}" for fault in self.list_faults_by_frequency(*FAULT_VERBS)
            )
            raise AllForfeitedError(
                Advice(
                    f"agent '{self.label}' has forfeited all its first {self._games:,} games: it {faults}",
                    "what was played is kept, and --keep-going plays on",
                    "what was played is kept, and keep_going=True plays on",
                    separator="; ",
                )
            )

    def take_new_misbehaviour(self) -> Misbehaviour:
        """Return the counts of the agent's games and faults since the last call, and the new remarks of its players.

        They are JSON values, which can be sent to another process.
        """
        with self._lock:
            remarks = [line for line in self._list_player_remarks() if line not in self._remarks]
            counts = {kind: fault.count for kind, fault in self._faults.items()}
            counts |= {"games": self._games, "forfeits": self._forfeits}
            new_counts = {kind: count - self._reported_counts.get(kind, 0) for kind, count in counts.items()}
            self._reported_counts = counts
            self._remarks.extend(remarks)
        faults = {
            kind: asdict(fault) | {"count": new_counts[kind]}
            for kind, fault in self._faults.items()
            if new_counts[kind]
        }
        misbehaviour = {
            "faults": faults,
            "remarks": remarks,
            "games": new_counts["games"],
            "forfeits": new_counts["forfeits"],
        }
        return {name: value for name, value in misbehaviour.items() if value}

    def add_misbehaviour(self, misbehaviour: Misbehaviour) -> None:
        """Add the misbehaviour of the same agent in another process, where ``take_new_misbehaviour`` returned it."""
        self.add_game_counts(misbehaviour.get("games", 0), misbehaviour.get("forfeits", 0))
        with self._lock:
            for kind, fault in misbehaviour.get("faults", {}).items():
                self._add_fault(kind, Fault(**fault))
            self._remarks.extend(line for line in misbehaviour.get("remarks", ()) if line not in self._remarks)


def _take_turns_and_time(
    player: BatchPlayer, batch: Batch, rng: Streams, slots: NDArray[np.uint32], evaluations: Evaluations | None
) -> Turns:
    """Return the turns of a player.

    If evaluations are requested, record in them the time of each turn that the player did not time.
    """
    if evaluations is None:
        return player.play(batch, rng, slots)
    started = time.perf_counter()
    try:
        return player.play(batch, rng, slots, evaluations)
    finally:
        evaluations.give_untimed_equal_time_share(time.perf_counter() - started)


def format_error_class_and_text(error: BaseException) -> str:
    """Format an exception of an agent in one line: its class and its own text."""
    text = str(error) if isinstance(error, RemoteError) else f"{type(error).__name__}: {error}"
    text = " ".join(text.removeprefix(f"{AnswerError.__name__}: ").split()).removesuffix(":")
    return f"{text:.{MAX_ERROR_CHARACTERS}}{NUMBERS_HINT if text.endswith('not (cell, gift)') else ''}"


def build_jitted_error(label: str) -> RequestError:
    """Build the error for a jitted agent with limits, which cannot be enforced on compiled code."""
    return RequestError(
        f"agent '{label}' is jitted: turn_seconds and isolation are for agents in Python, whose turns can be ended; "
        "leave them out"
    )
