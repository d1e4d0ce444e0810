"""The batch engine: plays blocks of pairs. No I/O: it returns blocks, the caller writes them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from agents.base.agent import ERROR, LATE, Agent
from agents.base.player import KernelPlayer, LiftedPlayer
from quarto.batch import FORFEIT_ILLEGAL, Block, Games, Lockstep, Thoughts, side_by_side
from quarto.errors import is_ctrl_c
from quarto.jit import uint64
from quarto.rng import Streams, turn_offset_of
from quarto.rules import CELLS, Rules
from runners.arena.executors.base import THREADS, Late, Stop
from runners.hosting.guarded_agent import GuardedAgent, Misbehaviour
from runners.hosting.lockstep import (
    LEGAL,
    WON,
    GameNumbers,
    advance,
    begin,
    draw_openings,
    first_gift,
    play_out,
    settle,
)

# The most pairs in a block: the state of 16,384 games in lockstep is 0.4 MB, which fits into a core's own cache. They
# take two milliseconds, long against the cost of handing a block to a thread and back.
MAX_PAIRS = 16384
# The most bytes in one thread for what players remember of their games (``Knowledge.game_words``), unless a single pair
# needs more: if the players of a block remember more, fewer of its games are in lockstep at a time.
GAME_MEMORY = 1 << 28
GRACE = 2.0  # seconds after a request to stop, in which a block may end
ROUNDED = 1e-6  # of a unit: a sum of fractions that should be whole may be a little less


class Order(NamedTuple):
    """Consecutive pairs of one pairing, to be played."""

    pairing: int
    first_pair: int
    pairs: int


class TimedBlock(NamedTuple):
    """A block and the seconds that one thread took to play it."""

    block: Block
    seconds: float


class Pace:
    """The number of pairs of each pairing that play for ``SECONDS``. It affects the time of writing, not the rows.

    It begins with a single pair, because an agent may take a second for a turn. Threads may share it.
    """

    SECONDS = 0.25  # long against the overhead of a block, short for a user who pressed Ctrl-C
    GROWTH = 16
    FIRST = 1

    def __init__(self, most: int = MAX_PAIRS) -> None:
        self._most = max(1, min(most, MAX_PAIRS))
        self._pairs: dict[int, int] = {}
        self._share = 0.0  # sum of 1 / pairs over these: a chunk must not look at each of 44,850 pairings
        self._lock = threading.Lock()  # of both

    def pairs(self, pairing: int) -> int:
        """The number of pairs to order next."""
        return min(self._pairs.get(pairing, self.FIRST), self._most)

    def units(self, pairings: int) -> int:
        """The number of units to play next, if so many pairings take turns."""
        with self._lock:
            a_unit = (self._share + max(0, pairings - len(self._pairs)) / self.FIRST) / pairings
        return max(1, min(int(1 / a_unit + ROUNDED), self._most * pairings))

    def update(self, pairing: int, pairs: int, seconds: float) -> None:
        """Take into account the time of a block that was played."""
        fitting = int(pairs * self.SECONDS / max(seconds, 1e-9))
        with self._lock:
            before = self._pairs.get(pairing)
            now = max(1, min(fitting, max(before or self.FIRST, pairs * self.GROWTH)))
            self._share += 1 / now - (1 / before if before else 0.0)
            self._pairs[pairing] = now


class BatchEngine:
    """Plays the pairings of one run.

    ``agents`` and ``labels`` are parallel; ``pairings`` are pairs of indices into them. Openings are drawn by ``seed``,
    all else by ``run``, the run's word (``run_word``). Unless ``swapped``, only the first game of each pair
    is played. Everything that affects the games is given here, so a block depends on its ``Order`` alone.
    """

    def __init__(
        self,
        rules: Rules,
        agents: Sequence[Agent],
        labels: Sequence[str],
        pairings: Sequence[tuple[int, int]],
        seed: int,
        run: int,
        opening_plies: int = 0,
        swapped: bool = True,
    ) -> None:
        self.rules = rules
        self.pairings = tuple(pairings)
        self.seed, self.run = uint64(seed), uint64(run)  # machine words: kernels are called with them
        self.opening_plies = opening_plies
        self.swapped = swapped
        self.keep_going = True  # although an agent forfeits all its games
        self.thinks = False  # whether blocks have what the players thought: then the interpreter asks for all turns
        self.turns = 0  # taken so far where the interpreter asks for them; of other games only whole blocks are known
        self.guarded = [GuardedAgent(agent, label, rules) for agent, label in zip(agents, labels, strict=True)]
        self._local = threading.local()
        self._counting = threading.Lock()

    def play(
        self,
        orders: Iterable[Order],
        threads: int,
        stop: threading.Event | None = None,
        idle: Callable[[], None] = lambda: None,
    ) -> Iterator[TimedBlock]:
        """Play ``orders`` on ``threads`` threads and yield the blocks as they are finished, not always in order.

        An order is taken from the iterable when a thread is about to be free. So the caller may decide late what to
        play next. Once ``stop`` is set, no order is begun, and of those in progress only what is finished soon is
        yielded. ``idle`` is called while no block is finished. Raises ``StuckError``.
        """
        abandoned = threading.Event()

        def play(order: Order, stopping: Stop) -> TimedBlock | None:
            cut = Late(stopping, GRACE)
            return self.play_block(order, lambda: abandoned.is_set() or cut())

        try:
            for block in THREADS.map(play, orders, threads, stop or threading.Event(), idle):
                if block is not None:
                    yield block
        finally:
            abandoned.set()  # nobody takes the blocks in progress any more

    @overload
    def play_block(self, order: Order) -> TimedBlock: ...

    @overload
    def play_block(self, order: Order, cut: Callable[[], bool]) -> TimedBlock | None: ...

    def play_block(self, order: Order, cut: Callable[[], bool] | None = None) -> TimedBlock | None:
        """Play the games of each pair of ``order`` in the calling thread; None if ``cut()`` became true meanwhile.

        Raises ``AllForfeitedError`` and ``StuckError``.
        """
        self.require_played(self.pairings[order.pairing])
        started, games, thoughts = time.perf_counter(), list[Games](), list[Thoughts]()
        for part in self._parts(order):
            size = (1 + self.swapped) * part.pairs
            told = Thoughts.none(CELLS + 1, size) if self.thinks else None
            if not self._play(part, found := Games.zeros(size), told, cut):
                return None
            games.append(found)
            thoughts += [] if told is None else [told]
        columns = side_by_side(games), self.swapped, side_by_side(thoughts) if thoughts else None
        block = Block(order.pairing, order.first_pair, self.opening_plies, *columns)
        return TimedBlock(block, time.perf_counter() - started)

    def openings(self, first_pair: int, pairs: int) -> NDArray[np.int8]:
        """The imposed plies of consecutive pairs: [2, K, pairs] int8, pieces then cells."""
        openings = np.empty((2, self.opening_plies, pairs), np.int8)
        draw_openings(self.seed, first_pair, self.rules.tables, openings)
        return openings

    def play_game(self, order: Order, game: int, games: Games) -> None:
        """Play game 0 or 1 of each pair of ``order`` into its columns of ``games``, in the calling thread."""
        leg = self._leg(order, game, self.openings(order.first_pair, order.pairs), games)
        if not leg.play_compiled():
            for _ in self._turns([leg]):
                pass
        settle(games, game, 1 + self.swapped)

    def player(self, agent: int, copy: int = 0) -> LiftedPlayer:
        """This thread's player of an agent. One that plays against itself needs a second, with its own memory."""
        players: dict[tuple[int, int], LiftedPlayer] | None = getattr(self._local, "players", None)
        if players is None:
            players = self._local.players = {}
        if (agent, copy) not in players:
            players[agent, copy] = self.guarded[agent].player()
        return players[agent, copy]

    def replace_player(self, agent: int, player: LiftedPlayer) -> None:
        """Let ``player`` play for an agent from now on. Must not be called while games are being played."""
        self.guarded[agent].take(player)
        self._local = threading.local()

    def require_played(self, agents: Iterable[int] | None = None) -> None:
        """Raise ``AllForfeitedError`` if an agent has forfeited all its games so far, unless that is to go on.

        ``agents`` are the indices of those that are looked at, by default all: before a block only its own are.
        """
        if not self.keep_going:
            for agent in self.guarded if agents is None else map(self.guarded.__getitem__, agents):
                agent.require_played()

    def misbehaviour(self) -> list[str]:
        """A line for each way in which an agent forfeited games so far."""
        return [line for agent in self.guarded for line in agent.summary()]

    def take_misbehaviour(self) -> list[Misbehaviour]:
        """Each agent's faults since the last call, for the engine of another process."""
        return [agent.take_misbehaviour() for agent in self.guarded]

    def add_misbehaviour(self, taken: Sequence[Misbehaviour]) -> None:
        """Add what the agents did wrong in another process."""
        for agent, own in zip(self.guarded, taken, strict=True):
            agent.add_misbehaviour(own)

    def _parts(self, order: Order) -> Iterator[Order]:
        """``order``, split where the memory of its players for all its games at once would exceed ``GAME_MEMORY``."""
        words = sum(self.guarded[agent].game_words for agent in self.pairings[order.pairing])
        most = max(1, GAME_MEMORY // (8 * words)) if words else order.pairs
        end = order.first_pair + order.pairs
        for first in range(order.first_pair, end, most):
            yield Order(order.pairing, first, min(most, end - first))

    def _play(self, order: Order, games: Games, thoughts: Thoughts | None, cut: Callable[[], bool] | None) -> bool:
        """Play all pairs of ``order`` at once; false if that was cut."""
        openings = self.openings(order.first_pair, order.pairs)
        legs = [self._leg(order, game, openings, games) for game in range(1 + self.swapped)]
        for leg in legs:
            leg.thoughts = thoughts
        legs = [leg for leg in legs if not leg.play_compiled()]
        for _ in self._turns(legs):
            if cut is not None and cut():
                return False
        for game in range(1 + self.swapped):
            settle(games, game, 1 + self.swapped)
        self._note_forfeits(order, games)
        self._note_illegal(order, games)
        return True

    def _turns(self, legs: Sequence[Leg]) -> Iterator[None]:
        """Play legs to their ends with the interpreter between the turns; yields after each turn.

        Both games of a pair are played at once. If players remember, one is played after the other: a player has
        memory for the games of one leg.
        """
        remembering = any(leg.remembers for leg in legs)
        for together in [[leg] for leg in legs] if remembering else [legs]:
            for leg in together:
                leg.state = self._state(leg.size, leg.numbers.game)
                leg.begin()
            for turn in range(self.opening_plies + self.rules.mover_chooses, CELLS + 1):
                for leg in together:
                    if leg.size:
                        with self._counting:
                            self.turns += leg.size
                        leg.take(turn)
                        yield

    def _leg(self, order: Order, game: int, openings: NDArray[np.int8], games: Games) -> Leg:
        """Game 0 or 1 of each pair, to be played."""
        zero, one = self.pairings[order.pairing][:: -1 if game else 1]
        players = self.player(zero), self.player(one, copy=int(zero == one))
        seats = self.guarded[zero], self.guarded[one]
        numbers = GameNumbers(self.run, order.pairing, order.first_pair, game, 1 + self.swapped)
        state = self._state(order.pairs)  # of either game: kernels play one after the other
        return Leg(self.rules, self.opening_plies, seats, players, numbers, openings, games, state, order.pairs)

    def _note_forfeits(self, order: Order, games: Games) -> None:
        """Count the games of the agents of ``order``, and those that each has forfeited."""
        total, forfeited = len(games.ending), np.flatnonzero(games.ending >= FORFEIT_ILLEGAL)
        by_first = int(((games.winner[forfeited] == 1) ^ (forfeited % (1 + self.swapped) == 1)).sum())
        first, second = self.pairings[order.pairing]
        self.guarded[first].count_games(total, by_first)
        self.guarded[second].count_games(total * (first != second), len(forfeited) - by_first)

    def _note_illegal(self, order: Order, games: Games) -> None:
        """Count the games of ``order`` that were forfeited by illegal turns, and have each agent's first described."""
        for column in np.flatnonzero(games.ending == FORFEIT_ILLEGAL).tolist():
            pair, game = divmod(column, 1 + self.swapped)
            loser = self.pairings[order.pairing][(1 - int(games.winner[column])) ^ game]
            self.guarded[loser].count_illegal()
            if self.guarded[loser].wants_illegal:  # a kernel has played it: turn by turn it shows which turn it was
                one = Order(order.pairing, order.first_pair + pair, 1)
                own = Games.zeros(1 + self.swapped)
                for _ in self._turns([self._leg(one, game, self.openings(one.first_pair, 1), own)]):
                    pass

    def _state(self, size: int, game: int = 0) -> Lockstep:
        """This thread's lockstep for game 0 or 1, reused from block to block while the size stays the same."""
        states: dict[int, Lockstep] | None = getattr(self._local, "states", None)
        if states is None:
            states = self._local.states = {}
        if game not in states or len(states[game].slot) != size:
            states[game] = Lockstep.empty(size)
        return states[game]


@dataclass
class Leg:
    """One leg of a block: game 0, or game 1, of each of its pairs, in lockstep."""

    rules: Rules
    opening: int  # imposed plies
    seats: Sequence[GuardedAgent]  # by seat
    players: Sequence[LiftedPlayer]  # of this thread, by seat
    numbers: GameNumbers
    openings: NDArray[np.int8]  # [2, K, pairs], pieces then cells
    games: Games  # the columns of all games of the pairs
    state: Lockstep
    size: int  # games that go on
    thoughts: Thoughts | None = None  # [17, G] of all games of the pairs, if they are asked for

    @property
    def remembers(self) -> bool:
        """Whether a player has memory of the games."""
        return any(player.game_words for player in self.players)

    def begin(self) -> None:
        """Set the games up; the memory of earlier games is cleared."""
        begin(self.numbers, self.openings, self.state, self.games)
        for player in self.players:
            player.start(range(self.numbers.game, len(self.games.plies), self.numbers.games_a_pair))

    def play_compiled(self) -> bool:
        """Play all games in one kernel; false, and no game is played, if a player is not jitted or a turn raised.

        Nor if thoughts are asked for.
        """
        zero, one = self.players
        if self.thoughts is not None or not (isinstance(zero, KernelPlayer) and isinstance(one, KernelPlayer)):
            return False
        self.begin()
        span = (self.opening, self.size)
        try:
            play_out(zero.turn, zero.agent, one.turn, one.agent, self.rules.tables, span, self.state, self.games)
        except BaseException as error:  # the turns are asked for one by one, to find the game that it forfeits
            if is_ctrl_c(error):
                raise
            return False
        self.size = 0
        return True

    def take(self, turn: int) -> None:
        """Ask for turn number ``turn`` in each game that goes on, and play it."""
        state, size, guarded, player = self.state, self.size, self.seats[turn & 1], self.players[turn & 1]
        rng, batch, slots = Streams(state.streams[:size] + turn_offset_of(turn)), state.batch.part(0, size), state.slot
        thoughts = None if self.thoughts is None else Thoughts.none(size)
        turns = guarded.ask(player, batch, rng, slots[:size], thoughts=thoughts)
        if self.thoughts is not None and thoughts is not None:
            self.thoughts.put((turn, slots[:size]), thoughts)
        state.turns.cells[:size], state.turns.gifts[:size] = turns
        before = (batch.copy(), slots[:size].copy()) if guarded.wants_illegal else None
        is_first_gift = turn == self.opening and not self.rules.mover_chooses
        if is_first_gift:
            self.size = first_gift(state, self.games, self.opening, size)
        else:
            self.size = advance(state, self.games, self.rules.tables, turn - 1, size)
        if before is not None and self.size < size:
            over = ~np.isin(before[1], slots[: self.size]) & (turns.cells != ERROR) & (turns.cells != LATE)
            if not is_first_gift:  # other games are over because they were won, or the board is full
                last = self.games.ending[before[1]]
                over &= (last & WON == 0) & ((last & LEGAL == 0) | (turn < CELLS))
            for i in np.flatnonzero(over)[:1]:
                answer = int(turns.cells[i]), int(turns.gifts[i])
                guarded.describe_illegal(player, before[0].position(i), int(rng.seeds[i]), answer)
