"""The interfaces between agents and the engine: what an agent may be, and the frozen signature of a jitted turn.

An agent is an object with one of these, looked for in this order:

``kernel``  a ``KernelAgent`` with a function compiled by ``@turn``: one position in, one turn out. The fastest.
``play``    ``play(batch, rng) -> (cells, gifts)`` over a whole batch of positions: NumPy, PyTorch, anything.
``choose``  ``choose(position, rng) -> (cell, gift)`` for one position: plain Python.

An agent in Python sees positions as ``quarto/views.py`` has them: lists or arrays of cells and pieces.

A position without a piece in hand asks, when the opponent chooses pieces, for a gift alone: the returned cell is
ignored. Under ``chooser='mover'`` the hand is always empty and the turn is (cell, piece to place there). An agent may
also have

``choosers``            who may choose the pieces in the rules it plays. The default is ``('opponent', 'mover')``.
``prepare(rules)``      called once before the first turn, for set-up that depends on the rules. Not for kernels.
``data_files``          paths of files and folders on which its turns depend, such as weights. They are part of its
                        fingerprint, as its code is. A file that a parameter names is part of it in any case.

Beside its turn an agent in Python may return an ``Evaluation``, and a jitted one may call ``report_evaluation``. With
``archive.evaluations=true`` the archive stores these.

An object with ``build_player(rules, label) -> BatchPlayer`` (see ``agents.base.player``) stands for an agent and builds
its player.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, NamedTuple, Protocol, runtime_checkable

import numba
import numpy as np
from numba import types
from numpy.typing import NDArray

from quarto.batch import Turns
from quarto.bits import array_pointer
from quarto.errors import RequestError, suggest_valid_names
from quarto.jit import function_value, inline_function, int64
from quarto.position import POSITION_TYPE, PackedPosition
from quarto.rng import Streams
from quarto.rules import CELLS, RULE_TABLES, Rules
from quarto.symmetry import MASKS, Symmetries, build_symmetries
from quarto.views import BatchView, Position

# Numbers that stand for a cell:
ERROR_CELL = -2  # the agent raised an exception, and its game ends as 'forfeit_error'
LATE_CELL = -3  # its turn took longer than it may, and its game ends as 'forfeit_time'

# What a jitted agent carries, as one record of addresses: it travels as a single pointer. Passing the arrays themselves
# costs a third of the speed of a cheap agent, seven words of call overhead each.
AGENT = np.dtype(
    [
        ("params_address", np.uint64),
        ("params_size", np.int64),
        ("table_address", np.uint64),
        ("table_size", np.int64),
        ("keys_address", np.uint64),
        ("keys_size", np.int64),
        ("scratch_address", np.uint64),
        ("scratch_size", np.int64),
        ("memory_address", np.uint64),  # of the game in which a turn is asked for
        ("memory_size", np.int64),
        ("memories_address", np.uint64),  # where the memory of the game in slot 0 is, or would be
        ("memories_stride", np.uint64),  # bytes from one slot to the next
        ("symmetries_address", np.uint64),
        ("evaluates", np.int64),  # whether evaluations are asked for
        ("value", np.float64),  # of its evaluation, see ``report_evaluation``
        ("visits", np.int64),
    ],
    align=True,
)
RULES_TYPE = numba.from_dtype(RULE_TABLES)
AGENT_TYPE = numba.from_dtype(AGENT)

# (position, seed of this turn, rules, agent) -> encode_turn(cell, gift)
TURN_SIGNATURE = types.int64(POSITION_TYPE, types.uint64, RULES_TYPE, AGENT_TYPE)
TURN_TYPE = types.FunctionType(TURN_SIGNATURE)


class Evaluation(NamedTuple):
    """The evaluation that an agent in Python may return with its turn, as in ``(cell, gift, Evaluation(0.3))``.

    An agent whose method is ``play`` returns one evaluation for the whole batch, whose fields are arrays [B]. A field
    that is None is not reported. A ``value`` of NaN is not reported either: it stands for None within an array.
    """

    value: Any = None  # the expected result, from -1 (lost) to 1 (won)
    visits: Any = None  # how often the search met the turn, or the number of nodes that it searched


class TurnTimeoutError(Exception):
    """An error that is raised when a player takes longer for a turn than its limit allows."""


class GameTimeoutError(TurnTimeoutError):
    """An error that is raised when a player uses more processor time in a game than its limit allows."""

    def __init__(self, game_seconds: float) -> None:
        super().__init__(f"game_seconds={game_seconds:g}")


class SomeTurnsFailedError(Exception):
    """An error that is raised when a player fails to take a turn in some positions of a batch.

    The turns that it took in the other positions are valid.
    """

    def __init__(self, turns: Turns, failures: Mapping[int, BaseException]) -> None:
        """Keep the ``turns`` of the batch, and an exception for each turn that failed.

        ``failures`` maps the index of a position in the batch to the exception, which is a ``TurnTimeoutError`` if the
        turn took too long.
        """
        super().__init__(f"{len(failures)} of {len(turns.cells)} turns")
        self.turns = turns
        self.failures = failures


TurnKernel = Callable[[PackedPosition, int, Any, Any], int]


def turn(function: TurnKernel) -> TurnKernel:
    """Compile a function that takes a turn in one position, with the signature that all jitted agents share.

    Because the signature is the same, a new pairing of agents needs no compilation.

    Args:
        function: ``function(position, seed, rules, agent) -> encode_turn(cell, gift)``. ``seed`` (uint64) stands
            for the random words of the turn: ``quarto.rng.draw(seed, n)`` returns word n. ``rules`` is a
            ``RULE_TABLES`` record. ``agent`` is opaque: read it with ``params``, ``table``, ``keys``, ``scratch``,
            ``memory`` and ``symmetry_tables``.

    Returns:
        The compiled function: the ``kernel`` of a ``KernelAgent``.

    Examples:
        >>> from agents import KernelAgent, turn
        >>> from agents.base.agent import encode_turn
        >>> from quarto.bits import lowest_bit
        >>> from quarto.position import ALL_CELLS
        >>> @turn
        ... def first_turn(position, seed, rules, agent):
        ...     return encode_turn(lowest_bit(~position.occupied & ALL_CELLS), lowest_bit(position.available))
        >>> class First(KernelAgent):
        ...     kernel = first_turn

    """
    return function_value(TURN_SIGNATURE)(function)


@inline_function
def encode_turn(cell: int, gift: int) -> int:
    """Encode a turn as one integer. The cell and the gift may each be NONE.

    A number below NONE is encoded as NONE, and a number above 15 as 16, so that an invalid number never becomes a valid
    cell or piece.
    """
    return (min(max(int64(cell), -1), 16) & 0xFF) | ((min(max(int64(gift), -1), 16) & 0xFF) << 8)


@inline_function
def params(agent: Any) -> Any:
    """Return the agent's parameters: [P] float64."""
    return numba.carray(array_pointer(agent.params_address), agent.params_size, np.float64)


