"""Players: every kind of agent behind one interface, which takes turns in a whole batch of positions."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from operator import index
from types import MappingProxyType
from typing import Any

import numba
import numpy as np
from numba import types
from numpy.typing import NDArray

from agents.base.agent import (
    AGENT,
    AGENT_TYPE,
    RULES_TYPE,
    TURN_TYPE,
    Agent,
    BatchAgent,
    Evaluation,
    GameAgent,
    KernelAgent,
    Knowledge,
    TurnKernel,
    report_evaluation,
    symmetry_addresses,
)
from quarto.batch import NO_VALUE, NO_VISITS, VALUE_UNITS, Batch, Evaluations, Lockstep, Turns
from quarto.bits import array_pointer
from quarto.errors import AnswerError, RequestError
from quarto.jit import float64, function_value, inline_function, int64, kernel, load_kernel, uint64
from quarto.position import PackedPosition
from quarto.rng import Streams, TurnGenerator
from quarto.rules import Rules
from quarto.views import BatchView, Position

BATCH_TYPE = numba.typeof(Batch.allocate(1))
LOCKSTEP_TYPE = numba.typeof(Lockstep.allocate(1))
EVALUATIONS_TYPE = numba.typeof(Evaluations.blank(1))


@inline_function
def decide_turns(
    turn: TurnKernel, agent: Any, rules: Any, state: Lockstep, seed_offset: int, first_positions: int
) -> None:
    """Call ``turn`` for each of the positions 0 to ``first_positions`` - 1 of ``state``.

    The turns are written into ``state.turns``. The seed of a turn is the number that identifies the stream of the
    position's game (see ``quarto/rng.py``), plus ``seed_offset``.
    """
    batch, remembers = state.batch, agent.memory_size != 0
    for i in range(first_positions):
        position = PackedPosition(
            batch.lanes[i],
            int64(batch.occupied[i]),
            int64(batch.available[i]),
            int64(batch.hand[i]),
            int64(batch.last_cell[i]),
        )
        if remembers:
            agent.memory_address = agent.memories_address + uint64(state.slot[i]) * agent.memories_stride
        encoded = turn(position, state.streams[i] + seed_offset, rules, agent)
        state.turns.cells[i] = np.int8(encoded)
        state.turns.gifts[i] = np.int8(encoded >> 8)


# (turn, agent, rules, state, seed offset, number of positions): the turns of a batch, written into ``state.turns``
BATCH_TURN_SIGNATURE = types.void(TURN_TYPE, AGENT_TYPE, RULES_TYPE, LOCKSTEP_TYPE, types.uint64, types.int64)
BATCH_TURN_TYPE = types.FunctionType(BATCH_TURN_SIGNATURE)
BatchTurnKernel = Callable[[TurnKernel, Any, Any, Lockstep, int, int], None]


@function_value(BATCH_TURN_SIGNATURE)
def decide_by_calls(
    turn: TurnKernel, agent: Any, rules: Any, state: Lockstep, seed_offset: int, first_positions: int
) -> None:
    """Call ``turn`` for each position, as ``decide_turns`` does. It stands in for a batch kernel."""
    decide_turns(turn, agent, rules, state, seed_offset, first_positions)


def batch_turn(function: BatchTurnKernel) -> BatchTurnKernel:
    """Compile a function that takes the turns of a whole batch, as the ``batch_kernel`` of an agent.

    It writes the same turns into ``state.turns`` as ``decide_turns`` does, but need not call a function for each of
    them. This pays only if a turn takes a few nanoseconds, as the call does.
    """
    return function_value(BATCH_TURN_SIGNATURE)(function)


@kernel(types.void(TURN_TYPE, AGENT_TYPE, RULES_TYPE, LOCKSTEP_TYPE))
def decide_all_turns_one_by_one(turn: TurnKernel, agent: Any, rules: Any, state: Lockstep) -> None:
    """Call ``turn`` for each position of ``state``, as ``decide_turns`` does.

    Unlike ``decide_turns``, this function can be called from Python.
    """
    decide_turns(turn, agent, rules, state, uint64(0), state.streams.shape[0])


@inline_function
def select_position(state: Lockstep, i: int) -> Lockstep:
    """Return a ``Lockstep`` of position ``i`` alone, whose arrays are views of those of ``state``."""
    batch, end = state.batch, i + 1
    position = Batch(
        batch.lanes[i:end], batch.occupied[i:end], batch.available[i:end], batch.hand[i:end], batch.last_cell[i:end]
    )
    turns = Turns(state.turns.cells[i:end], state.turns.gifts[i:end])
    return Lockstep(position, state.slot[i:end], state.streams[i:end], turns)


clock_gettime = types.ExternalFunction("clock_gettime", types.int32(types.int32, types.voidptr))
CLOCK = time.CLOCK_MONOTONIC


@inline_function
def read_clock_microseconds(clock_id: int, time_buffer: NDArray[np.int64]) -> float:
    """Return the time of a system clock in microseconds.

    ``clock_id`` is the number of the clock for ``clock_gettime``. ``time_buffer`` [2] is overwritten with seconds and
    nanoseconds.
    """
    clock_gettime(clock_id, array_pointer(time_buffer.ctypes.data))
    return 1e6 * float64(time_buffer[0]) + 1e-3 * float64(time_buffer[1])


@kernel(types.void(TURN_TYPE, AGENT_TYPE, RULES_TYPE, LOCKSTEP_TYPE, EVALUATIONS_TYPE, types.int32))
def decide_with_evaluations(
    turn: TurnKernel, agent: Any, rules: Any, state: Lockstep, evaluations: Evaluations, clock_id: int
) -> None:
    """Call ``turn`` for each position of ``state``, and store each turn's evaluation and duration in ``evaluations``.

    The turns are the same as those of ``decide_all_turns_one_by_one``. ``clock_id`` is the number of a system clock, as
    ``read_clock_microseconds`` takes it.
    """
    moment = np.zeros(2, np.int64)
    agent.evaluates = 1
    for i in range(state.streams.shape[0]):
        report_evaluation(agent, np.nan, NO_VISITS)
        start_time = read_clock_microseconds(clock_id, moment)
        decide_turns(turn, agent, rules, select_position(state, i), uint64(0), int64(1))
        evaluations.microseconds[i] = int64(read_clock_microseconds(clock_id, moment) - start_time + 0.5)
        value = agent.value
        evaluations.value[i] = NO_VALUE if np.isnan(value) else np.int32(np.rint(value * VALUE_UNITS))
        evaluations.visits[i] = agent.visits
    agent.evaluates = 0


class BatchPlayer(ABC):
    """A player that chooses a turn for every position of a batch at once.

    By default it remembers nothing of a game, and all threads share it. A copied or unpickled player continues like the
    original. A player that cannot be copied gives the reason in ``copy_obstacle``.
    """

    game_words: int = 0  # words of uint64 that the player remembers for each game
    one_position_at_a_time: bool = False  # whether the engine must ask for one position at a time
    copy_obstacle: str = ""  # why it cannot be copied, or empty if it can
    unusual: Mapping[int, tuple[int, int]] = MappingProxyType({})  # by the turn's seed: answers outside -1 to 15

    @property
    def printed(self) -> str:
        """Everything that the agent has printed in its own processes, collected over all threads."""
        return ""

    def remarks(self) -> list[str]:
        """Return remarks for the user, each a single line, about behaviour that is not an error but worth knowing."""
        return []

    def fork(self) -> BatchPlayer:
        """Return a player of the same agent for another thread. A player that threads can share returns itself."""
        return self

    def start(self, slots: range) -> None:  # noqa: B027  (there may be nothing to do)
        """Begin a new game in each of ``slots``, and forget the games that were played there before.

        A slot is the number by which the player finds what it remembers of a game. The step of ``slots`` is 2 if only
        one of the two games of each pair is played, otherwise 1.
        """

    def restart(self, slots: NDArray[np.integer]) -> None:  # noqa: B027
        """Begin a new game in each of ``slots`` [B], which are among the slots that ``start`` was given.

        The games in the other slots continue.
        """

    @abstractmethod
    def play(
        self,
        batch: Batch,
        rng: Streams,
        slots: NDArray[np.uint32] | None = None,
        evaluations: Evaluations | None = None,
    ) -> Turns:
        """Take a turn in each position of a batch.

        ``slots`` [B] are the slots of the games to which the positions belong; they must have been started.
        ``evaluations`` [B], if given, is overwritten with the evaluations that the player reports.

        Any error that the agent raises is passed on. Raises ``TurnTimeoutError`` if a turn took too long. If only some
        turns failed, raises ``SomeTurnsFailedError``, which holds the other turns, instead of these errors.
        """


class KernelPlayer(BatchPlayer):
    """The player of a jitted agent.

    Each thread needs its own player, because scratch and memory are written without locks.
    """

    def __init__(
        self,
        turn: TurnKernel,
        knowledge: Knowledge,
        rules: Rules,
        batch_kernel: BatchTurnKernel | None = None,
    ) -> None:
        self.turn = load_kernel(turn)  # compiled now, so that a faulty kernel is refused before it plays
        self._batch_turn = None if batch_kernel is None else load_kernel(batch_kernel)
        self._kernels = turn, batch_kernel
        self.rules = rules
        self.game_words = knowledge.game_words
        self._knowledge = knowledge
        self._memories = np.zeros((0, knowledge.game_words), np.uint64)  # [games, game_words]
        self._slots = range(0)  # of those games
        self._arrays: dict[str, NDArray[Any]] = {  # kept alive here: the record below holds bare addresses
            "params": np.ascontiguousarray(knowledge.params, np.float64),
            "table": np.ascontiguousarray(knowledge.table, np.float64),
            "keys": np.ascontiguousarray(knowledge.keys, np.uint64),
            "scratch": np.zeros(knowledge.scratch_size, np.uint64),
        }
        agent = np.zeros(1, AGENT)
        for name, array in self._arrays.items():
            agent[f"{name}_address"] = array.ctypes.data
            agent[f"{name}_size"] = array.size
        agent["memory_size"] = knowledge.game_words
        if knowledge.symmetric:
            self._arrays["symmetries"] = symmetry_addresses(rules)
            agent["symmetries_address"] = self._arrays["symmetries"].ctypes.data
        self.agent = agent[0]

    def fork(self) -> KernelPlayer:
        return KernelPlayer(*self._arguments)

    @property
    def has_batch_kernel(self) -> bool:
        """Whether the agent has a batch kernel of its own."""
        return self._batch_turn is not None

    @property
    def batch_turn(self) -> Any:
        """The compiled function that takes the turns of a batch: the agent's batch kernel, or calls of its kernel."""
        return self._batch_turn or load_kernel(decide_by_calls)

    @property
    def _arguments(self) -> tuple[TurnKernel, Knowledge, Rules, BatchTurnKernel | None]:
        """The arguments from which this player was built."""
        turn, batch_kernel = self._kernels
        return turn, self._knowledge, self.rules, batch_kernel

    @classmethod
    def resume(
        cls,
        player_arguments: tuple[TurnKernel, Knowledge, Rules, BatchTurnKernel | None],
        memories: NDArray[np.uint64],
        slots: range,
        scratch: NDArray[np.uint64],
    ) -> KernelPlayer:
        """Build a player that continues the games in ``slots``.

        ``player_arguments`` are the arguments of ``KernelPlayer``. The player takes over ``memories`` [games,
        game_words], and copies ``scratch``.
        """
        player = cls(*player_arguments)
        player._arrays["scratch"][:] = scratch
        if player.game_words:
            player._memories = memories
            player._point_record_at(slots)
        return player

    def __deepcopy__(self, _memo: dict[int, Any]) -> KernelPlayer:
        """Copy the player's memories and scratch; share its knowledge, as threads do."""
        build, (player_arguments, memories, slots, scratch) = self.__reduce__()
        player: KernelPlayer = build(player_arguments, memories.copy(), slots, scratch)
        return player

    def __reduce__(self) -> tuple[Callable[..., KernelPlayer], tuple[Any, ...]]:
        """Pickle the parts from which the player can be rebuilt.

        The record that the kernel gets as ``agent`` is left out, because it holds addresses that are valid only in this
        process.
        """
        return type(self).resume, (self._arguments, self._memories, self._slots, self._arrays["scratch"])

    def start(self, slots: range) -> None:
        if self.game_words == 0:
            return
        if len(self._memories) == len(slots):
            self._memories.fill(0)
        else:
            self._memories = self._memories[:0].copy()  # free the old array before making the new one
            self._memories = np.zeros((len(slots), self.game_words), np.uint64)
        self._point_record_at(slots)

    def _point_record_at(self, slots: range) -> None:
        """Write where the memories of the games in ``slots`` are into the record that the kernel gets as ``agent``."""
        self._slots = slots
        first, stride = self._memories.ctypes.data, self._memories.itemsize * self.game_words // slots.step
        self.agent["memory_address"] = first
        self.agent["memories_address"] = (first - slots.start * stride) % (1 << 64)
        self.agent["memories_stride"] = stride

    def restart(self, slots: NDArray[np.integer]) -> None:
        if self.game_words:
            self._memories[self._memory_rows(slots)] = 0

    def _memory_rows(self, slots: NDArray[np.integer]) -> NDArray[np.int64]:
        return (slots.astype(np.int64) - self._slots.start) // self._slots.step

    def play(
        self,
        batch: Batch,
        rng: Streams,
        slots: NDArray[np.uint32] | None = None,
        evaluations: Evaluations | None = None,
    ) -> Turns:
        """Take a turn in each position, as ``BatchPlayer.play`` does.

        Without ``slots``, each position belongs to a separate game that has just begun. If the kernel raises an error,
        the memories of the games are restored before the error is raised.
        """
        if slots is None:
            slots = np.arange(len(batch.lanes), dtype=np.uint32)
            self.start(range(len(slots)))
        state = Lockstep(batch, slots, rng.seeds, Turns.allocate(len(slots)))
        if self.game_words == 0:
            self._decide(state, evaluations)
            return state.turns
        rows = self._memory_rows(slots)
        before = self._memories[rows]
        try:
            self._decide(state, evaluations)
        except BaseException:
            self._memories[rows] = before
            raise
        return state.turns

    def _decide(self, state: Lockstep, evaluations: Evaluations | None) -> None:
        if evaluations is None:
            decide_all_turns_one_by_one(self.turn, self.agent, self.rules.tables, state)
        else:
            contiguous = Evaluations.blank(len(state.slot))  # as the kernel takes them
            decide_with_evaluations(self.turn, self.agent, self.rules.tables, state, contiguous, CLOCK)
            evaluations.put(slice(None), contiguous)


