"""Games in lockstep: every game of a batch takes its turn at the same ply, and finished games are compacted away.

Two jitted agents play a whole batch inside one kernel (``play_to_end``). If one of them is written in Python, Python
takes the same steps (``set_up_and_count_games``, ``give_first_gifts_and_count``, ``play_turns_and_count_running``) one
by one, with the agents' turns in between.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numba
from numba import types

from agents.base.agent import AGENT_TYPE, ERROR_CELL, LATE_CELL, RULES_TYPE, TURN_TYPE, TurnKernel
from agents.base.player import BATCH_TURN_TYPE, LOCKSTEP_TYPE, BatchTurnKernel, decide_turns
from quarto.batch import FORFEIT_ERROR, FORFEIT_ILLEGAL, FORFEIT_TIME, FULL_BOARD, LINE, Games, Lockstep
from quarto.bits import nth_bit, piece_to_lanes
from quarto.jit import inline_function, int64, kernel, uint64
from quarto.position import ALL_CELLS, ALL_PIECES
from quarto.rng import OPENING_STREAM, draw, integer_below, second_integer_below, stream, turn_seed_offset
from quarto.rules import CELLS, NONE, PIECES, SIDE, has_finished_line_at


class GameNumbers(NamedTuple):
    """The numbers that identify the games of a batch within their run.

    A batch holds one game of each of several consecutive pairs: either game 0 of every pair, or game 1 of every pair.
    """

    run: int  # uint64: the run's word, see quarto.rng
    pairing: int  # int64, as the fields below
    first_pair: int
    game_in_pair: int  # 0 or 1 within each pair
    games_a_pair: int  # 2, or 1 if the seats are not swapped: columns of Games between one pair and the next


GAMES_TYPE = numba.typeof(Games.allocate(1))
NUMBERS_TYPE = types.NamedTuple((types.uint64, types.int64, types.int64, types.int64, types.int64), GameNumbers)
OPENINGS_TYPE = types.int8[:, :, ::1]
SPAN_TYPE = types.UniTuple(types.int64, 2)


@inline_function
def try_draw_opening(opening: Any, pair: int, source: int, attempt: int, rules: Any) -> bool:
    """Draw an opening into ``opening[:, :, pair]``, and return whether it leaves the game unfinished.

    ``source`` is the random stream of the pair; each ``attempt`` uses different random numbers of that stream. If a ply
    finishes a line, the attempt ends at once.
    """
    lanes, occupied, available = uint64(0), int64(0), int64(ALL_PIECES)
    for ply in range(opening.shape[1]):
        word = draw(source, attempt * PIECES + ply)
        piece = nth_bit(available, second_integer_below(word, PIECES - ply))
        cell = nth_bit(~occupied & ALL_CELLS, integer_below(word, CELLS - ply))
        lanes |= piece_to_lanes(piece) << uint64(cell)
        occupied |= int64(1) << cell
        available &= ~(int64(1) << piece)
        if has_finished_line_at(lanes, occupied, piece, cell, rules):
            return False
        opening[0, ply, pair] = piece
        opening[1, ply, pair] = cell
    return True


@kernel(types.void(types.uint64, types.int64, RULES_TYPE, OPENINGS_TYPE))
def draw_openings(seed: int, first_pair: int, rules: Any, openings: Any) -> None:
    """Draw the imposed plies of consecutive pairs into ``openings``: [2, K, pairs] int8, pieces then cells.

    An attempt that finishes a line is drawn again, so openings are uniformly distributed over all ways to play K plies
    without finishing a line. The random stream depends only on the seed and the number of the pair, so every pairing of
    a run gets the same openings.
    """
    for pair in range(openings.shape[2]):
        source = stream(seed, first_pair + pair, OPENING_STREAM)
        attempt = 0
        while not try_draw_opening(openings, pair, source, attempt, rules):
            attempt += 1


# The outcome of a game's last ply, kept in ``Games.ending`` as 4 x ply + WON + LEGAL until ``write_outcomes`` computes
# the ending, the winner and the number of plies from it. So each ply writes one byte without a branch.
WON, LEGAL = 1, 2


@kernel(types.int64(NUMBERS_TYPE, OPENINGS_TYPE, LOCKSTEP_TYPE, GAMES_TYPE))
def set_up_and_count_games(numbers: GameNumbers, openings: Any, state: Lockstep, games: Games) -> int:
    """Set up the position after the opening in one game of each pair, and return the number of games."""
    batch, plies, pairs = state.batch, openings.shape[1], openings.shape[2]
    for i in range(pairs):
        slot = numbers.games_a_pair * i + numbers.game_in_pair
        lanes, occupied, available, last_cell = uint64(0), int64(0), int64(ALL_PIECES), int64(NONE)
        for ply in range(plies):
            piece, cell = int64(openings[0, ply, i]), int64(openings[1, ply, i])
            games.pieces[ply, slot], games.cells[ply, slot] = piece, cell
            lanes |= piece_to_lanes(piece) << uint64(cell)
            occupied |= int64(1) << cell
            available &= ~(int64(1) << piece)
            last_cell = cell
        batch.lanes[i], batch.occupied[i], batch.available[i] = lanes, occupied, available
        batch.hand[i], batch.last_cell[i] = NONE, last_cell
        state.slot[i] = slot
        state.streams[i] = stream(numbers.run, (numbers.pairing << 31) | (numbers.first_pair + i), numbers.game_in_pair)
    return int64(pairs)


@kernel(types.int64(LOCKSTEP_TYPE, GAMES_TYPE, types.int64, types.int64))
def give_first_gifts_and_count(state: Lockstep, games: Games, opening_plies: int, size: int) -> int:
    """Hand over the gifts that were just chosen for the first ply after the opening, and return how many games go on.

    ``size`` is the number of games before this call. An illegal gift counts as a fault in the preceding ply, in which
    its giver made a placement, or would have made one if the game did not begin with this gift.
    """
    batch, kept = state.batch, uint64(0)
    for i in range(size):
        slot, available = state.slot[i], int64(batch.available[i])
        cell, gift = state.turns.cells[i], int64(state.turns.gifts[i])
        piece = gift & 15
        legal = (gift == piece) & (((available >> piece) & 1) == 1) & (cell != ERROR_CELL) & (cell != LATE_CELL)
        games.cells[opening_plies, slot] = cell
        games.ending[slot] = (opening_plies - 1) * 4 + LEGAL
        batch.lanes[kept], batch.occupied[kept] = batch.lanes[i], batch.occupied[i]
        batch.available[kept] = available & ~(int64(1) << piece)
        batch.hand[kept], batch.last_cell[kept] = piece, batch.last_cell[i]
        state.slot[kept], state.streams[kept] = slot, state.streams[i]
        kept += uint64(legal)
    return int64(kept)


@kernel(types.int64(LOCKSTEP_TYPE, GAMES_TYPE, RULES_TYPE, types.int64, types.int64))
def play_turns_and_count_running(state: Lockstep, games: Games, rules: Any, ply: int, size: int) -> int:
    """Play the turns that were just chosen in ``size`` games, and return how many games go on.

    Each placement is made and recorded; then the game ends, or the gift is handed over. Whether a game ends is
    unpredictable, so no branch depends on it. Every game is written to the next free index, which is advanced only if
    the game goes on.
    """
    batch, kept = state.batch, uint64(0)
    mover_chooses = rules.mover_chooses != 0
    can_win, can_go_on = ply >= SIDE - 1, ply < CELLS - 1
    for i in range(uint64(size)):
        slot, available, occupied = state.slot[i], int64(batch.available[i]), int64(batch.occupied[i])
        cell, gift = int64(state.turns.cells[i]) & 15, int64(state.turns.gifts[i]) & 15
        gift_legal = (gift == state.turns.gifts[i]) & (((available >> gift) & 1) == 1)
        legal = (cell == state.turns.cells[i]) & (((occupied >> cell) & 1) == 0)
        piece = int64(batch.hand[i])
        if mover_chooses:
            legal &= gift_legal
            piece = gift
        lanes = batch.lanes[i] | (piece_to_lanes(piece) << uint64(cell))
        occupied |= int64(1) << cell
        won = legal & has_finished_line_at(lanes, occupied, piece, cell, rules) if can_win else False
        games.pieces[ply, slot], games.cells[ply, slot] = piece, state.turns.cells[i]
        games.ending[slot] = ply * 4 + LEGAL * int64(legal) + WON * int64(won)
        batch.lanes[kept], batch.occupied[kept] = lanes, occupied
        batch.available[kept] = available & ~(int64(1) << gift)
        batch.hand[kept] = NONE if mover_chooses else gift
        batch.last_cell[kept] = cell
        state.slot[kept], state.streams[kept] = slot, state.streams[i]
        kept += uint64(legal & gift_legal & (not won) & can_go_on)
    return int64(kept)


@kernel(types.void(GAMES_TYPE, types.int64, types.int64))
def write_outcomes(games: Games, game_in_pair: int, games_a_pair: int) -> None:
    """Write the length, ending and winner of game ``game_in_pair`` (0 or 1) of each pair, once all games are over.

    ``games_a_pair`` is the number of columns of ``games`` that each pair takes, 1 or 2.
    """
    for slot in range(game_in_pair, games.plies.shape[0], games_a_pair):
        ply, last = games.ending[slot] >> 2, games.ending[slot] & 3
        won, legal = (last & WON) != 0, (last & LEGAL) != 0
        plies, placer = ply + int64(legal), (ply + 1) & 1
        games.plies[slot] = plies
        if won | (legal & (plies == CELLS)):
            win = int64(won)  # arithmetic instead of a branch that would be mispredicted
            games.ending[slot] = LINE * win + FULL_BOARD * (1 - win)
            games.winner[slot] = placer * win + NONE * (1 - win)
        else:  # no legal placement, or one without a legal gift: either way it was the placer's turn
            answered = int64(games.cells[plies, slot]) if plies < CELLS else int64(NONE)
            forfeit = (
                FORFEIT_ERROR if answered == ERROR_CELL else FORFEIT_TIME if answered == LATE_CELL else FORFEIT_ILLEGAL
            )
            games.ending[slot] = forfeit
            games.winner[slot] = 1 - placer


@inline_function
def _make_turns_and_count_running(state: Lockstep, games: Games, rules: Any, opening: int, turn: int, size: int) -> int:
    """Make the turns number ``turn`` that were just chosen in ``size`` games, and return how many games go on."""
    if turn == opening and rules.mover_chooses == 0:
        return give_first_gifts_and_count(state, games, opening, size)
    return play_turns_and_count_running(state, games, rules, turn - 1, size)


@kernel(types.void(*(TURN_TYPE, AGENT_TYPE) * 2, RULES_TYPE, SPAN_TYPE, LOCKSTEP_TYPE, GAMES_TYPE))
def play_to_end(
    turn_0: TurnKernel,
    agent_0: Any,
    turn_1: TurnKernel,
    agent_1: Any,
    rules: Any,
    opening_plies_and_size: Any,
    state: Lockstep,
    games: Games,
) -> None:
    """Play until all games that ``set_up_and_count_games`` has set up have ended.

    ``turn_0`` and ``agent_0`` take the turns of seat 0, ``turn_1`` and ``agent_1`` those of seat 1.
    ``opening_plies_and_size`` is (number of imposed plies, number of games).
    """
    opening, size = opening_plies_and_size
    for turn in range(opening + int64(rules.mover_chooses != 0), CELLS + 1):
        offset = turn_seed_offset(turn)
        if (turn & 1) == 0:
            decide_turns(turn_0, agent_0, rules, state, offset, size)
        else:
            decide_turns(turn_1, agent_1, rules, state, offset, size)
        size = _make_turns_and_count_running(state, games, rules, opening, turn, size)


@kernel(types.void(*(BATCH_TURN_TYPE, TURN_TYPE, AGENT_TYPE) * 2, RULES_TYPE, SPAN_TYPE, LOCKSTEP_TYPE, GAMES_TYPE))
def play_batches_to_end(  # noqa: PLR0913, PLR0917  (numba does not convert functions in a tuple)
    batch_turn_0: BatchTurnKernel,
    turn_0: TurnKernel,
    agent_0: Any,
    batch_turn_1: BatchTurnKernel,
    turn_1: TurnKernel,
    agent_1: Any,
    rules: Any,
    opening_plies_and_size: Any,
    state: Lockstep,
    games: Games,
) -> None:
    """Play the same games as ``play_to_end``, whose turns are taken by batch kernels.

    numba takes 25 microseconds to pass a function to a kernel, so this pays only for agents with a batch kernel of
    their own, and for batches of many games.
    """
    opening, size = opening_plies_and_size
    for turn in range(opening + int64(rules.mover_chooses != 0), CELLS + 1):
        offset = turn_seed_offset(turn)
        if (turn & 1) == 0:
            batch_turn_0(turn_0, agent_0, rules, state, offset, size)
        else:
            batch_turn_1(turn_1, agent_1, rules, state, offset, size)
        size = _make_turns_and_count_running(state, games, rules, opening, turn, size)
