"""The seams between agents and the engine: what an agent may be, and the frozen signature of a jitted turn.

An agent is an object with one of these, looked for in this order:

``kernel``  a ``KernelAgent`` with a function compiled by ``@turn``: one position in, one turn out. The fastest.
``play``    ``play(batch, rng) -> (cells, gifts)`` over a whole batch of positions: NumPy, PyTorch, anything.
``choose``  ``choose(position, rng) -> (cell, gift)`` for one position: plain Python.

A position without a piece in hand asks, when the opponent chooses pieces, for a gift alone: the returned cell is
ignored. Under ``chooser='mover'`` the hand is always empty and the turn is (cell, piece to place there). An agent may
also have

``choosers``            who may choose the pieces in the rules it plays; default ``('opponent', 'mover')``
``prepare(rules)``      called once before the first turn, for set-up that depends on the rules (not for kernels)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol, runtime_checkable

import numba
import numpy as np
from numba import types
from numpy.typing import NDArray

from quarto.batch import Batch
from quarto.kernel import array_pointer, inlined, int64, kernel
from quarto.position import POSITION_TYPE, Position
from quarto.rng import Streams
from quarto.rules import RULE_TABLES, Rules

ERROR = -2  # instead of a cell: the agent raised, and its game ends as 'forfeit_error'

# What a jitted agent carries, as one record of addresses: it travels as a single pointer. Passing the arrays themselves
# costs a third of the speed of a cheap agent, seven words of call overhead each.
OWN = np.dtype(
    [
        ("params_address", np.uint64),
        ("params_size", np.int64),
        ("table_address", np.uint64),
        ("table_size", np.int64),
        ("keys_address", np.uint64),
        ("keys_size", np.int64),
        ("scratch_address", np.uint64),
        ("scratch_size", np.int64),
    ],
    align=True,
)
RULES_TYPE = numba.from_dtype(RULE_TABLES)
OWN_TYPE = numba.from_dtype(OWN)

# (position, seed of this turn, rules, own) -> encode_turn(cell, gift)
TURN_SIGNATURE = types.int64(POSITION_TYPE, types.uint64, RULES_TYPE, OWN_TYPE)
TURN_TYPE = types.FunctionType(TURN_SIGNATURE)

TurnKernel = Callable[[Position, int, Any, Any], int]


def turn(function: TurnKernel) -> TurnKernel:
    """Compile a scalar turn with the one signature that every jitted agent has, so that a new pairing compiles nothing.

    ``function(position, seed, rules, own) -> encode_turn(cell, gift)``: ``seed`` (uint64) feeds ``quarto.rng.draw``,
    ``rules`` is a ``RULE_TABLES`` record, ``own`` is read by ``params``, ``table``, ``keys`` and ``scratch``.
    """
    return kernel(TURN_SIGNATURE)(function)


@inlined
def encode_turn(cell: int, gift: int) -> int:
    """A turn as one integer; either part may be NONE, and what is no cell or piece at all stays none."""
    return (min(max(int64(cell), -1), 16) & 0xFF) | ((min(max(int64(gift), -1), 16) & 0xFF) << 8)


@inlined
def params(own: Any) -> Any:
    """The agent's parameters: [P] float64."""
    return numba.carray(array_pointer(own.params_address), own.params_size, np.float64)


@inlined
def table(own: Any) -> Any:
    """The agent's learned values: [T] float64."""
    return numba.carray(array_pointer(own.table_address), own.table_size, np.float64)


@inlined
def keys(own: Any) -> Any:
    """The keys that its values belong to: [K] uint64."""
    return numba.carray(array_pointer(own.keys_address), own.keys_size, np.uint64)


@inlined
def scratch(own: Any) -> Any:
    """Memory of one thread, kept from turn to turn and zero at first: [S] uint64."""
    return numba.carray(array_pointer(own.scratch_address), own.scratch_size, np.uint64)


@dataclass(frozen=True)
class Knowledge:
    """Everything a jitted agent's turn may read besides the position. Shared by threads, but for the scratch."""

    params: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))  # [P]
    table: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))  # [T]
    keys: NDArray[np.uint64] = field(default_factory=lambda: np.zeros(0, np.uint64))  # [K]
    scratch_size: int = 0  # words of uint64 for each thread


class KernelAgent:
    """An agent whose turn is jitted. A subclass names its ``kernel`` and, if it has parameters, its ``knowledge``."""

    kernel: ClassVar[TurnKernel]
    choosers: ClassVar[tuple[str, ...]] = ("opponent",)

    def knowledge(self, rules: Rules) -> Knowledge:
        """What the kernel's ``own`` will hold under these rules."""
        return Knowledge()

    def early(self, rules: Rules) -> tuple[int, Agent] | None:
        """(n, agent): the agent that plays in its place until n pieces are on the board; None: it always plays."""
        return None


@runtime_checkable
class BatchAgent(Protocol):
    """An agent over batches. Results must not depend on how games are batched together."""

    def play(self, batch: Batch, rng: Streams) -> tuple[NDArray[np.integer], NDArray[np.integer]]:
        """Cells and gifts, both [B] integers, for ``B`` positions of the same ply."""
        ...


@runtime_checkable
class GameAgent(Protocol):
    """An agent over single positions."""

    def choose(self, position: Position, rng: np.random.Generator) -> tuple[int, int]:
        """Cell and gift."""
        ...


Agent = KernelAgent | BatchAgent | GameAgent