@dataclass(frozen=True)
class PythonAgent:
    """An agent written in Python, with the rules for which it was prepared."""

    agent: BatchAgent | GameAgent
    rules: Rules
    turn_generator: TurnGenerator = field(default_factory=TurnGenerator, compare=False, repr=False)

    @cached_property  # asking for a protocol takes 10 microseconds
    def takes_batches(self) -> bool:
        """Whether the agent chooses the turns of a whole batch at once rather than of one position at a time."""
        return isinstance(self.agent, BatchAgent)

    def choose_turns(
        self, batch: Batch, rng: Streams, evaluations: Evaluations | None = None
    ) -> tuple[NDArray[np.integer], NDArray[np.integer]]:
        """Ask the agent for its turns in a batch, and return the cells and the gifts: [B] each.

        The agent's evaluations are written into ``evaluations`` [B]. Any error that the agent raises is passed on.
        Raises ``AnswerError`` if an answer has the wrong form.
        """
        agent: Any = self.agent
        if self.takes_batches:
            method: Callable[..., Any] = agent.play
            batch, rng = batch.copy(), Streams(rng.seeds.copy())  # copies, because the agent may change them in place
            answer = _call_checking_signature(method, BatchView(batch, self.rules), rng)
            cells, gifts, evaluation = _split_answer(method, answer, "(cells, gifts)")
            _check_and_fill_evaluation_rows(method, evaluation, evaluations, slice(None), len(batch.lanes))
        else:
            method, cells, gifts = agent.choose, [], []
            for i, (position, seed) in enumerate(zip(batch.list_positions(), rng.seeds.tolist(), strict=True)):
                start_time = time.perf_counter()
                turn_rng = self.turn_generator.begin_turn(seed)
                answer = _call_checking_signature(method, Position(position, self.rules), turn_rng)
                cell, gift, evaluation = _split_answer(method, answer, "(cell, gift)")
                if evaluation is not None:
                    _check_and_fill_evaluation_rows(method, evaluation, evaluations, slice(i, i + 1), 1)
                if evaluations is not None:
                    evaluations.microseconds[i] = round(1e6 * (time.perf_counter() - start_time))
                try:
                    cells.append(index(cell))
                    gifts.append(index(gift))
                except TypeError:
                    raise AnswerError.from_answer(method, answer, "(cell, gift)") from None
        size = len(batch.lanes)
        return _check_integers(method, "cells", cells, size), _check_integers(method, "gifts", gifts, size)


