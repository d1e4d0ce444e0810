"""Kernels of the vectorised environment: one action of each learner, then one turn of each opponent that is due."""

from __future__ import annotations

from typing import Any, NamedTuple

import numba
import numpy as np
from numba import types
from numpy.typing import NDArray

from agents.base.agent import ERROR_CELL, LATE_CELL, RULES_TYPE
from quarto.batch import FORFEIT_ERROR, FORFEIT_ILLEGAL, FORFEIT_TIME, FULL_BOARD, LINE, Batch, Games, Turns
from quarto.bits import piece_to_lanes, popcount
from quarto.jit import inline_function, int64, kernel, uint64
from quarto.observations import ACTIONS, GIFT_CODES, is_legal_turn
from quarto.position import ALL_CELLS, ALL_PIECES
from quarto.rng import OPENING_STREAM, stream, turn_seed_offset
from quarto.rules import NONE, PIECES, has_finished_line_at
from runners.hosting.lockstep import OPENINGS_TYPE, try_draw_opening

RANDOM_SEAT, BOTH_SEATS = -1, 2  # of a learner without one seat for all games

# One record for each game of a learner against the opponent, at any ply. All records travel to a kernel as one pointer;
# with an array for each field, counting references took two thirds of a step.
ENV_DTYPE = np.dtype(
    [
        ("lanes", np.uint64),  # the position, as in Batch; the learner decides in it unless the game is over
        ("occupied", np.uint16),
        ("available", np.uint16),
        ("hand", np.int8),
        ("last_cell", np.int8),
        ("seat", np.int8),  # the learner's
        ("plies", np.int8),  # this and the next four: the game as in Games, once it is over
        ("winner", np.int8),
        ("ending", np.int8),
        ("pieces", np.int8, PIECES),
        ("cells", np.int8, PIECES),
        ("seed", np.uint64),
        ("number", np.int64),  # of the game under its seed
        ("stream", np.uint64),  # of the opponent's randomness
        ("reward", np.float64),  # of the last step, like the next two fields
        ("terminated", np.bool_),
        ("truncated", np.bool_),
        ("over", np.bool_),  # a new game begins in the next step
        ("begun", np.bool_),  # the game began in the last step
    ],
    align=True,
)
Envs = NDArray[np.void]  # [N] ENV


def build_envs(size: int) -> Envs:
    """Build the records of ``size`` games that have not begun; the first step begins game 0 of seed 0 in each."""
    envs = np.zeros(size, ENV_DTYPE)
    envs["over"], envs["number"] = True, -1
    return envs


def to_batch(envs: Envs) -> Batch:
    """Return the positions of the games as a batch of views into ``envs``."""
    return Batch(*(envs[name] for name in Batch._fields))


def to_games(envs: Envs) -> Games:
    """Convert records of finished games to ``Games``."""
    pieces, cells = (np.ascontiguousarray(envs[name].T) for name in ("pieces", "cells"))
    return Games(pieces, cells, envs["plies"], envs["winner"], envs["ending"])


class StepOptions(NamedTuple):
    """The options of a step as integers; a flag is 1 for yes and 0 for no."""

    seat: int  # the learner's: 0, 1, RANDOM_SEAT or BOTH_SEATS
    turns: int  # whether an action is a whole turn, see ``quarto.observations``
    begin: int  # whether to begin new games only, without any action


class OpponentPositions(NamedTuple):
    """A buffer for the positions in which the opponent has to take its turn, filled from index 0."""

    batch: Batch  # [N]
    slots: NDArray[np.uint32]  # [N] indices of the games
    seeds: NDArray[np.uint64]  # [N] seeds of the turns
    turns: NDArray[np.int8]  # [N] numbers of the turns

    @staticmethod
    def empty(size: int) -> OpponentPositions:
        """Create a buffer with room for ``size`` positions."""
        return OpponentPositions(
            Batch.allocate(size), np.empty(size, np.uint32), np.empty(size, np.uint64), np.empty(size, np.int8)
        )


ENVS_TYPE = types.Array(numba.from_dtype(ENV_DTYPE), 1, "C")
OPTIONS_TYPE = numba.typeof(StepOptions(0, 0, 0))
OPPONENTS_TYPE, TURNS_TYPE = numba.typeof(OpponentPositions.empty(1)), numba.typeof(Turns.allocate(1))


