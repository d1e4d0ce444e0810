"""The batch engine: blocks of pairs played by threads. No I/O: it yields blocks, the caller writes them."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from itertools import count, islice
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from agents.base import ERROR, Agent
from agents.lift import KernelPlayer, Player, lift
from quarto.batch import Batch, Block, Games, Lockstep, Turns
from quarto.errors import ArenaError, RequestError
from quarto.jit import uint64
from quarto.rng import Streams, turn_offset_of
from quarto.rules import CELLS, NONE, Rules
from runners.arena.lockstep import GameNumbers, advance, begin, draw_openings, first_gift, play_out, settle

logger = logging.getLogger(__name__)

# The most pairs in a block: the state of 16,384 games in lockstep is 0.4 MB, which fits into a core's own cache. They
# take two milliseconds, long against the cost of handing a block to a thread and back.
MAX_PAIRS = 16384
# The most bytes in one thread for what players remember of their games (``Knowledge.game_words``), unless a single pair
# needs more: if the players of a block remember more, fewer of its games are in lockstep at a time.
GAME_MEMORY = 1 << 28
TRACEBACKS_LOGGED = 10  # of one agent in one run; an agent that always raises would fill the disk


class Order(NamedTuple):
    """Consecutive pairs of one pairing, to be played."""

    pairing: int
    first_pair: int
    pairs: int


class TimedBlock(NamedTuple):
    """A block and the seconds that one thread took to play it."""

    block: Block
    seconds: float


class Contestant:
    """An agent with its label, for all threads: lifts it, asks for turns, and turns exceptions into forfeits."""

    def __init__(self, agent: Agent, label: str, rules: Rules) -> None:
        self.label = label
        try:
            self._player = lift(agent, rules, label)
        except ArenaError:
            raise
        except (Exception, SystemExit) as error:
            reason = " ".join(f"{type(error).__name__}: {error}".split())
            raise RequestError(f"agent '{label}' cannot be set up for rules '{rules.name}': {reason}") from error
        self._numbers = count(1)  # of its exceptions; ``next`` is safe between threads

    def player(self) -> Player:
        """The player for one thread."""
        return self._player.fork()

    def take(self, player: Player) -> None:
        """Use ``player`` from now on."""
        self._player = player

    @property
    def game_words(self) -> int:
        """The number of uint64 words that a player remembers of each game."""
        return self._player.game_words

    def ask(self, player: Player, batch: Batch, rng: Streams, slots: NDArray[np.uint32]) -> Turns:
        """The turns of ``player``, which plays for this contestant. Where it raises, the cell is ``ERROR``.

        An exception does not show which game of the batch caused it, so each game is then asked for alone.
        """
        together = self._attempt(player, batch, rng, slots)
        if together is not None:
            return together
        size = len(rng.seeds)
        turns = Turns(np.full(size, ERROR, np.int8), np.full(size, NONE, np.int8))
        for i in range(size if size > 1 else 0):
            alone = self._attempt(player, batch.part(i, i + 1), Streams(rng.seeds[i : i + 1]), slots[i : i + 1])
            if alone is not None:
                turns.cells[i], turns.gifts[i] = alone.cells[0], alone.gifts[0]
        return turns

    def _attempt(self, player: Player, batch: Batch, rng: Streams, slots: NDArray[np.uint32]) -> Turns | None:
        """The turns of ``player``; None if it raises. The exception is logged if the batch is a single game."""
        try:
            return player.play(batch, rng, slots)
        except (Exception, SystemExit) as error:  # an agent may even call sys.exit
            if len(rng.seeds) == 1:
                self._log(error)
            return None

    def _log(self, error: BaseException) -> None:
        number = next(self._numbers)
        if number <= TRACEBACKS_LOGGED:
            logger.error("agent '%s' raised and forfeits its game: %r", self.label, error, exc_info=error)
        if number == TRACEBACKS_LOGGED:
            logger.error("agent '%s': further tracebacks are not logged", self.label)


class Engine:
    """Plays the pairings of one run.

    ``agents`` and ``labels`` are parallel; ``pairings`` are pairs of indices into them. Openings are drawn by ``seed``,
    all else by ``run``, the run's word (``quarto.rng.run_word``). Unless ``swapped``, only the first game of each pair
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
        self._contestants = [Contestant(agent, label, rules) for agent, label in zip(agents, labels, strict=True)]
        self._local = threading.local()

    def play(self, orders: Iterable[Order], threads: int) -> Iterator[TimedBlock]:
        """Play ``orders`` on ``threads`` threads and yield the blocks as they are finished, not always in order.

        An order is taken from the iterable only when a thread is about to be free, so the caller may decide late what
        to play next. Once the iterable ends, the blocks in progress are still played and yielded.
        """
        pending: set[Future[TimedBlock]] = set()
        source = iter(orders)
        with ThreadPoolExecutor(threads, thread_name_prefix="play") as pool:
            try:
                while True:
                    for order in islice(source, threads + 1 - len(pending)):
                        pending.add(pool.submit(self.play_block, order))
                    if not pending:
                        return
                    done, pending = wait(pending, return_when=FIRST_COMPLETED)
                    for future in done:
                        yield future.result()
            finally:
                for future in pending:
                    future.cancel()

    def play_block(self, order: Order) -> TimedBlock:
        """Play the games of each pair of ``order`` in the calling thread."""
        started = time.perf_counter()
        parts = [self._play_pairs(part) for part in self._parts(order)]
        games = (
            parts[0]
            if len(parts) == 1
            else Games(*(np.concatenate(each, axis=-1) for each in zip(*parts, strict=True)))
        )
        block = Block(order.pairing, order.first_pair, self.opening_plies, games, self.swapped)
        return TimedBlock(block, time.perf_counter() - started)

    def openings(self, first_pair: int, pairs: int) -> NDArray[np.int8]:
        """The imposed plies of consecutive pairs: [2, K, pairs] int8, pieces then cells."""
        openings = np.empty((2, self.opening_plies, pairs), np.int8)
        draw_openings(self.seed, first_pair, self.rules.tables, openings)
        return openings

    def play_game(self, order: Order, game: int, games: Games) -> None:
        """Play game 0 or 1 of each pair of ``order`` into its columns of ``games``, in the calling thread."""
        self._play_game(order, game, self.openings(order.first_pair, order.pairs), games)

    def player(self, agent: int, copy: int = 0) -> Player:
        """This thread's player of an agent. One that plays against itself needs a second, with its own memory."""
        players: dict[tuple[int, int], Player] | None = getattr(self._local, "players", None)
        if players is None:
            players = self._local.players = {}
        if (agent, copy) not in players:
            players[agent, copy] = self._contestants[agent].player()
        return players[agent, copy]

    def replace_player(self, agent: int, player: Player) -> None:
        """Let ``player`` play for an agent from now on. Must not be called while games are being played."""
        self._contestants[agent].take(player)
        self._local = threading.local()

    def _parts(self, order: Order) -> Iterator[Order]:
        """``order``, split where the memory of its players for all its games at once would exceed ``GAME_MEMORY``."""
        words = sum(self._contestants[agent].game_words for agent in self.pairings[order.pairing])
        most = max(1, GAME_MEMORY // (8 * words)) if words else order.pairs
        end = order.first_pair + order.pairs
        for first in range(order.first_pair, end, most):
            yield Order(order.pairing, first, min(most, end - first))

    def _play_pairs(self, order: Order) -> Games:
        games = Games.zeros((1 + self.swapped) * order.pairs)
        openings = self.openings(order.first_pair, order.pairs)
        for game in range(1 + self.swapped):
            self._play_game(order, game, openings, games)
        return games

    def _play_game(self, order: Order, game: int, openings: NDArray[np.int8], games: Games) -> None:
        """Play game 0 or 1 of each pair into its columns."""
        state, games_a_pair, pairing = self._state(order.pairs), 1 + self.swapped, self.pairings[order.pairing]
        seats = pairing[::-1] if game else pairing
        numbers = GameNumbers(self.run, order.pairing, order.first_pair, game, games_a_pair)
        players = self._begin(numbers, seats, openings, state, games)
        if not self._play_compiled(players, order.pairs, state, games):
            players = self._begin(numbers, seats, openings, state, games)
            self._play_stepwise(seats, players, order.pairs, state, games)
        settle(games, game, games_a_pair)

    def _begin(
        self, numbers: GameNumbers, seats: tuple[int, int], openings: NDArray[np.int8], state: Lockstep, games: Games
    ) -> list[Player]:
        """Set up one game of each pair; returns the players by seat, with their memory of earlier games cleared."""
        begin(numbers, openings, state, games)
        zero, one = seats
        players = [self.player(zero), self.player(one, copy=int(zero == one))]
        for player in players:
            player.start(range(numbers.game, len(games.plies), numbers.games_a_pair))
        return players

    def _play_compiled(self, players: Sequence[Player], size: int, state: Lockstep, games: Games) -> bool:
        """Play all games in one kernel; false if a player is not jitted or a jitted turn raised."""
        zero, one = players
        if not (isinstance(zero, KernelPlayer) and isinstance(one, KernelPlayer)):
            return False
        span = (self.opening_plies, size)
        try:
            play_out(zero.turn, zero.own, one.turn, one.own, self.rules.tables, span, state, games)
        except Exception:  # playing step by step finds the game, logs the error and forfeits the game
            return False
        return True

    def _play_stepwise(
        self, seats: Sequence[int], players: Sequence[Player], size: int, state: Lockstep, games: Games
    ) -> None:
        """``play_out`` with the interpreter between the steps."""
        mover_chooses, opening = self.rules.mover_chooses, self.opening_plies
        for turn in range(opening + mover_chooses, CELLS + 1):
            if size == 0:
                return
            rng = Streams(state.streams[:size] + turn_offset_of(turn))
            seat = turn & 1
            turns = self._contestants[seats[seat]].ask(players[seat], state.batch.part(0, size), rng, state.slot[:size])
            state.turns.cells[:size], state.turns.gifts[:size] = turns
            if turn == opening and not mover_chooses:
                size = first_gift(state, games, opening, size)
            else:
                size = advance(state, games, self.rules.tables, turn - 1, size)

    def _state(self, size: int) -> Lockstep:
        """This thread's lockstep, reused from block to block while the size stays the same."""
        state: Lockstep | None = getattr(self._local, "state", None)
        if state is None or len(state.slot) != size:
            state = self._local.state = Lockstep.empty(size)
        return state
