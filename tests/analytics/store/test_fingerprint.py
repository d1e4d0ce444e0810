"""The fingerprint of games against plain Python, and that it adds up."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest

from analytics.store.blocks import RangeGames
from analytics.store.ranges import UnitLine
from analytics.store.schema import game_ids
from quarto.batch import Block
from tests.analytics.naive_games import random_block, single_games

WORD = (1 << 64) - 1
GAMMA = 0x9E3779B97F4A7C15


def slow_mix(word: int) -> int:
    word = (word ^ word >> 30) * 0xBF58476D1CE4E5B9 & WORD
    word = (word ^ word >> 27) * 0x94D049BB133111EB & WORD
    return word ^ word >> 31


def slow_fingerprint(block: Block) -> int:
    """By data/README.md, game by game."""
    total = 0
    for i in range(len(block.games.plies)):
        pair, swapped = divmod(i, 2) if block.swapped else (i, 0)
        game_id = block.pairing << 32 | 2 * (block.first_pair + pair) + swapped
        plies, words = int(block.games.plies[i]), [0, 0]
        for ply in range(plies):
            byte = int(block.games.pieces[ply, i]) << 4 | int(block.games.cells[ply, i])
            words[ply // 8] |= byte << 8 * (ply % 8)
        end = plies | int(block.games.winner[i]) + 1 << 8 | block.opening << 16 | int(block.games.ending[i]) << 24
        word = slow_mix(game_id + GAMMA & WORD)
        word = slow_mix(word ^ (end + GAMMA & WORD))
        word = slow_mix(word ^ words[0])
        total += slow_mix((word + GAMMA & WORD) ^ words[1])
    return total & WORD


def games_of(block: Block) -> RangeGames:
    ids = game_ids(block.pairing, block.first_pair, block.pairs, block.swapped)
    return RangeGames(ids, np.full(len(ids), block.opening, np.int8), block.games)


@pytest.mark.parametrize("pairs", [0, 1, 7, 600])  # more games than are packed at a time
def test_it_is_that_of_its_slow_twin(pairs: int) -> None:
    for block in (random_block(1, 2, 5, pairs), single_games(3, 1, 9, pairs), random_block(4, 0, 0, pairs, forfeits=1)):
        assert games_of(block).fingerprint == slow_fingerprint(block)


def test_it_adds_up_in_any_order_and_over_any_parts() -> None:
    block, dice = random_block(7, 1, 40, 30), random.Random(3)
    games, line = games_of(block), UnitLine(3, 2)
    for _ in range(10):
        ends = sorted({120, 213, *(dice.randrange(120, 214) for _ in range(5))})
        parts = [games.within(line, first, end) for first, end in itertools.pairwise(ends)]
        assert sum(len(part.game_id) for part in parts) == 60
        assert sum(part.fingerprint for part in parts) & WORD == games.fingerprint
    order = np.array(dice.sample(range(60), 60))
    assert games.taken(order).part(slice(None)).fingerprint == games.fingerprint


@pytest.mark.parametrize("row", range(5))
def test_every_change_of_a_game_changes_it_and_rubbish_beyond_its_end_does_not(row: int) -> None:
    games = games_of(random_block(2, 0, 0, 3))
    known, plies = games.fingerprint, int(games.games.plies[row])
    for matrix in (games.games.pieces, games.games.cells):
        for ply in range(16):
            matrix[ply, row] ^= 1
            assert (games.fingerprint != known) == (ply < plies)
            matrix[ply, row] ^= 1
    for column in (games.games.plies, games.games.winner, games.games.ending, games.opening, games.game_id):
        column[row] += 1
        assert games.fingerprint != known
        column[row] -= 1
    assert games.fingerprint == known
