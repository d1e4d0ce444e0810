"""Games as episodes of steps for offline learning: observations, actions and rewards as plain arrays.

A *turn* is an answer of an agent: a placement and a gift. Turn 0 is the first gift alone. Turn t places the piece of
ply t - 1 and gives the piece of ply t. Seat t mod 2 has turn t. If the mover chooses the piece, there is no turn 0, and
turn t places a piece of the mover's own in ply t - 1.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from quarto.batch import FORFEIT_ILLEGAL, Games
from quarto.bits import piece_to_lanes
from quarto.jit import inline_function, int64, kernel, uint64
from quarto.observations import GIFT_CODES, NO_CELL, NO_GIFT, TURN_CODES, mark_legal_turns
from quarto.position import ALL_PIECES, board_piece_mask
from quarto.rules import CELLS, NONE

BOTH_SEATS = -1
PERSPECTIVES = {"mover": BOTH_SEATS, "seat_0": 0, "seat_1": 1}

OBSERVATION_SIZE = CELLS + 1  # int8: the piece on each cell, then the hand; NONE where there is none


class EpisodeOptions(NamedTuple):
    """The options that determine which turns of a game become steps, and what the steps contain."""

    seat: int  # the player: 0 or 1, or BOTH_SEATS
    imposed: int  # 1: include imposed turns
    masks: int  # 1: include legal actions
    mover_chooses: int  # 1 under rules where the mover chooses the piece


class Episodes(NamedTuple):
    """``E`` consecutive episodes with ``S`` steps in total. Each episode has one more observation than it has steps."""

    game: NDArray[np.int64]  # [E] index of the game; games without a step are left out
    steps: NDArray[np.int64]  # [E] at least 1
    terminated: NDArray[np.bool_]  # [E] ended by the rules; otherwise truncated
    observations: NDArray[np.int8]  # [S + E, 17]
    actions: NDArray[np.int64]  # [S] numbers of turns, see ``quarto.observations``
    rewards: NDArray[np.float32]  # [S] 0 but for the last step of an episode
    imposed: NDArray[np.bool_]  # [S] whether a part of the turn was imposed
    masks: NDArray[np.bool_]  # [S + E, 289] legal actions, or [0, 289] if they are not asked for
    options: EpisodeOptions

    @property
    def last_step(self) -> NDArray[np.int64]:
        """The index of each episode's last step among the ``S`` steps, [E]."""
        return np.cumsum(self.steps) - 1

    @property
    def final_observation(self) -> NDArray[np.int64]:
        """The index of each episode's last observation among the ``S + E`` observations, [E].

        No action follows this observation.
        """
        return np.cumsum(self.steps + 1) - 1


def build_episodes(opening: NDArray[np.int8], games: Games, options: EpisodeOptions, rules_tables: Any) -> Episodes:
    """Build an episode from each game that has at least one step.

    ``opening`` [G] is the number of imposed plies of each game. ``rules_tables`` are the tables of the games' rules.
    """
    options = EpisodeOptions(*map(int, options))  # kernels would be compiled again for a bool
    counts = _count_steps(opening, games, options)
    kept = np.flatnonzero(counts)
    steps = counts[kept]
    rows, size = int(steps.sum()), len(kept)
    episodes = Episodes(
        kept,
        steps,
        games.ending[kept] < FORFEIT_ILLEGAL,
        np.full((rows + size, OBSERVATION_SIZE), NONE, np.int8),
        np.empty(rows, np.int64),
        np.zeros(rows, np.float32),
        np.zeros(rows, np.bool_),
        np.zeros((rows + size if options.masks else 0, TURN_CODES), np.bool_),
        options,
    )
    _fill_episodes(opening, games, rules_tables, episodes)
    return episodes


@inline_function
def _first_turn(opening: int, options: Any) -> int:
    """Return the number of the first turn that can be a step.

    This is the turn with the first gift that an agent chose or, if imposed turns are included, with the first gift.
    """
    return (int64(0) if options.imposed else int64(opening)) + int64(options.mover_chooses)