@inline_function
def table(agent: Any) -> Any:
    """Return the agent's learned values: [T] float64."""
    return numba.carray(array_pointer(agent.table_address), agent.table_size, np.float64)


@inline_function
def keys(agent: Any) -> Any:
    """Return the keys of the agent's learned values: [K] uint64."""
    return numba.carray(array_pointer(agent.keys_address), agent.keys_size, np.uint64)


@inline_function
def scratch(agent: Any) -> Any:
    """Return the working memory of this thread: [S] uint64. It is zero at first and is kept from turn to turn."""
    return numba.carray(array_pointer(agent.scratch_address), agent.scratch_size, np.uint64)


@inline_function
def memory(agent: Any) -> Any:
    """Return the memory of the current game: [M] uint64.

    It is zero when the game begins and is kept from turn to turn.
    """
    return numba.carray(array_pointer(agent.memory_address), agent.memory_size, np.uint64)


@inline_function
def report_evaluation(agent: Any, value: float, visits: int) -> None:
    """Report the agent's evaluation of the turn that it is about to return.

    ``value`` is the result that the agent expects, from -1 (lost) to 1 (won); NaN stands for no value. ``visits`` says
    how often the agent's search met the turn; NO_VISITS stands for a search that counts no visits. An agent that does
    not evaluate a turn need not call this function.
    """
    agent.value, agent.visits = value, visits


@functools.cache
def symmetry_addresses(rules: Rules) -> NDArray[np.uint64]:
    """List the addresses and sizes of the symmetry arrays of ``rules``, for ``symmetry_tables``: [11] uint64.

    The first eight numbers are the addresses of the arrays, in the order of the fields of ``Symmetries``. The last
    three are the lengths of the fields ``cells``, ``masks`` and ``attaining``. The arrays are never freed.
    """
    tables = build_symmetries(rules)  # never freed: they are cached there
    sizes = [len(tables.cells), len(tables.masks), len(tables.attaining)]
    return np.array([*(array.ctypes.data for array in tables), *sizes], np.uint64)


