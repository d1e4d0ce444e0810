"""An agent in the arena: it is asked for turns. Any fault forfeits its game and is logged once."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agents.base import ERROR, LATE, Agent, LateError, SomeFailedError
from agents.lift import LiftedPlayer, lift
from quarto.batch import Batch, Turns
from quarto.errors import ArenaError, FailureError, RequestError, is_ctrl_c
from quarto.notation import format_cell, format_piece, format_position
from quarto.position import Position
from quarto.rng import Streams
from quarto.rules import CELLS, NONE, PIECES, Rules
from runners.hosting.child_program import RemoteError, raised_at

logger = logging.getLogger(__name__)

MOST_LINES = 10  # lines of an agent's code whose exceptions are logged
Report = Callable[[BaseException], None]  # takes what an agent raised
Misbehaviour = dict[str, Any]  # counts: raised (by kind and line), late, illegal; and remarks


@contextmanager
def unlogged() -> Iterator[None]:
    """Within the context forfeits are counted and not logged: the caller reports them."""
    logger.addFilter(_nothing)
    try:
        yield
    finally:
        logger.removeFilter(_nothing)


def _nothing(_record: logging.LogRecord) -> bool:
    return False


class StuckError(FailureError):
    """Too many turns of an agent do not end: the run cannot go on. Games that were finished are kept."""


class GuardedAgent:
    """An agent with its label, for all threads: lifts it, asks for turns, and turns its failures into forfeits."""

    def __init__(self, agent: Agent, label: str, rules: Rules) -> None:
        self.label = label
        self.rules = rules
        try:
            self._player = lift(agent, rules, label)
        except ArenaError:
            raise
        except BaseException as error:
            if is_ctrl_c(error):
                raise
            reason = " ".join(f"{type(error).__name__}: {error}".split())
            raise RequestError(f"agent '{label}' cannot be set up for rules '{rules.name}': {reason}") from error
        self._lock = threading.Lock()  # of what follows
        self._raised: Counter[str] = Counter()  # exceptions by kind and line of code
        self._texts: dict[str, str] = {}  # of the first of each
        self.illegal = self.late = 0  # games that it forfeited so
        self.first_illegal = ""  # lines on its first illegal turn
        self._remarks: list[str] = []  # of its players in other processes, or reported to another process

    def player(self) -> LiftedPlayer:
        """The player for one thread."""
        return self._player.fork()

    def take(self, player: LiftedPlayer) -> None:
        """Use ``player`` from now on."""
        self._player = player

    @property
    def game_words(self) -> int:
        """The number of uint64 words that a player remembers of each game."""
        return self._player.game_words

    def ask(
        self, player: LiftedPlayer, batch: Batch, rng: Streams, slots: NDArray[np.uint32], report: Report | None = None
    ) -> Turns:
        """The turns of ``player``, which plays for this agent.

        Where it raises, the cell is ``ERROR`` and the exception goes to ``report``, by default to the log; where it
        takes too long, the cell is ``LATE``. An exception does not show which game of the batch caused it, so each
        game is then asked for alone. Raises ``StuckError``.
        """
        size = len(rng.seeds)
        if size > 1 and not player.alone:
            try:
                return player.play(batch, rng, slots)
            except StuckError:
                raise
            except SomeFailedError as some:
                return self._forfeited(some, report or self._log)
            except BaseException as error:  # an agent may call sys.exit, or cancel a task of asyncio
                if is_ctrl_c(error):
                    raise
        turns = Turns.empty(size)
        for i in range(size):
            part = batch.part(i, i + 1), Streams(rng.seeds[i : i + 1]), slots[i : i + 1]
            turns.cells[i], turns.gifts[i] = self._alone(player, *part, report or self._log)
        return turns

    def _alone(
        self, player: LiftedPlayer, batch: Batch, rng: Streams, slots: NDArray[np.uint32], report: Report
    ) -> tuple[int, int]:
        """The turn in a single position: cell and gift."""
        try:
            turns = player.play(batch, rng, slots)
        except StuckError:
            raise
        except SomeFailedError as some:
            turns = self._forfeited(some, report)
        except BaseException as error:
            if is_ctrl_c(error):
                raise
            return self._instead(error, report), NONE
        return int(turns.cells[0]), int(turns.gifts[0])

    def _forfeited(self, some: SomeFailedError, report: Report) -> Turns:
        """The turns of a batch, those that were not taken as ``ERROR`` or ``LATE``."""
        for i, error in some.failures.items():
            some.turns.cells[i], some.turns.gifts[i] = self._instead(error, report), NONE
        return some.turns

    def _instead(self, error: BaseException, report: Report) -> int:
        """The code in place of the cell of a turn that was not taken; reports an exception, counts a late turn."""
        if not isinstance(error, LateError):
            report(error)
            return ERROR
        with self._lock:
            self.late += 1
            first = self.late == 1
        if first:
            logger.error("agent '%s' forfeits its game: %s", self.label, error)
        return LATE

    def _log(self, error: BaseException) -> None:
        """Count an exception, and log the first from each line of code with its traceback."""
        kind = error.failed.kind if isinstance(error, RemoteError) else type(error).__name__
        source = f"{kind} at {raised_at(error)}"
        with self._lock:
            self._raised[source] += 1
            first = self._raised[source] == 1 and len(self._raised) <= MOST_LINES
        if first:
            self._texts[source] = str(error)
            logger.error(
                "agent '%s' raised and forfeits its game: %r at %s; any more from there are only counted",
                *(self.label, error, raised_at(error)),
                exc_info=error,
            )

    # Illegal turns.

    @property
    def wants_illegal(self) -> bool:
        """Whether no illegal turn of it has been described yet."""
        return not self.first_illegal

    def describe_illegal(self, player: LiftedPlayer, position: Position, seed: int, turn: tuple[int, int]) -> None:
        """Log its first illegal turn; ``seed`` is that of the turn."""
        unusual: dict[int, tuple[int, int]] = getattr(player, "unusual", {})
        text = illegal_turn(position, unusual.get(seed, turn), self.rules)
        with self._lock:
            if self.first_illegal:
                return
            self.first_illegal = text
        logger.error(
            "agent '%s' answered with an illegal turn and forfeits its game; any more are only counted\n%s",
            *(self.label, text),
        )

    def count_illegal(self) -> None:
        """One more game was forfeited by an illegal turn."""
        with self._lock:
            self.illegal += 1

    def summary(self) -> Iterator[str]:
        """A line for each way in which it forfeited games, and what its player has to say."""
        for line, _ in self.exceptions():
            yield f"agent '{self.label}' raised {line}"
        if self.late:
            yield f"agent '{self.label}' took too long for a turn: {_times(self.late)}"
        if self.illegal:
            yield f"agent '{self.label}' answered with an illegal turn: {_times(self.illegal)}"
        remarks: Callable[[], list[str]] = getattr(self._player, "remarks", list)
        for line in [*remarks(), *self._remarks]:
            yield f"agent '{self.label}' {line}"

    def take_misbehaviour(self) -> Misbehaviour:
        """Its faults since the last call, as JSON values for another process; they are forgotten here."""
        with self._lock:
            remarks: Callable[[], list[str]] = getattr(self._player, "remarks", list)
            new = [line for line in remarks() if line not in self._remarks]
            taken: Misbehaviour = {"raised": dict(self._raised), "late": self.late, "illegal": self.illegal}
            self._raised.clear()
            self.late = self.illegal = 0
            self._remarks.extend(new)
        return {name: value for name, value in {**taken, "remarks": new}.items() if value}

    def add_misbehaviour(self, taken: Misbehaviour) -> None:
        """Add what it did wrong in another process."""
        with self._lock:
            self._raised.update(taken.get("raised", {}))
            self.late += taken.get("late", 0)
            self.illegal += taken.get("illegal", 0)
            self._remarks.extend(line for line in taken.get("remarks", ()) if line not in self._remarks)

    def exceptions(self) -> list[tuple[str, str]]:
        """Its exceptions by kind and line, the most frequent first: how often each was raised, and the first text."""
        return [(f"{each}: {_times(count)}", self._texts.get(each, "")) for each, count in self._raised.most_common()]


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count:,} times"


def illegal_turn(position: Position, turn: tuple[int, int], rules: Rules) -> str:
    """Lines on an illegal turn: the position, its board, what was answered, why that is illegal, and what was legal."""
    cell, gift = turn
    text, name = format_position(position), "" if rules.name == "classic" else f", rules {rules.name}"
    board = text.split()[0].split("/")
    free = [each for each in range(CELLS) if not position.occupied >> each & 1]
    left = [each for each in range(PIECES) if position.available >> each & 1]
    gives_only = position.hand == NONE and not rules.mover_chooses
    wrong = []
    if not gives_only and cell not in free:
        wrong.append(f"cell {cell}{f' ({format_cell(cell)})' if 0 <= cell < CELLS else ''} is not an empty cell")
    if gift not in left:
        piece = f" ({format_piece(gift)})" if 0 <= gift < PIECES else ""
        wrong.append(f"piece {gift}{piece} is not among those left")
    lines = [
        f"position: {text}{name}",
        *(f"    {row}" for row in board),
        f"answered: (cell, gift) = ({cell}, {gift}): {' and '.join(wrong) or 'no turn'}",
        *([] if gives_only else [f"legal cells: {_listed(free, format_cell)}"]),
        f"legal pieces: {_listed(left, format_piece)}",
    ]
    return "\n".join(f"  {line}" for line in lines)


def _listed(numbers: list[int], name: Callable[[int], str]) -> str:
    return ", ".join(f"{number} ({name(number)})" for number in numbers)