@inline_function
def _end_game(env: Any, winner: int, ending: int) -> None:
    """Record the winner and the ending of a game; if the opponent forfeited, mark the game as truncated."""
    truncated = ending >= FORFEIT_ILLEGAL and winner == env.seat
    env.plies, env.winner, env.ending = popcount(int64(env.occupied)), winner, ending
    env.over, env.truncated, env.terminated = True, truncated, not truncated
    if not truncated and winner != NONE:
        env.reward = 1.0 if winner == env.seat else -1.0


@inline_function
def _place_piece(env: Any, cell: int, seat: int, rules: Any) -> None:
    """Place the piece in hand on an empty cell, which may end the game."""
    piece, ply = int64(env.hand), popcount(int64(env.occupied))
    env.lanes |= piece_to_lanes(piece) << uint64(cell)
    env.occupied |= int64(1) << cell
    env.hand, env.last_cell = NONE, cell
    env.pieces[ply], env.cells[ply] = piece, cell
    if has_finished_line_at(env.lanes, int64(env.occupied), piece, cell, rules):
        _end_game(env, seat, LINE)
    elif env.occupied == ALL_CELLS:
        _end_game(env, NONE, FULL_BOARD)


@inline_function
def _is_legal(bits: int, action: int) -> bool:
    return action >= 0 and action < ACTIONS and (bits >> (action & 15)) & 1 == 1


@inline_function
def _give_piece(env: Any, piece: int) -> None:
    """Remove a piece from the available pieces, and put it in hand."""
    env.hand = piece
    env.available &= ~(int64(1) << piece)


@kernel(types.int64(ENVS_TYPE, types.int64, OPENINGS_TYPE, RULES_TYPE))
def _play_opening_and_count_plies(envs: Envs, i: int, openings: Any, rules: Any) -> int:
    """Draw the imposed plies of a new game ``envs[i]`` at random, play them, and return their number.

    ``openings`` [2, K, 1] is scratch space for K imposed plies.
    """
    env = envs[i]
    source, attempt = stream(env.seed, env.number, OPENING_STREAM), int64(0)
    while not try_draw_opening(openings, 0, source, attempt, rules):
        attempt += 1
    for ply in range(openings.shape[1]):
        _give_piece(env, int64(openings[0, ply, 0]))
        _place_piece(env, int64(openings[1, ply, 0]), int64(0), rules)  # it finishes no line
    return int64(openings.shape[1])


@inline_function
def _begin_game_and_check_opponent_first(env: Any, seat: int, first_seat: int) -> int:
    """Begin a new game and assign the learner's seat; return 1 if the opponent takes the first turn, otherwise 0.

    ``seat`` is the learner's seat, ``RANDOM_SEAT`` or ``BOTH_SEATS``; ``first_seat`` is the seat that takes the first
    turn.
    """
    env.lanes, env.occupied, env.available, env.hand, env.last_cell = uint64(0), 0, ALL_PIECES, NONE, NONE
    env.number += 1
    env.stream = stream(env.seed, env.number, 0)
    random_seat = int64(stream(env.seed, env.number, OPENING_STREAM) & uint64(1))
    env.seat = first_seat if seat == BOTH_SEATS else random_seat if seat == RANDOM_SEAT else seat
    env.over = False
    return int64(env.seat != first_seat)


@inline_function
def _apply_action_and_check_reply_due(env: Any, action: int, rules: Any) -> bool:
    """Carry out the learner's decision, and return whether it is then the opponent's turn.

    An illegal decision forfeits the game.
    """
    giving, mover_chooses = env.hand == NONE, rules.mover_chooses != 0
    if not _is_legal(int64(env.available) if giving else ~int64(env.occupied), action):
        _end_game(env, 1 - int64(env.seat), FORFEIT_ILLEGAL)
        return False
    if giving:
        _give_piece(env, action)
        return not mover_chooses
    _place_piece(env, action, int64(env.seat), rules)
    return mover_chooses and not env.over