@inline_function
def symmetry_tables(agent: Any) -> Symmetries:
    """Return the symmetries of the rules that ``agent`` plays. Its ``Knowledge`` must have ``symmetric=True``."""
    words = numba.carray(array_pointer(agent.symmetries_address), 11, np.uint64)
    permutations, masks = int64(words[8]), int64(words[9])
    return Symmetries(
        numba.carray(array_pointer(words[0]), (permutations, CELLS), np.int8),
        numba.carray(array_pointer(words[1]), (permutations, 2, 256), np.uint16),
        numba.carray(array_pointer(words[2]), MASKS, np.uint16),
        numba.carray(array_pointer(words[3]), MASKS + 1, np.int32),
        numba.carray(array_pointer(words[4]), int64(words[10]), np.int16),
        numba.carray(array_pointer(words[5]), MASKS, np.int16),
        numba.carray(array_pointer(words[6]), masks, np.uint16),
        numba.carray(array_pointer(words[7]), (256, 256), np.uint8),
    )


@dataclass(frozen=True)
class Knowledge:
    """Everything that a jitted agent may read besides the position.

    Threads share it, but each thread has its own scratch, and each game has its own memory.

    Examples:
        >>> import numpy as np
        >>> Knowledge(params=np.array([0.5])).scratch_size
        0

    """

    params: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))  # [P]
    table: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))  # [T]
    keys: NDArray[np.uint64] = field(default_factory=lambda: np.zeros(0, np.uint64))  # [K]
    scratch_size: int = 0  # words of uint64 for each thread
    game_words: int = 0  # words of uint64 for each game; with many words, fewer games are played at once
    symmetric: bool = False  # whether the kernel reads the rules' symmetries, which take tens of milliseconds


class KernelAgent:
    """An agent whose turns are computed by a jitted function.

    A subclass sets its ``kernel`` and, if it has parameters, overrides ``knowledge``. The docstring of ``turn`` has an
    example.
    """

    kernel: ClassVar[TurnKernel]
    # Takes the same turns in a whole batch (``agents.base.player.batch_turn``), for turns as cheap as a function call.
    batch_kernel: ClassVar[Callable[..., None] | None] = None
    choosers: ClassVar[tuple[str, ...]] = ("opponent",)
    evaluates: bool = False  # whether evaluations will be asked for; set before ``knowledge`` is called

    def turn_kernel(self) -> TurnKernel:
        """Return the kernel that plays with this agent's parameters.

        This is ``kernel``, unless a subclass has a different kernel for some parameters.
        """
        return type(self).kernel

    def knowledge(self, rules: Rules) -> Knowledge:
        """Return the arrays and sizes that the kernel reads from its argument ``agent`` under these rules."""
        return Knowledge()

    def early(self, rules: Rules) -> tuple[int, Agent] | None:
        """Return (n, agent) if another agent plays until n pieces are on the board, otherwise None."""
        return None


@runtime_checkable
class BatchAgent(Protocol):
    """An agent that chooses a turn for every position of a batch at once.

    ``play`` returns the cells and the gifts, with -1 as the gift where no piece is left. The turns must not depend on
    how games are grouped into batches. Cells are 0 to 15, ``4 * row + column``; pieces are 0 to 15,
    ``8 * high + 4 * coloured + 2 * solid + square``.

    Examples:
        >>> import numpy as np
        >>> class First:  # the first empty cell, the first piece that is left
        ...     def play(self, batch, rng):
        ...         gifts = np.where(batch.available.any(axis=1), batch.available.argmax(axis=1), -1)
        ...         return batch.free.argmax(axis=1), gifts
        >>> isinstance(First(), BatchAgent)
        True

    """

    def play(self, batch: BatchView, rng: Streams) -> tuple[NDArray[np.integer], NDArray[np.integer]]:
        """Return a turn for each of ``B`` positions of the same ply.

        Args:
            batch: The positions, as arrays: ``hand`` [B] has the piece to place, or -1 where only a gift is asked for;
                ``free`` [B, 16] says whether a cell is empty; ``available`` [B, 16] says whether a piece is left to
                give.
            rng: The random words of this turn in each game.

        Returns:
            Cells and gifts, each [B] integers. A cell is ignored where no piece is in hand. A gift is ignored where no
            piece is left, or where the placement wins; it may then be -1. A cell or gift that is not ignored must be
            legal, or the game is forfeited. An ``Evaluation`` of arrays [B] may follow. Under rules where the mover
            chooses the piece, no piece is ever in hand, and ``gifts`` are the pieces to place on ``cells``.

        """
        ...