def _call_checking_signature(method: Callable[..., Any], *arguments: object) -> Any:
    """Call a method of an agent. Raises ``AnswerError`` if the method does not accept these arguments."""
    try:
        return method(*arguments)
    except TypeError as error:
        if error.__traceback__ is not None and error.__traceback__.tb_next is None:  # raised by the call itself
            raise AnswerError(method, f"cannot be called as it should: {error}") from None
        raise


def _split_answer(method: Callable[..., Any], answer: Any, expected: str) -> tuple[Any, Any, Evaluation | None]:
    """Split an agent's answer into cells, gifts and an evaluation, which is None if the agent returned none.

    The answer of an agent that chooses for one position at a time has one cell and one gift. Raises ``AnswerError`` if
    the answer has another form. ``expected`` describes the expected form in the message.
    """
    try:
        first, second, *evaluation = answer
    except (TypeError, ValueError):
        raise AnswerError.from_answer(method, answer, expected) from None
    if evaluation and not (len(evaluation) == 1 and isinstance(evaluation[0], Evaluation)):
        raise AnswerError.from_answer(method, answer, expected)
    return first, second, evaluation[0] if evaluation else None


def _check_and_fill_evaluation_rows(
    method: Callable[..., Any], evaluation: Evaluation | None, evaluations: Evaluations | None, rows: slice, size: int
) -> None:
    """Check the evaluation of ``size`` turns and write it into ``rows`` of ``evaluations``.

    The evaluation is checked even if ``evaluations`` is None, so that games do not depend on whether evaluations are
    stored. Raises ``AnswerError`` for an invalid evaluation.
    """
    if evaluation is None:
        return
    try:
        value = np.broadcast_to(np.asarray(np.nan if evaluation.value is None else evaluation.value, np.float64), size)
        visits = np.broadcast_to(
            np.asarray(NO_VISITS if evaluation.visits is None else evaluation.visits, np.int64), size
        )
    except (TypeError, ValueError) as error:
        raise AnswerError(
            method, f"returned {repr(evaluation)[:100]}, which does not hold {size} numbers: {error}"
        ) from None
    if (np.abs(value) > 1).any() or (visits < NO_VISITS).any():
        raise AnswerError(
            method, f"returned {repr(evaluation)[:100]}: a value is from -1 (lost) to 1 (won), visits are at least 0"
        )
    if evaluations is not None:
        evaluations.value[rows] = np.where(np.isnan(value), NO_VALUE, np.rint(np.nan_to_num(value) * VALUE_UNITS))
        evaluations.visits[rows] = visits


