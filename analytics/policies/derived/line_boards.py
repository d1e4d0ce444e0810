"""Afterstates of logged games to fit values to, one number of pieces at a time, in an order of their own.

Games are read in the order of a hash of run and id. So the boards, and the order in which they are learned from, depend
on the chosen games alone. Half of the boards are as they were logged. In the other half the last turn is drawn again,
because the logged players seldom make the turns of a better one.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from agents.random import random_cell, random_piece
from analytics.derived_tables.exact_values import UNKNOWN
from analytics.policies.derived.dataset import GameSource
from analytics.store.blocks import games_at
from quarto.batch import Games
from quarto.bits import spread
from quarto.jit import int64, kernel, uint64
from quarto.position import ALL_CELLS, ALL_PIECES
from quarto.rng import GAMMA, draw, mix, run_word
from quarto.rules import PIECES
from quarto.threats import safe_pieces, winning_cells

MOST_GAMES = 1 << 20  # that boards are taken from
LARGEST_WORD = 2.0**64 - 2.0**11  # as a float64
ONE_IN = 16  # games is not learned from, but measures the error


class Boards(NamedTuple):
    """``N`` afterstates of one stage whose gift finishes no line."""

    lanes: NDArray[np.uint64]  # [N]
    occupied: NDArray[np.int64]  # [N]
    left: NDArray[np.int64]  # [N] pieces neither on the board nor given
    gift: NDArray[np.int64]  # [N]
    value: NDArray[np.int64]  # [N] for the giver: 1 won, 0 drawn, -1 lost, UNKNOWN

    @staticmethod
    def empty(size: int) -> Boards:
        """``size`` uninitialised boards."""
        return Boards(np.empty(size, np.uint64), *(np.empty(size, np.int64) for _ in range(4)))

    def first(self, size: int) -> Boards:
        """The first ``size`` boards, as views."""
        lanes, *others = self
        return Boards(lanes[:size], *(field[:size] for field in others))

    def known(self) -> Boards:
        """The boards that have a value."""
        rows = np.flatnonzero(self.value != UNKNOWN)
        return Boards(self.lanes[rows], *(field[rows] for field in self[1:]))


class ChosenGames(NamedTuple):
    """Games in the order of their random words [G], ascending."""

    words: NDArray[np.uint64]
    games: Games
    values: NDArray[np.int8]  # [16, G] exact values of the gifts for their givers, or UNKNOWN; [16, 0]: not asked for

    def part(self, held_out: bool) -> ChosenGames:
        """The games that measure the error, or those that are learned from."""
        rows = np.flatnonzero((self.words % np.uint64(ONE_IN) == 0) == held_out)
        games = (np.ascontiguousarray(each[..., rows]) for each in self.games)
        values = np.ascontiguousarray(self.values[:, rows]) if self.values.size else self.values
        return ChosenGames(self.words[rows], Games(*games), values)


def chosen_games(dataset: GameSource, seed: int, judged: bool = False) -> ChosenGames:
    """About ``MOST_GAMES`` games at most, those with the least words: they depend on the dataset's games alone.

    With ``judged`` their gifts have exact values, where these are annotated.
    """
    limit = np.uint64(min(MOST_GAMES / dataset.size, 1.0) * LARGEST_WORD)
    words, parts, values = [], [], [np.zeros((PIECES, 0), np.int8)]
    for record, part in dataset.parts():
        drawn = words_of_games(run_word(record.run_id), part.game_id, seed)
        rows = np.flatnonzero(drawn <= limit)
        words.append(drawn[rows])
        parts.append(games_at(part.games, rows))
        if judged:
            values.append(dataset.gift_values(record.run_id, part)[:, rows])
    together = np.concatenate(words)
    order = np.argsort(together, kind="stable")
    games = (np.ascontiguousarray(np.concatenate(each, axis=-1)[..., order]) for each in zip(*parts, strict=True))
    worth = np.concatenate(values, axis=-1)
    return ChosenGames(together[order], Games(*games), np.ascontiguousarray(worth[:, order]) if judged else worth)


@kernel()
def words_of_games(run: int, game_id: NDArray[np.int64], seed: int) -> NDArray[np.uint64]:
    """A random word for each game of a run (its ``run_word``), the same whatever else was chosen: [G] uint64."""
    words = np.empty(game_id.shape[0], np.uint64)
    for i in range(game_id.shape[0]):
        words[i] = mix(mix(uint64(run) + uint64(seed) * GAMMA) ^ (uint64(game_id[i]) + GAMMA))
    return words


@kernel()
def board_of(games: Games, game: int, plies: int) -> tuple[int, int, int]:
    """The board of a logged game after some plies: its lanes, the cells occupied, and the pieces not placed."""
    lanes, occupied, left = uint64(0), int64(0), int64(ALL_PIECES)
    for ply in range(plies):
        piece, cell = int64(games.pieces[ply, game]), int64(games.cells[ply, game])
        left &= ~(int64(1) << piece)
        lanes |= spread(piece) << uint64(cell)
        occupied |= int64(1) << cell
    return lanes, occupied, left


@kernel()
def gather(
    games: Games, words: NDArray[np.uint64], values: NDArray[np.int8], stage: int, boards: Boards, rules: Any
) -> int:
    """Fill ``boards`` with afterstates of ``stage`` pieces from the games in their order; returns how many.

    From each game comes the board as it was logged, then one with another last turn. A placement is drawn again only if
    it could not finish a line, a gift from the safe ones. If ``values`` is [16, G], not [16, 0], logged boards have the
    values of their gifts.
    """
    count, size, judged = int64(0), boards.lanes.shape[0], values.shape[1] > 0
    for game in range(words.shape[0]):
        if games.plies[game] <= stage:
            continue
        lanes, occupied, left = board_of(games, game, stage - 1)
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
            boards.value[count] = UNKNOWN
            if judged and not redrawn:
                boards.value[count] = int64(values[stage, game])
            count += 1
    return count


def boards_of(chosen: ChosenGames, stage: int, most: int, rules: np.void) -> Boards:
    """At most ``most`` afterstates with ``stage`` pieces."""
    boards = Boards.empty(most)
    return boards.first(gather(chosen.games, chosen.words, chosen.values, stage, boards, rules))
