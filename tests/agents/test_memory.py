"""A jitted player's memory of a game holds this game alone, whatever the order in which its turns are asked for."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from agents.base.agent import Agent, KernelAgent, Knowledge, encode_turn, memory, params, turn
from agents.base.player import BatchPlayer, KernelPlayer, build_player
from agents.random import Random
from quarto.batch import Batch
from quarto.bits import nth_bit, popcount
from quarto.jit import int64, uint64
from quarto.position import ALL_CELLS, EMPTY, PackedPosition
from quarto.rng import Streams, mix
from quarto.rules import CLASSIC, Rules
from quarto.views import BatchView
from runners.arena import batch_engine
from runners.arena.batch_engine import BatchEngine, PairRange
from tests import naive
from tests.marks import seldom
from tests.naive import NONE, PRESETS, Outcome, View, empty_cells
from tests.naive_players.agreement import outcomes
from tests.positions import build_view

SEED, RUN = 41, 42
WORDS = 3  # the first and the last are used


@turn
def diarist_turn(position: PackedPosition, seed: int, rules: Any, agent: Any) -> int:
    diary = memory(agent)
    diary[0] += uint64(1)
    diary[2] = mix(diary[2] ^ seed ^ (uint64(position.occupied) << uint64(8)) ^ diary[0])
    if params(agent)[0] != 0.0 and diary[2] % uint64(9) == uint64(0):
        raise ValueError("sabotage")
    empty = ~position.occupied & ALL_CELLS
    cell = nth_bit(empty, int64(diary[2] % uint64(popcount(empty))))
    if position.available == 0:
        return encode_turn(cell, NONE)
    return encode_turn(cell, nth_bit(position.available, int64(diary[2] % uint64(popcount(position.available)))))


class Diarist(KernelAgent):
    """Each turn depends on all earlier ones of the game; ``fragile``, it raises now and then."""

    kernel = diarist_turn
    choosers = ("opponent", "mover")

    def __init__(self, fragile: bool = False) -> None:
        self.fragile = fragile

    def knowledge(self, rules: Rules) -> Knowledge:
        return Knowledge(params=np.array([float(self.fragile)]), game_words=WORDS)


class NaiveDiarist:
    """The same, for one game."""

    def __init__(self, fragile: bool = False) -> None:
        self.fragile = fragile
        self.turns = self.word = 0

    def turn(self, view: View, seed: int) -> tuple[int, int]:
        self.turns += 1
        occupied = sum(1 << cell for cell in range(16) if view.board[cell] != NONE)
        self.word = naive.mix(self.word ^ seed ^ (occupied << 8) ^ self.turns)
        if self.fragile and self.word % 9 == 0:
            raise ValueError("sabotage")
        cells, gifts = empty_cells(view.board), view.available
        return cells[self.word % len(cells)], gifts[self.word % len(gifts)] if gifts else NONE


class InPython:
    """A jitted player behind the interface for batches."""

    def __init__(self, agent: Agent) -> None:
        self.agent = agent

    @cached_property
    def player(self) -> BatchPlayer:
        return build_player(self.agent, CLASSIC, "inner")

    def play(self, batch: BatchView, rng: Streams) -> tuple[NDArray[np.int8], NDArray[np.int8]]:
        turns = self.player.play(batch.packed, rng)
        return turns.cells, turns.gifts


def play_expected_games(
    arena: BatchEngine, fragile: bool, keys: Iterator[tuple[int, int, int]]
) -> dict[tuple[int, int, int], Outcome]:
    """Return the same games of a diarist, first, against himself or against random, second."""
    games = {}
    for pairing, pair, game in keys:
        first, second = arena.pairings[pairing]
        players: tuple[naive.Player, naive.Player] = (
            NaiveDiarist(fragile),
            NaiveDiarist(fragile) if second == first else naive.Random(),
        )
        games[pairing, pair, game] = naive.play_game(
            arena.rules, players, RUN, pair, game, seed=SEED, pairing=pairing, opening_plies=arena.opening_plies
        )
    return games


def diarists(
    rules: Rules = CLASSIC, opponent: Agent | None = None, *, fragile: bool = False, **settings: Any
) -> BatchEngine:
    """Build an engine in which a diarist meets himself, and an opponent."""
    agents = [Diarist(fragile), opponent or Random()]
    return BatchEngine(rules, agents, ["diarist", "opponent"], [(0, 0), (0, 1)], SEED, RUN, **settings)


ORDERS = [PairRange(0, 100, 30), PairRange(1, 200, 30)]


@pytest.mark.parametrize("rules", [CLASSIC, PRESETS["own_piece"]], ids=lambda rules: rules.name)
@pytest.mark.parametrize("settings", [{}, {"opening_plies": 3}, {"swapped": False}], ids=str)
@pytest.mark.parametrize("opponent", [Random(), InPython(Random())], ids=["jitted", "python"])
def test_games_are_remembered_apart(rules: Rules, settings: dict[str, Any], opponent: Agent) -> None:
    arena = diarists(rules, opponent, **settings)
    games = outcomes(arena, ORDERS)
    assert games == play_expected_games(arena, False, iter(games))
    assert max(outcome.plies for outcome in games.values()) > 12


@pytest.mark.parametrize("fragile", [*seldom(False), True])
def test_neither_blocks_nor_threads_nor_memory_change_a_game(fragile: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    games = outcomes(diarists(fragile=fragile), ORDERS)
    pieces = [PairRange(pairing, first + i, 1 + i % 2) for pairing, first, _ in ORDERS for i in range(0, 30, 3)]
    pieces += [
        PairRange(pairing, first + i + 1 + i % 2, 2 - i % 2) for pairing, first, _ in ORDERS for i in range(0, 30, 3)
    ]
    assert outcomes(diarists(fragile=fragile), pieces, threads=2) == games
    started_slots: list[range] = []
    start = KernelPlayer.start

    def record_start(player: KernelPlayer, slots: range) -> None:
        started_slots.append(slots)
        start(player, slots)

    monkeypatch.setattr(KernelPlayer, "start", record_start)
    monkeypatch.setattr(batch_engine, "GAME_MEMORY_BYTES", 8 * WORDS * 14)
    assert outcomes(diarists(fragile=fragile), ORDERS) == games
    assert {len(slots) for slots in started_slots} == {7, 2, 14}  # of 30 pairs, where both remember and where one does


@pytest.mark.parametrize("opponent", [*seldom(Random()), InPython(Random())], ids=["jitted", "python"])
def test_a_turn_that_raises_leaves_no_trace_in_other_games(opponent: Agent, caplog: pytest.LogCaptureFixture) -> None:
    arena = diarists(opponent=opponent, fragile=True)
    games = outcomes(arena, ORDERS)
    assert games == play_expected_games(arena, True, iter(games))
    endings = [outcome.ending for outcome in games.values()]
    assert endings.count("forfeit_error") > 10
    assert endings.count("line") > 10
    assert "sabotage" in caplog.text


def test_a_game_played_from_python_is_remembered_in_its_slot() -> None:
    player = build_player(Diarist(), CLASSIC, "diarist")
    batch, rng = Batch.from_positions([EMPTY, EMPTY]), Streams(np.array([5, 6], np.uint64))
    player.start(range(4))
    turns = [player.play(batch, rng, np.array(slots, np.uint32)) for slots in ([2, 3], [0, 2], [3, 1])]
    words = {slot: NaiveDiarist() for slot in range(4)}
    for answer, of_turn in zip(turns, ([2, 3], [0, 2], [3, 1]), strict=True):
        for i, slot in enumerate(of_turn):
            expected_turn = words[slot].turn(build_view(EMPTY, CLASSIC), 5 + i)
            assert (answer.cells[i], answer.gifts[i]) == expected_turn
    fresh = [NaiveDiarist().turn(build_view(EMPTY, CLASSIC), seed) for seed in (5, 6)]
    for again in (player.play(batch, rng), player.play(batch, rng)):
        assert list(zip(again.cells.tolist(), again.gifts.tolist(), strict=True)) == fresh

    slots = np.array([1, 5], np.uint32)  # a game that begins anew in its slot remembers nothing
    player.start(range(1, 7, 2))
    player.play(batch, rng, slots)
    player.restart(np.array([5]))
    answer = player.play(batch, rng, slots)
    goes_on, anew = NaiveDiarist(), NaiveDiarist()
    goes_on.turn(build_view(EMPTY, CLASSIC), 5)
    assert (answer.cells[0], answer.gifts[0]) == goes_on.turn(build_view(EMPTY, CLASSIC), 5)
    assert (answer.cells[1], answer.gifts[1]) == anew.turn(build_view(EMPTY, CLASSIC), 6)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda player: pickle.loads(pickle.dumps(player))])  # noqa: S301
def test_a_copied_player_goes_on_with_its_games(copied: Callable[[BatchPlayer], BatchPlayer]) -> None:
    player, slots = build_player(Diarist(), CLASSIC, "diarist"), np.array([2, 5], np.uint32)
    batch, rng = Batch.from_positions([EMPTY, EMPTY]), Streams(np.array([5, 6], np.uint64))
    player.start(range(2, 8, 3))
    player.play(batch, rng, slots)
    first, second = copied(player), copied(copied(player))
    for _ in range(2):
        expected_turns = [part.tolist() for part in player.play(batch, rng, slots)]
        for other in (first, second):
            assert [part.tolist() for part in other.play(batch, rng, slots)] == expected_turns
