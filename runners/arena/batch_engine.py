"""The batch engine, which plays blocks of pairs. It does no I/O: it returns blocks, and the caller writes them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from agents.base.agent import ERROR_CELL, LATE_CELL, Agent
from agents.base.player import BatchPlayer, KernelPlayer
from quarto.batch import FORFEIT_ILLEGAL, Block, Evaluations, Games, Lockstep, concat_game_columns
from quarto.errors import is_ctrl_c_in_main_thread
from quarto.jit import load_kernel, uint64
from quarto.rng import Streams, turn_seed_offset_in_python
from quarto.rules import CELLS, Rules
from runners.arena.executors.base import THREADS, StopDeadline, StopSignal
from runners.hosting.guarded_agent import GuardedAgent, Misbehaviour
from runners.hosting.lockstep import (
    LEGAL,
    WON,
    GameNumbers,
    draw_openings,
    give_first_gifts_and_count,
    play_batches_to_end,
    play_to_end,
    play_turns_and_count_running,
    set_up_and_count_games,
    write_outcomes,
)

# The most pairs in a block: the state of 16,384 games in lockstep is 0.4 MB, which fits into a core's own cache. They
# take two milliseconds, long against the cost of handing a block to a thread and back.
MAX_BLOCK_PAIRS = 16384
# The most bytes in one thread for what players remember of their games (``Knowledge.game_words``), unless a single pair
# needs more: if the players of a block remember more, fewer of its games are in lockstep at a time.
GAME_MEMORY_BYTES = 1 << 28
GRACE_SECONDS = 2.0  # time after a request to stop in which a block may end
BATCH_KERNEL_GAMES = 64  # games in lockstep from which a batch kernel saves more time than numba takes to pass it
ROUNDING_TOLERANCE = 1e-6  # of a unit: a sum of fractions that should be whole may be a little less


class PairRange(NamedTuple):
    """Consecutive pairs of one pairing that are still to be played. A ``Block`` holds the games of such pairs."""

    pairing: int
    first_pair: int
    pairs: int


class Pace:
    """The number of pairs of each pairing that can be played in ``TARGET_SECONDS``.

    The pace affects when games are written, but not which games are played. It begins with a single pair, because an
    agent may take a second for a turn. Threads may share a pace.
    """

    TARGET_SECONDS = 0.25  # long against the overhead of a block, short for a user who pressed Ctrl-C
    MAX_GROWTH = 16
    FIRST_PAIRS = 1

    def __init__(self, max_pairs: int = MAX_BLOCK_PAIRS) -> None:
        self._max_pairs = max(1, min(max_pairs, MAX_BLOCK_PAIRS))
        self._pairs: dict[int, int] = {}
        self._share = 0.0  # sum of 1 / pairs over ``_pairs``: a chunk must not look at each of 44,850 pairings
        self._lock = threading.Lock()  # guards ``_pairs`` and ``_share``

    def next_pair_count(self, pairing: int) -> int:
        """Return how many pairs of a pairing to play next in one block."""
        return min(self._pairs.get(pairing, self.FIRST_PAIRS), self._max_pairs)

    def next_unit_count(self, pairings: int) -> int:
        """Return how many units to play in the next step of a chunk if the run has ``pairings`` pairings."""
        with self._lock:
            inverse_pairs = (self._share + max(0, pairings - len(self._pairs)) / self.FIRST_PAIRS) / pairings
        return max(1, min(int(1 / inverse_pairs + ROUNDING_TOLERANCE), self._max_pairs * pairings))

    def add_block_time(self, pairing: int, pairs: int, seconds: float) -> None:
        """Update the pace of a pairing with the ``seconds`` that a block of ``pairs`` pairs took."""
        pairs_in_time = int(pairs * self.TARGET_SECONDS / max(seconds, 1e-9))
        with self._lock:
            old_pairs = self._pairs.get(pairing)
            new_pairs = max(1, min(pairs_in_time, max(old_pairs or self.FIRST_PAIRS, pairs * self.MAX_GROWTH)))
            self._share += 1 / new_pairs - (1 / old_pairs if old_pairs else 0.0)
            self._pairs[pairing] = new_pairs


class BatchEngine:
    """The engine that plays the pairings of one run.

    A block depends only on its ``PairRange``, because the engine holds everything else that affects its games.

    Args:
        rules: Rules of all games.
        agents: Agents of the run.
        labels: Labels of ``agents``.
        pairings: Pairs of indices into ``agents``.
        seed: Seed of the openings.
        run: Integer form of the run's id (``run_id_to_stream_key``), the seed of everything but the openings.
        opening_plies: Number of imposed plies.
        swapped: Whether each pair has a second game, with the seats exchanged.

    Raises:
        RequestError: An agent cannot play by these rules.

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
        self.keep_going = True  # also after an agent has forfeited all its games
        self.collects_evaluations = False  # if True, blocks have evaluations, and no game is played in one kernel
        self.turns = 0  # number of turns taken so far, except in games that were played in one kernel
        self.guarded_agents = [GuardedAgent(agent, label, rules) for agent, label in zip(agents, labels, strict=True)]
        self._local = threading.local()
        self._counting = threading.Lock()

    def play_in_any_order(
        self,
        pair_ranges: Iterable[PairRange],
        threads: int,
        stop: threading.Event | None = None,
        on_idle: Callable[[], None] = lambda: None,
    ) -> Iterator[Block]:
        """Play ``pair_ranges`` on ``threads`` threads and yield the blocks as they are finished, in any order.

        A range is taken from the iterable only when a thread is about to be free, so the caller may decide late what to
        play next. Once ``stop`` is set, no further range is begun, and of the ranges in progress only those that are
        finished within a short time are yielded. ``on_idle`` is called in the calling thread while no block is ready.

        Raises:
            AllForfeitedError: An agent has forfeited all its games, and the engine's attribute ``keep_going`` is False.
            StuckError: Too many of an agent's turns are still going on after their time limit.

        """
        abandoned = threading.Event()

        def play_one(pair_range: PairRange, stopping: StopSignal) -> Block | None:
            is_overdue = StopDeadline(stopping, GRACE_SECONDS)
            return self.play_block(pair_range, lambda: abandoned.is_set() or is_overdue())

        try:
            for block in THREADS.map(play_one, pair_ranges, threads, stop or threading.Event(), on_idle):
                if block is not None:
                    yield block
        finally:
            abandoned.set()  # nobody takes the blocks in progress any more

    @overload
    def play_block(self, pair_range: PairRange) -> Block: ...

    @overload
    def play_block(self, pair_range: PairRange, should_abort: Callable[[], bool]) -> Block | None: ...

    def play_block(self, pair_range: PairRange, should_abort: Callable[[], bool] | None = None) -> Block | None:
        """Play all games of some pairs in the calling thread; return None if ``should_abort()`` became true.

        Raises the errors of ``play_in_any_order``.
        """
        self.check_no_agent_forfeits_everything(self.pairings[pair_range.pairing])
        started, games, evaluations = time.perf_counter(), list[Games](), list[Evaluations]()
        for sub_range in self._split_by_player_memory(pair_range):
            size = (1 + self.swapped) * sub_range.pairs
            block_evaluations = Evaluations.blank(CELLS + 1, size) if self.collects_evaluations else None
            if not self._play_pairs(sub_range, block_games := Games.allocate(size), block_evaluations, should_abort):
                return None
            games.append(block_games)
            evaluations += [] if block_evaluations is None else [block_evaluations]
        columns = concat_game_columns(games), self.swapped, concat_game_columns(evaluations) if evaluations else None
        seconds = time.perf_counter() - started
        return Block(pair_range.pairing, pair_range.first_pair, self.opening_plies, *columns, seconds)

    def compute_openings(self, first_pair: int, pairs: int) -> NDArray[np.int8]:
        """Return the ``K`` imposed plies of consecutive pairs as int8 [2, K, pairs]: first the pieces, then the cells.

        The first of the pairs has the number ``first_pair``.
        """
        openings = np.empty((2, self.opening_plies, pairs), np.int8)
        draw_openings(self.seed, first_pair, self.rules.tables, openings)
        return openings

    def play_half(self, pair_range: PairRange, game_in_pair: int, games: Games) -> None:
        """Play game 0 or 1 of each pair of ``pair_range`` in the calling thread.

        ``games`` has the columns of all games of these pairs; only those of the played games are filled.
        """
        half = self._build_half(
            pair_range, game_in_pair, self.compute_openings(pair_range.first_pair, pair_range.pairs), games
        )
        if not half.try_play_in_kernel():
            for _ in self._play_turns([half]):
                pass
        write_outcomes(games, game_in_pair, 1 + self.swapped)

    def get_player(self, agent: int, copy_index: int = 0) -> BatchPlayer:
        """Return the player that chooses an agent's turns in the calling thread.

        An agent that plays against itself needs a second player with separate memory: the player with ``copy_index`` 1.
        """
        players: dict[tuple[int, int], BatchPlayer] | None = getattr(self._local, "players", None)
        if players is None:
            players = self._local.players = {}
        if (agent, copy_index) not in players:
            players[agent, copy_index] = self.guarded_agents[agent].fork_player()
        return players[agent, copy_index]

    def replace_player(self, agent: int, player: BatchPlayer) -> None:
        """Replace the player of an agent with ``player``, which chooses the agent's turns from now on.

        This must not be called while games are being played.
        """
        self.guarded_agents[agent].replace_player(player)
        self._local = threading.local()

    def check_no_agent_forfeits_everything(self, agents: Iterable[int] | None = None) -> None:
        """Raise ``AllForfeitedError`` if an agent has forfeited all its games so far.

        If the engine's attribute ``keep_going`` is True, nothing is raised. ``agents`` are the indices of the agents to
        check; None checks all.
        """
        if not self.keep_going:
            for agent in self.guarded_agents if agents is None else map(self.guarded_agents.__getitem__, agents):
                agent.check_not_all_forfeited()

    def describe_misbehaviour(self) -> list[str]:
        """Return a line for each fault by which an agent has forfeited games so far."""
        return [line for agent in self.guarded_agents for line in agent.describe_misbehaviour()]

    def take_new_misbehaviour(self) -> list[Misbehaviour]:
        """Return, for each agent, the counts of its games and faults since the last call.

        A worker calls this method, so that the engine of the user's process can add the counts to its own.
        """
        return [agent.take_new_misbehaviour() for agent in self.guarded_agents]

    def add_misbehaviour(self, misbehaviour_by_agent: Sequence[Misbehaviour]) -> None:
        """Add the counts of each agent's games and faults that a worker's ``take_new_misbehaviour`` returned."""
        for agent, misbehaviour in zip(self.guarded_agents, misbehaviour_by_agent, strict=True):
            agent.add_misbehaviour(misbehaviour)

    def _split_by_player_memory(self, pair_range: PairRange) -> Iterator[PairRange]:
        """Split a range into parts whose games take at most ``GAME_MEMORY_BYTES`` of the players' memory."""
        words = sum(self.guarded_agents[agent].game_words for agent in self.pairings[pair_range.pairing])
        max_pairs = max(1, GAME_MEMORY_BYTES // (8 * words)) if words else pair_range.pairs
        end = pair_range.first_pair + pair_range.pairs
        for first in range(pair_range.first_pair, end, max_pairs):
            yield PairRange(pair_range.pairing, first, min(max_pairs, end - first))

    def _play_pairs(
        self,
        pair_range: PairRange,
        games: Games,
        evaluations: Evaluations | None,
        should_abort: Callable[[], bool] | None,
    ) -> bool:
        """Play all pairs of ``pair_range`` together, and return True.

        The results are written to ``games`` and, unless it is None, to ``evaluations``. If ``should_abort()`` becomes
        true before the end, playing stops, and False is returned.
        """
        openings = self.compute_openings(pair_range.first_pair, pair_range.pairs)
        halves = [self._build_half(pair_range, game, openings, games) for game in range(1 + self.swapped)]
        for half in halves:
            half.evaluations = evaluations
        halves = [half for half in halves if not half.try_play_in_kernel()]
        for _ in self._play_turns(halves):
            if should_abort is not None and should_abort():
                return False
        for game in range(1 + self.swapped):
            write_outcomes(games, game, 1 + self.swapped)
        self._add_game_and_forfeit_counts(pair_range, games)
        self._record_illegal_turns(pair_range, games)
        return True

    def _play_turns(self, halves: Sequence[BlockHalf]) -> Iterator[None]:
        """Play the halves of a block to their ends, calling the players from Python, and yield after each turn.

        The halves are played at the same time, turn by turn. If a player has memory, they are played one after the
        other, because a player can remember only the games of one half.
        """
        has_memory = any(half.has_memory for half in halves)
        for together in [[half] for half in halves] if has_memory else [halves]:
            for half in together:
                half.state = self._get_lockstep(half.size, half.numbers.game_in_pair)
                half.set_up()
            for turn in range(self.opening_plies + self.rules.mover_chooses, CELLS + 1):
                for half in together:
                    if half.size:
                        with self._counting:
                            self.turns += half.size
                        half.play_turn(turn)
                        yield

    def _build_half(
        self, pair_range: PairRange, game_in_pair: int, openings: NDArray[np.int8], games: Games
    ) -> BlockHalf:
        """Build the half of a block that consists of game 0 or game 1 of each pair, ready to be played."""
        zero, one = self.pairings[pair_range.pairing][:: -1 if game_in_pair else 1]
        players = self.get_player(zero), self.get_player(one, copy_index=int(zero == one))
        seats = self.guarded_agents[zero], self.guarded_agents[one]
        numbers = GameNumbers(self.run, pair_range.pairing, pair_range.first_pair, game_in_pair, 1 + self.swapped)
        state = self._get_lockstep(pair_range.pairs)  # of either game: kernels play one after the other
        size = pair_range.pairs
        return BlockHalf(self.rules, self.opening_plies, seats, players, numbers, openings, games, state, size)

    def _add_game_and_forfeit_counts(self, pair_range: PairRange, games: Games) -> None:
        """Add the numbers of finished and of forfeited games to the counts of the pairing's two agents."""
        total, forfeited = len(games.ending), np.flatnonzero(games.ending >= FORFEIT_ILLEGAL)
        by_first = int(((games.winner[forfeited] == 1) ^ (forfeited % (1 + self.swapped) == 1)).sum())
        first, second = self.pairings[pair_range.pairing]
        self.guarded_agents[first].add_game_counts(total, by_first)
        self.guarded_agents[second].add_game_counts(total * (first != second), len(forfeited) - by_first)

    def _record_illegal_turns(self, pair_range: PairRange, games: Games) -> None:
        """Count the games that agents forfeited by illegal turns, and log the first illegal turn of each agent."""
        for column in np.flatnonzero(games.ending == FORFEIT_ILLEGAL).tolist():
            pair, game = divmod(column, 1 + self.swapped)
            loser = self.pairings[pair_range.pairing][(1 - int(games.winner[column])) ^ game]
            self.guarded_agents[loser].add_illegal_turn()
            if self.guarded_agents[loser].illegal_turn_unreported:
                # A kernel has played the game: playing it again turn by turn shows which turn was illegal.
                single_pair = PairRange(pair_range.pairing, pair_range.first_pair + pair, 1)
                replayed_games = Games.allocate(1 + self.swapped)
                for _ in self._play_turns(
                    [
                        self._build_half(
                            single_pair, game, self.compute_openings(single_pair.first_pair, 1), replayed_games
                        )
                    ]
                ):
                    pass

    def _get_lockstep(self, size: int, game_in_pair: int = 0) -> Lockstep:
        """Return the calling thread's state for games in lockstep.

        There is a state for game 0 and one for game 1 of pairs. Each is reused while ``size``, its number of games,
        stays the same.
        """
        states: dict[int, Lockstep] | None = getattr(self._local, "states", None)
        if states is None:
            states = self._local.states = {}
        if game_in_pair not in states or len(states[game_in_pair].slot) != size:
            states[game_in_pair] = Lockstep.allocate(size)
        return states[game_in_pair]


@dataclass
class BlockHalf:
    """One half of a block: game 0 of each pair, or game 1 of each pair, played in lockstep."""

    rules: Rules
    opening_plies: int  # imposed plies
    seats: Sequence[GuardedAgent]  # by seat
    players: Sequence[BatchPlayer]  # players of this thread, by seat
    numbers: GameNumbers
    openings: NDArray[np.int8]  # [2, K, pairs]: pieces, then cells
    games: Games  # columns of all games of the pairs
    state: Lockstep
    size: int  # number of games that go on
    evaluations: Evaluations | None = None  # [17, G] of all games of the pairs, if requested

    @property
    def has_memory(self) -> bool:
        """Whether one of the players remembers its games."""
        return any(player.game_words for player in self.players)

    def set_up(self) -> None:
        """Set up the games, and make the players forget all earlier games."""
        set_up_and_count_games(self.numbers, self.openings, self.state, self.games)
        for player in self.players:
            player.start(range(self.numbers.game_in_pair, len(self.games.plies), self.numbers.games_a_pair))

    def try_play_in_kernel(self) -> bool:
        """Play all games in one kernel, and return whether that was possible.

        It is impossible if a player is not jitted, if a turn raises an exception, or if evaluations are requested. The
        games must then be played turn by turn.
        """
        zero, one = self.players
        if self.evaluations is not None or not (isinstance(zero, KernelPlayer) and isinstance(one, KernelPlayer)):
            return False
        self.set_up()
        play, seats = _choose_kernel_and_seats(zero, one, self.size)  # an error of compiling it is none of a turn
        span = self.opening_plies, self.size
        try:
            play(*seats, self.rules.tables, span, self.state, self.games)
        except BaseException as error:  # turns are then requested one by one, to find the game that it forfeits
            if is_ctrl_c_in_main_thread(error):
                raise
            return False
        self.size = 0
        return True

    def play_turn(self, turn_number: int) -> None:
        """Take turn ``turn_number`` in all running games: ask the player whose turn it is, and apply the turns."""
        state, size, guarded, player = self.state, self.size, self.seats[turn_number & 1], self.players[turn_number & 1]
        rng, batch, slots = (
            Streams(state.streams[:size] + turn_seed_offset_in_python(turn_number)),
            state.batch.select_range(0, size),
            state.slot,
        )
        evaluations = None if self.evaluations is None else Evaluations.blank(size)
        turns = guarded.take_turns(player, batch, rng, slots[:size], evaluations=evaluations)
        if self.evaluations is not None and evaluations is not None:
            self.evaluations.put((turn_number, slots[:size]), evaluations)
        state.turns.cells[:size], state.turns.gifts[:size] = turns
        old_state = (batch.copy(), slots[:size].copy()) if guarded.illegal_turn_unreported else None
        is_first_gift = turn_number == self.opening_plies and not self.rules.mover_chooses
        if is_first_gift:
            self.size = give_first_gifts_and_count(state, self.games, self.opening_plies, size)
        else:
            self.size = play_turns_and_count_running(state, self.games, self.rules.tables, turn_number - 1, size)
        if old_state is not None and self.size < size:
            is_illegal = (
                ~np.isin(old_state[1], slots[: self.size]) & (turns.cells != ERROR_CELL) & (turns.cells != LATE_CELL)
            )
            if not is_first_gift:  # other games are over because they were won, or the board is full
                endings = self.games.ending[old_state[1]]
                is_illegal &= (endings & WON == 0) & ((endings & LEGAL == 0) | (turn_number < CELLS))
            for i in np.flatnonzero(is_illegal)[:1]:
                answer = int(turns.cells[i]), int(turns.gifts[i])
                guarded.log_first_illegal_turn(player, old_state[0].position(i), int(rng.seeds[i]), answer)


def _choose_kernel_and_seats(zero: KernelPlayer, one: KernelPlayer, games: int) -> tuple[Any, tuple[Any, ...]]:
    """Return the kernel that plays this many games in lockstep, and its arguments for both seats."""
    if games >= BATCH_KERNEL_GAMES and (zero.has_batch_kernel or one.has_batch_kernel):
        seats = zero.batch_turn, zero.turn, zero.agent, one.batch_turn, one.turn, one.agent
        return load_kernel(play_batches_to_end), seats
    return load_kernel(play_to_end), (zero.turn, zero.agent, one.turn, one.agent)