@runtime_checkable
class GameAgent(Protocol):
    """An agent that chooses a turn for one position at a time.

    ``choose`` returns the cell and the gift, which is -1 if no piece is left. Cells are 0 to 15, ``4 * row + column``;
    pieces are 0 to 15, ``8 * high + 4 * coloured + 2 * solid + square``.

    Examples:
        >>> class First:  # wins if it can, else takes the first empty cell
        ...     def choose(self, position, rng):
        ...         cell = (position.winning_cells() or position.free)[0]
        ...         gift = int(rng.choice(position.available)) if position.available else -1
        ...         return cell, gift
        >>> isinstance(First(), GameAgent)
        True

    """

    def choose(self, position: Position, rng: np.random.Generator) -> tuple[int, int]:
        """Return a turn in one position.

        Args:
            position: The position: ``hand`` is the piece to place, or -1 if only a gift is asked for; ``free`` are the
                empty cells; ``available`` are the pieces that are left to give; ``winning_cells()`` are the cells on
                which the piece in hand wins; ``safe_gifts(cell)`` are the pieces with which the opponent cannot win at
                once after a placement on this cell.
            rng: The random numbers of this turn, which are the same in every repetition of the game.

        Returns:
            The cell for the piece in hand, and the piece to give. The cell is ignored if no piece is in hand. The gift
            is ignored if no piece is left, or if the placement wins; it may then be -1. A cell or gift that is not
            ignored must be legal, or the game is forfeited. An ``Evaluation`` may follow. Under rules where the mover
            chooses the piece, no piece is ever in hand, and the second number is the piece to place on the cell.

        """
        ...


class PlayerBuilder(Protocol):
    """An object that stands for an agent and builds its player."""

    def build_player(self, rules: Rules, label: str) -> Any:
        """Build an ``agents.base.player.BatchPlayer`` for these rules; ``label`` names the agent in messages.

        Raises ``RequestError`` if the agent does not play these rules.
        """
        ...


Agent = KernelAgent | BatchAgent | GameAgent | PlayerBuilder


LIMIT_TYPES = {"turn_seconds": (int, float), "game_seconds": (int, float), "megabytes": (int,), "processes": (int,)}
ISOLATIONS = ("thread", "process", "sandbox")
SANDBOX_MEGABYTES = 4096  # of memory for each process in a sandbox, if ``megabytes`` names no other limit


@dataclass(frozen=True)
class AgentLimits:
    """The limits on the time and memory that an agent in Python may use. Each field is a key of every agent's yaml.

    Raises ``RequestError`` for an invalid value.
    """

    turn_seconds: float | None = None  # of clock time for a turn; a longer turn ends its game as 'forfeit_time'
    # 'process': the agent's process can be ended, and its crash ends nothing else; 'sandbox': it is locked in as well.
    isolation: str = "thread"
    megabytes: int | None = None  # of memory that the process may use beyond Python and the libraries
    game_seconds: float | None = None  # of processor time for all turns of a game; more ends it as 'forfeit_time'
    processes: int | None = None  # processes and threads that may exist in a sandbox at the same time

    def __post_init__(self) -> None:
        if self.isolation not in ISOLATIONS:
            raise RequestError(
                f"isolation={self.isolation} does not exist{suggest_valid_names(str(self.isolation), ISOLATIONS)}"
            )
        for key, kinds in LIMIT_TYPES.items():
            value = getattr(self, key)
            if value is not None and (type(value) not in kinds or not value > 0):
                raise RequestError(f"{key}={value} is not a number above 0, or null for no limit")
        if self.processes is not None and not self.is_sandboxed:
            raise RequestError(
                f"processes={self.processes} limits a sandbox: set isolation=sandbox too, or leave it out"
            )

    @property
    def is_sandboxed(self) -> bool:
        """Whether the agent's processes run in a sandbox."""
        return self.isolation == "sandbox"

    @property
    def is_remote(self) -> bool:
        """Whether the agent plays in processes of its own."""
        return self.isolation != "thread"

    @property
    def memory_megabytes(self) -> int | None:
        """The limit of memory that applies to each process, or None if there is none."""
        return SANDBOX_MEGABYTES if self.is_sandboxed and self.megabytes is None else self.megabytes

    @property
    def is_limited(self) -> bool:
        """Whether any field differs from its default, which stands for no limit."""
        return self != AgentLimits()

    @classmethod
    def from_mapping(cls, agent_name: str, settings: Mapping[str, Any]) -> AgentLimits:
        """Build the limits from the settings of an agent, ignoring keys that are not limits. Null stands for no limit.

        ``agent_name`` names the agent in error messages.
        """
        try:
            keys = [limit.name for limit in fields(cls)]
            return cls(**{key: settings[key] for key in keys if settings.get(key) is not None})
        except RequestError as error:
            raise RequestError(f"{agent_name}: {error}") from error

    def to_dict_without_isolation(self) -> dict[str, Any]:
        """Return the limits that are set and affect games, as JSON values.

        ``isolation``, which says whether the agent plays in a process of its own, is left out, because it decides only
        whether a run survives when the agent crashes. So is ``processes``, which belongs to it.
        """
        limits = {
            "turn_seconds": self.turn_seconds,
            "game_seconds": self.game_seconds,
            "megabytes": self.megabytes,
        }
        return {key: value for key, value in limits.items() if value is not None}
