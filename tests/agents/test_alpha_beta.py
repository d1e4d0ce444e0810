"""alpha_beta plays the first best turn of a minimax without pruning or memory."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from agents.alpha_beta import AT_LEAST, AT_MOST, EXACT, MEMORY_DEPTH, UNBOUNDED, WHOLE, AlphaBeta
from agents.base import KernelAgent
from agents.lift import KernelPlayer, lift
from agents.minimax import Minimax
from quarto.batch import Batch
from quarto.position import ALL_CELLS, Position, board
from quarto.rng import Streams
from quarto.rules import CLASSIC, NONE
from tests.naive import View
from tests.naive_players import alpha_beta as naive_alpha_beta
from tests.naive_players import minimax as naive_minimax
from tests.naive_players.agreement import endgames


def sooner(view: View, depth: int) -> int:
    return naive_alpha_beta.AlphaBeta().best(view, depth)[0]


def shares(view: View, depth: int) -> float:
    percent = naive_minimax.Minimax().best(view, depth, True)[0]
    return WHOLE * (2 * percent - 100) / 100


@pytest.mark.parametrize(("agent", "value_of"), [(AlphaBeta(5), sooner), (Minimax(5), shares)])
def test_what_the_memory_holds_is_true(agent: KernelAgent, value_of: Callable[[View, int], float]) -> None:
    """Each entry, read as the search would, against minimax without a memory."""
    player, positions = lift(agent, CLASSIC, "agent"), endgames(CLASSIC, 6, 300)
    assert isinstance(player, KernelPlayer)
    player.play(Batch.of(positions), Streams(np.zeros(len(positions), np.uint64)))
    scratch = player._arrays["scratch"].reshape(-1, 2)
    held = [(int(lanes), int(entry)) for lanes, entry in scratch if int(entry & ALL_CELLS).bit_count() >= 11]
    bounds = []
    for lanes, entry in held[:: len(held) // 60]:
        occupied, hand, depth, bound = entry & ALL_CELLS, entry >> 16 & 15, entry >> 20 & 31, entry >> 25 & 3
        pieces = board(Position(lanes, occupied, 0, hand, NONE))
        unused = [piece for piece in range(16) if piece not in (*pieces, hand)]
        value, truth = (entry >> 27) - UNBOUNDED, value_of(View(pieces, unused, hand, NONE, CLASSIC), depth)
        assert depth >= MEMORY_DEPTH
        assert {EXACT: truth == value, AT_LEAST: truth >= value, AT_MOST: truth <= value}[bound], (pieces, hand)
        bounds.append(bound)
    assert {EXACT, AT_LEAST, AT_MOST} == set(bounds)
