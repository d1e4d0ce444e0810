"""Afterstates of logged games to fit values to, one number of pieces at a time, in an order of their own.

Games are read in the order of a hash of run and id. So the boards, and the order in which they are learned from, depend
on the chosen games alone. Half of the boards are as they were logged; in the other half the last turn is drawn again,
because players that log seldom make the turns that a better one would.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from agents.random import random_cell, random_piece
from quarto.batch import Games
from quarto.jit import int64, kernel, uint64
from quarto.lanes import spread
from quarto.position import ALL_CELLS, ALL_PIECES
from quarto.rng import GAMMA, draw, mix
from quarto.threats import safe_pieces, winning_cells


class Boards(NamedTuple):
    """``N`` afterstates of one stage whose gift finishes no line."""

    lanes: NDArray[np.uint64]  # [N]
    occupied: NDArray[np.int64]  # [N]
    left: NDArray[np.int64]  # [N] pieces neither on the board nor given
    gift: NDArray[np.int64]  # [N]

    @staticmethod
    def empty(size: int) -> Boards:
        return Boards(np.empty(size, np.uint64), *(np.empty(size, np.int64) for _ in range(3)))

    def first(self, size: int) -> Boards:
        """The first ``size`` of them, as views."""
        return Boards(self.lanes[:size], self.occupied[:size], self.left[:size], self.gift[:size])


@kernel()
def words_of_games(run: int, game_id: NDArray[np.int64], seed: int) -> NDArray[np.uint64]:
    """A random word for each game of a run (its ``run_word``), the same whatever else was chosen: [G] uint64."""
    words = np.empty(game_id.shape[0], np.uint64)
    for i in range(game_id.shape[0]):
        words[i] = mix(mix(uint64(run) + uint64(seed) * GAMMA) ^ (uint64(game_id[i]) + GAMMA))
    return words


@kernel()
def gather(games: Games, words: NDArray[np.uint64], stage: int, boards: Boards, rules: Any) -> int:
    """Fill ``boards`` with afterstates of ``stage`` pieces from the games in their order; returns how many.

    From each game comes the board as it was logged, then one with another last turn. A placement is drawn again only if
    it could not finish a line, a gift from the safe ones.
    """
    count, size = int64(0), boards.lanes.shape[0]
    for game in range(words.shape[0]):
        if games.plies[game] <= stage:
            continue
        lanes, occupied, left = uint64(0), int64(0), int64(ALL_PIECES)
        for ply in range(stage - 1):
            piece, cell = int64(games.pieces[ply, game]), int64(games.cells[ply, game])
            left &= ~(int64(1) << piece)
            lanes |= spread(piece) << uint64(cell)
            occupied |= int64(1) << cell
        piece = int64(games.pieces[stage - 1, game])
        left &= ~(int64(1) << piece)
        can_win = winning_cells(lanes, occupied, piece, rules) != 0
        for redrawn in range(2):
            cell, gift = int64(games.cells[stage - 1, game]), int64(games.pieces[stage, game])
            word = draw(words[game], stage)
            if redrawn:
                if can_win:
                    continue
                cell = random_cell(word, ~occupied & ALL_CELLS)
            board, filled = lanes | spread(piece) << uint64(cell), occupied | int64(1) << cell
            safe = left & safe_pieces(board, filled, rules)
            if redrawn and safe != 0:
                gift = random_piece(word, safe)
            if (safe >> gift) & 1 == 0:
                continue
            if count == size:
                return count
            boards.lanes[count], boards.occupied[count] = board, filled
            boards.left[count], boards.gift[count] = left & ~(int64(1) << gift), gift
            count += 1
    return count


def boards_of(games: Games, words: NDArray[np.uint64], stage: int, most: int, rules: np.void) -> Boards:
    """At most ``most`` afterstates of games that are in the order of their ``words`` [G]."""
    boards = Boards.empty(most)
    return boards.first(gather(games, words, stage, boards, rules))