def _check_integers(method: Callable[..., Any], name: str, values: Any, size: int) -> NDArray[np.integer]:
    array = np.asarray(values)
    if array.shape != (size,):
        raise AnswerError(method, f"returned {name} of shape {array.shape}, not ({size},)")
    if array.dtype.kind not in "iu":
        raise AnswerError(method, f"returned {name} of dtype {array.dtype}, not integers")
    return array


class PythonPlayer(BatchPlayer):
    """The player of an agent written in Python.

    The player checks the form of the turns; the engine checks their legality. Threads share the agent behind a lock,
    so it need not be thread-safe. However, the order in which the agent meets positions depends on the threads. A run
    can therefore be repeated only if the agent's answers depend on nothing but the position and ``rng``.
    """

    def __init__(self, agent: PythonAgent | None) -> None:
        """Build a player of ``agent``.

        ``agent`` is None in a subclass that does not call an agent itself but, for example, asks another process for
        the turns.
        """
        self.unusual: dict[int, tuple[int, int]] = {}
        self._agent = agent
        self._lock = threading.Lock()
        if agent is None:
            self.copy_obstacle = "it plays in a process of its own"

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without the lock. Raises ``TypeError`` if the player cannot be copied."""
        if self.copy_obstacle:
            raise TypeError(f"{type(self).__name__} cannot be copied: {self.copy_obstacle}")
        return {name: value for name, value in self.__dict__.items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _lock=threading.Lock())

    def play(
        self,
        batch: Batch,
        rng: Streams,
        slots: NDArray[np.uint32] | None = None,
        evaluations: Evaluations | None = None,
    ) -> Turns:
        return to_turns(*self._choose_turns(batch, rng, evaluations), rng, self.unusual)

    def _choose_turns(
        self, batch: Batch, rng: Streams, evaluations: Evaluations | None
    ) -> tuple[NDArray[np.integer], NDArray[np.integer]]:
        """Return the cells and gifts that the agent chose, and write its evaluations into ``evaluations`` [B].

        Cells and gifts may be out of range. Any error that the agent raises is passed on. Raises ``AnswerError`` if an
        answer has the wrong form, and ``TurnTimeoutError`` if a turn took too long.
        """
        if self._agent is None:
            raise TypeError(f"{type(self).__name__} has no agent in this process")
        with self._lock:
            return self._agent.choose_turns(batch, rng, evaluations)


MAX_UNUSUAL_TURNS = 1000  # of answers that are kept to be shown, because an agent may give no others


def to_turns(
    cells: NDArray[np.integer],
    gifts: NDArray[np.integer],
    rng: Streams,
    out_of_range_turns_by_seed: dict[int, tuple[int, int]],
) -> Turns:
    """Build ``Turns`` from the cells and gifts that an agent in Python chose.

    Numbers outside -1 to 15 become ``OUT_OF_RANGE``. The original cell and gift of such a turn are stored in
    ``out_of_range_turns_by_seed`` under the seed of the turn, for up to ``MAX_UNUSUAL_TURNS`` turns.
    """
    turns = Turns(
        *(
            np.where((numbers >= -1) & (numbers < 16), numbers, OUT_OF_RANGE).astype(np.int8)
            for numbers in (cells, gifts)
        )
    )
    for i in np.flatnonzero((turns.cells == OUT_OF_RANGE) | (turns.gifts == OUT_OF_RANGE)):
        if len(out_of_range_turns_by_seed) < MAX_UNUSUAL_TURNS:
            out_of_range_turns_by_seed[int(rng.seeds[i])] = int(cells[i]), int(gifts[i])
    return turns


OUT_OF_RANGE = -128  # stands for all numbers that are neither a cell, a piece nor NONE


class StagedPlayer(BatchPlayer):
    """A player that combines two others: ``early`` until ``pieces`` pieces are on the board, ``late`` from then on."""

    def __init__(self, early: BatchPlayer, late: BatchPlayer, pieces: int) -> None:
        self._early, self._late, self._pieces = early, late, pieces
        self.game_words = early.game_words + late.game_words
        self.copy_obstacle = early.copy_obstacle or late.copy_obstacle

    def fork(self) -> StagedPlayer:
        return StagedPlayer(self._early.fork(), self._late.fork(), self._pieces)

    def start(self, slots: range) -> None:
        self._early.start(slots)
        self._late.start(slots)

    def restart(self, slots: NDArray[np.integer]) -> None:
        self._early.restart(slots)
        self._late.restart(slots)

    def play(
        self,
        batch: Batch,
        rng: Streams,
        slots: NDArray[np.uint32] | None = None,
        evaluations: Evaluations | None = None,
    ) -> Turns:
        turns, early_mask = Turns.allocate(len(batch.lanes)), np.bitwise_count(batch.occupied) < self._pieces
        for player, mask in ((self._early, early_mask), (self._late, ~early_mask)):
            if mask.any():
                player_slots = None if slots is None else slots[mask]
                player_evaluations = None if evaluations is None else Evaluations.blank(int(mask.sum()))
                player_turns = player.play(
                    batch.select(mask), Streams(rng.seeds[mask]), player_slots, player_evaluations
                )
                if evaluations is not None and player_evaluations is not None:
                    evaluations.put(mask, player_evaluations)
                turns.cells[mask], turns.gifts[mask] = player_turns
        return turns


def list_accepted_choosers(agent: Agent) -> tuple[str, ...]:
    """List the values of ``Rules.chooser`` under which an agent plays.

    An agent that has no attribute ``choosers`` plays under both values.
    """
    choosers: tuple[str, ...] = getattr(agent, "choosers", ("opponent", "mover"))
    return choosers


def build_player(agent: Agent, rules: Rules, label: str) -> BatchPlayer:
    """Build a player of the agent for the rules; ``label`` names the agent in messages.

    Raises ``RequestError`` if the agent has none of the three interfaces or does not play these rules.
    """
    build = getattr(agent, "build_player", None)
    if build is not None:
        player: BatchPlayer = build(rules, label)
        return player
    check_choosers(list_accepted_choosers(agent), rules, label)
    if isinstance(agent, KernelAgent):
        late = KernelPlayer(agent.turn_kernel(), agent.knowledge(rules), rules, agent.batch_kernel)
        early = agent.early(rules)
        return late if early is None else StagedPlayer(build_player(early[1], rules, label), late, early[0])
    return PythonPlayer(prepare_python_agent(agent, rules, label))


def check_choosers(choosers: Sequence[str], rules: Rules, label: str) -> None:
    """Raise ``RequestError`` unless an agent can play under ``rules.chooser``, the player who chooses the pieces.

    ``choosers`` are the values of ``Rules.chooser`` under which the agent can play; ``label`` names the agent in the
    message.
    """
    if rules.chooser not in choosers:
        raise RequestError(
            f"agent '{label}' does not play rules '{rules.name}': there the {rules.chooser} chooses the piece, and it "
            f"plays only where the {' or '.join(choosers)} does; choose other rules or another agent"
        )


def prepare_python_agent(agent: Any, rules: Rules, label: str) -> PythonAgent:
    """Prepare an agent written in Python for ``rules``, and return it as a ``PythonAgent``.

    The agent's method ``prepare`` is called, if it has one. Raises ``RequestError`` for an agent that has neither
    ``play`` nor ``choose``; ``label`` names the agent in the message.
    """
    if not isinstance(agent, (BatchAgent, GameAgent)):
        raise RequestError(
            f"agent '{label}' ({type(agent).__module__}.{type(agent).__qualname__}) is not a KernelAgent, "
            "and has neither play(batch, rng) nor choose(position, rng): give it one of them (see agents/base/agent.py)"
        )
    prepare = getattr(agent, "prepare", None)
    if prepare is not None:
        prepare(rules)
    return PythonAgent(agent, rules)