@kernel(types.int64(ENVS_TYPE, types.int64, types.int64, RULES_TYPE))
def _apply_turn_and_check_reply_due(envs: Envs, i: int, turn: int, rules: Any) -> int:
    """Carry out the learner's whole turn; return 1 if it is then the opponent's turn, otherwise 0.

    An illegal turn forfeits the game.
    """
    env = envs[i]
    occupied, available, hand = int64(env.occupied), int64(env.available), int64(env.hand)
    if not is_legal_turn(turn, env.lanes, occupied, available, hand, rules):
        _end_game(env, 1 - int64(env.seat), FORFEIT_ILLEGAL)
        return 0
    if hand != NONE:
        _place_piece(env, turn // GIFT_CODES, int64(env.seat), rules)
    if not env.over:
        _give_piece(env, turn % GIFT_CODES)
    return int64(not env.over)


@kernel(types.int64(ENVS_TYPE, OPPONENTS_TYPE, types.int64[::1], OPTIONS_TYPE, OPENINGS_TYPE, RULES_TYPE))
def step_learners_and_count_replies(
    envs: Envs, opponent_positions: OpponentPositions, actions: Any, options: StepOptions, openings: Any, rules: Any
) -> int:
    """Carry out each learner's action, or begin a new game where one is over; return how many opponents must reply.

    ``actions`` is [N]; ``openings`` [2, K, 1] is scratch space for K imposed plies. The positions in which an opponent
    must reply are written to ``opponent_positions``, from index 0. A learner that plays both seats makes the reply
    itself, in the next step.
    """
    batch, slots, seeds, turns = opponent_positions
    size, mover_chooses = int64(0), rules.mover_chooses != 0
    first = (openings.shape[1] + int64(mover_chooses)) & 1
    for i in range(envs.shape[0]):
        env = envs[i]
        if options.begin and not env.over:
            continue
        env.reward, env.terminated, env.truncated, env.begun = 0.0, False, False, env.over
        if env.over:
            waits = _begin_game_and_check_opponent_first(env, options.seat, first) != 0
            if openings.shape[1]:
                _play_opening_and_count_plies(envs, int64(i), openings, rules)
        elif options.turns:
            waits = _apply_turn_and_check_reply_due(envs, int64(i), int64(actions[i]), rules) != 0
        else:
            waits = _apply_action_and_check_reply_due(env, int64(actions[i]), rules)
        if waits and options.seat == BOTH_SEATS:
            env.seat = 1 - int64(env.seat)
        elif waits:
            turn = popcount(int64(env.occupied)) + int64(env.hand != NONE or mover_chooses)
            batch.lanes[size], batch.occupied[size], batch.available[size] = env.lanes, env.occupied, env.available
            batch.hand[size], batch.last_cell[size] = env.hand, env.last_cell
            slots[size], turns[size], seeds[size] = i, turn, env.stream + turn_seed_offset(turn)
            size += 1
    return size


@inline_function
def _play_opponent_turn(env: Any, cell: int, gift: int, rules: Any) -> None:
    """Play the opponent's turn in one game. An illegal, late or failed turn forfeits the game."""
    learner, mover_chooses = int64(env.seat), rules.mover_chooses != 0
    if cell in (ERROR_CELL, LATE_CELL):
        _end_game(env, learner, FORFEIT_ERROR if cell == ERROR_CELL else FORFEIT_TIME)
        return
    gift_is_legal = _is_legal(int64(env.available), gift)
    if mover_chooses and gift_is_legal:
        _give_piece(env, gift)
    if env.hand != NONE:
        if not _is_legal(~int64(env.occupied), cell):
            _end_game(env, learner, FORFEIT_ILLEGAL)
            return
        _place_piece(env, cell, 1 - learner, rules)
    if not env.over and not gift_is_legal:
        _end_game(env, learner, FORFEIT_ILLEGAL)
    elif not env.over and not mover_chooses:
        _give_piece(env, gift)


@kernel(types.void(ENVS_TYPE, types.uint32[::1], TURNS_TYPE, RULES_TYPE))
def play_opponent_turns(envs: Envs, slots: Any, turns: Turns, rules: Any) -> None:
    """Play the opponent's ``turns`` [A] in the games at ``slots`` [A]."""
    for j in range(slots.shape[0]):
        _play_opponent_turn(envs[int64(slots[j])], int64(turns.cells[j]), int64(turns.gifts[j]), rules)