@inline_function
def _first_turn_of_seat(first: int, options: Any) -> int:
    """Return the first turn, from turn ``first`` on, that is taken by the seat in ``options``.

    If ``options`` has both seats, this is ``first`` itself.
    """
    return first if options.seat < 0 else first + ((first ^ options.seat) & 1)


@kernel()
def _count_steps(opening: NDArray[np.int8], games: Games, options: EpisodeOptions) -> NDArray[np.int64]:
    """Count the steps in the episode of each game, [G].

    The last gift of a forfeited game is not logged, so the turn with this gift is known only in part. The episode of
    such a game ends with the last position that is fully known, and the turn in that position is not a step.
    """
    counts = np.zeros(games.plies.shape[0], np.int64)
    for game in range(counts.shape[0]):
        plies, forfeited = int64(games.plies[game]), games.ending[game] >= FORFEIT_ILLEGAL
        first = _first_turn(opening[game], options)
        last = plies + (int64(options.mover_chooses) if forfeited else int64(0))
        if first > last or (not forfeited and not options.mover_chooses and first == plies):
            continue  # all turns were imposed
        positions = last - _first_turn_of_seat(first, options) + (int64(1) if options.seat < 0 else int64(2))
        if options.seat >= 0:
            positions //= 2
        counts[game] = max(int64(0), positions - int64(forfeited))
    return counts


@kernel()
def _fill_episodes(opening: NDArray[np.int8], games: Games, rules: Any, episodes: Episodes) -> None:
    options, row, step = episodes.options, int64(0), int64(0)
    for episode in range(episodes.game.shape[0]):
        game, steps = episodes.game[episode], episodes.steps[episode]
        plies, imposed = int64(games.plies[game]), int64(opening[game])
        first = _first_turn(imposed, options)
        turn = _first_turn_of_seat(first, options)
        lanes, occupied, placed = uint64(0), int64(0), int64(0)
        for i in range(steps + 1):
            over = i == steps and episodes.terminated[episode]
            count = plies if over else (first if turn == first and not options.mover_chooses else turn - 1)
            hand = int64(NONE)
            if not over and not options.mover_chooses and turn > first:
                hand = int64(games.pieces[turn - 1, game])
            seen = episodes.observations[row]
            if i > 0:
                for cell in range(CELLS):  # numba takes seconds to compile the copying of a slice
                    seen[cell] = episodes.observations[row - 1, cell]
            while placed < count:
                piece, cell = int64(games.pieces[placed, game]), int64(games.cells[placed, game])
                seen[cell] = piece
                lanes |= piece_to_lanes(piece) << uint64(cell)
                occupied |= 1 << cell
                placed += 1
            seen[CELLS] = hand
            if options.masks and not over:
                available = ALL_PIECES & ~board_piece_mask(lanes, occupied)
                if hand >= 0:
                    available &= ~(int64(1) << hand)
                mark_legal_turns(lanes, occupied, available, hand, rules, episodes.masks[row])
            row += 1
            if i < steps:
                cell = int64(NO_CELL) if count == turn else int64(games.cells[turn - 1, game])
                gift = int64(NO_GIFT)
                if options.mover_chooses or turn < plies:
                    gift = int64(games.pieces[turn - int64(options.mover_chooses), game])
                episodes.actions[step] = GIFT_CODES * cell + gift
                episodes.imposed[step] = options.imposed != 0 and imposed > 0 and turn <= imposed
                step += 1
            turn += 1 if options.seat < 0 else 2
        winner = int64(games.winner[game])
        if episodes.terminated[episode] and winner >= 0:
            # The mover of the last turn has finished the line, so from the mover's perspective the game is won.
            episodes.rewards[step - 1] = 1 if options.seat < 0 or winner == options.seat else -1
