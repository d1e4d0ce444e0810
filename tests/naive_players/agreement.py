"""Comparing jitted players and learners with their slow twins: their turns, games and policies."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import deepcopy
from functools import cache
from typing import Protocol

import numpy as np
import pytest

from agents.base.agent import Agent, KernelAgent
from agents.base.player import KernelPlayer, build_player
from agents.learning.learner import FinishedGame, Learner
from agents.learning.policy import Policy
from agents.random import Random
from agents.semi_random import SemiRandom
from quarto.batch import ENDINGS, Batch, Games
from quarto.position import PackedPosition, position_from_plies
from quarto.rng import Streams
from quarto.rules import Rules
from runners.arena.batch_engine import BatchEngine, PairRange
from tests import naive
from tests.naive import NONE, PRESETS, NaiveGame, Outcome, Player, View
from tests.naive_quarto import build_lanes, build_occupied
from tests.positions import build_view, list_positions

SEED, RUN = 23, 24
OPPONENT_CHOOSES = [rules for rules in PRESETS.values() if not rules.mover_chooses]
# Plain lines and all kinds of lines in `make test`; between them, nothing but tables differs.
OPPONENT_CHOOSES_QUICK = [
    pytest.param(rules, marks=() if rules.name in ("classic", "torus_square") else pytest.mark.slow)
    for rules in OPPONENT_CHOOSES
]


def list_late_positions(rules: Rules, games: int, most_empty: int) -> list[PackedPosition]:
    """Return the positions of ``list_positions`` with at most so many empty cells."""
    return [position for position in list_positions(rules, games) if 16 - position.occupied.bit_count() <= most_empty]


@cache
def careful_games(rules: Rules) -> Games:
    engine = BatchEngine(rules, [SemiRandom(), SemiRandom()], ["a", "b"], [(0, 1)], SEED, RUN)
    return engine.play_block(PairRange(0, 0, 4096)).games


@cache
def list_endgames(rules: Rules, most_empty: int, count: int) -> list[PackedPosition]:
    """Return positions of careful players' games with at most this many empty cells, so that a slow search ends.

    Half of them wait for a gift alone, half for a turn. Where the mover chooses, hands are always empty.
    """
    games, positions = careful_games(rules), list[PackedPosition]()
    for slot in range(len(games.plies)):
        plies = list(zip(games.pieces[:, slot].tolist(), games.cells[:, slot].tolist(), strict=True))
        for ply in range(16 - most_empty, int(games.plies[slot])):
            hands = (NONE,) if rules.mover_chooses else (NONE, plies[ply][0])
            positions += [position_from_plies(plies[:ply], hand) for hand in hands]
        if len(positions) >= count:
            return positions[:count]
    raise AssertionError(f"under rules {rules.name} only {len(positions)} such positions were reached")


def assert_same_turns(agent: Agent, twin: naive.Player, rules: Rules, positions: Iterable[PackedPosition]) -> int:
    """Check that a player answers each position as its twin does, both new to the game; return how many there were."""
    asked_about = list(positions)
    seeds = [naive.mix(i) for i in range(len(asked_about))]
    player = build_player(agent, rules, "agent")
    turns = player.play(Batch.from_positions(asked_about), Streams(np.array(seeds, np.uint64)))
    for i, position in enumerate(asked_about):
        new = deepcopy(twin) if player.game_words else twin  # one that remembers nothing is always new to the game
        cell, gift = new.turn(build_view(position, rules), seeds[i])
        assert turns.gifts[i] == gift, position
        assert turns.cells[i] == cell or (position.hand == NONE and not rules.mover_chooses), position
    return len(asked_about)


def outcomes(engine: BatchEngine, orders: Sequence[PairRange], threads: int = 1) -> dict[tuple[int, int, int], Outcome]:
    """Return the games of some orders, each once, by pairing, pair and game."""
    found: dict[tuple[int, int, int], Outcome] = {}
    for block in engine.play_in_any_order(orders, threads):
        for i, plies in enumerate(block.games.plies.tolist()):
            key = block.pairing, block.first_pair + i // block.games_per_pair, i % block.games_per_pair
            assert key not in found
            pieces, cells = block.games.pieces[:plies, i].tolist(), block.games.cells[:plies, i].tolist()
            found[key] = Outcome(pieces, cells, int(block.games.winner[i]), ENDINGS[block.games.ending[i]])
    return found


Players = tuple[KernelAgent, naive.Player]  # the same one, jitted and slow


def assert_same_games(agent: KernelAgent, twin: naive.Player, rules: Rules, pairs: int, opening_plies: int = 0) -> None:
    """Check that whole games against random, from both seats, are the same by the engine and by the slow game."""
    assert_same_match((agent, twin), (Random(), naive.Random()), rules, pairs, opening_plies)


def assert_same_match(one: Players, other: Players, rules: Rules, pairs: int, opening_plies: int = 0) -> None:
    """Check the same of any two players. Each game has its own copies of the slow ones that remember it."""
    engine = BatchEngine(rules, [one[0], other[0]], ["one", "other"], [(0, 1)], SEED, RUN, opening_plies)
    remember = [agent.knowledge(rules).game_words > 0 for agent, _ in (one, other)]
    for (_, pair, game), outcome in outcomes(engine, [PairRange(0, 0, pairs)]).items():
        twins = (deepcopy(one[1]) if remember[0] else one[1], deepcopy(other[1]) if remember[1] else other[1])
        expected = naive.play_game(rules, twins, RUN, pair, game, seed=SEED, opening_plies=opening_plies)
        assert outcome == expected, (pair, game)


TRAINING_SEED = 29


class NaiveLearner(Player, Protocol):
    """A slow player that remembers what it did in a game until it learns how that ended."""

    def learn(self, result: str) -> None:
        """Learn from a ``result``: 'win', 'loss' or 'draw'."""
        ...


class Lifted:
    """A jitted player in a slow game."""

    def __init__(self, player: KernelPlayer) -> None:
        self.player = player

    def turn(self, view: View, seed: int) -> tuple[int, int]:
        available = sum(1 << piece for piece in view.available)
        lanes, occupied = build_lanes(view.board), build_occupied(view.board)
        batch = Batch.from_positions([PackedPosition(lanes, occupied, available, view.hand, view.last_cell)])
        turns = self.player.play(batch, Streams(np.array([seed], np.uint64)))
        return int(turns.cells[0]), int(turns.gifts[0])


def seat_of(game: int, seats: str) -> int:
    """Return the learner's seat in a game: ``seats`` is '0', '1' or 'both', in turns."""
    return game % 2 if seats == "both" else int(seats)


def stream_of(game: int) -> int:
    return naive.stream(TRAINING_SEED, game, 0)


def play(rules: Rules, learner: Player, opponent: Player, game: int, seats: str) -> Outcome:
    order = (learner, opponent) if seat_of(game, seats) == 0 else (opponent, learner)
    outcome = NaiveGame(rules, order, stream_of(game)).play([])
    assert outcome.ending in ("line", "full_board")
    return outcome


def log_game(outcome: Outcome, game: int, seats: str) -> FinishedGame:
    """Return the game as it would be read from the archive."""
    pieces, cells = np.full(16, 99, np.int8), np.full(16, 99, np.int8)
    pieces[: outcome.plies], cells[: outcome.plies] = outcome.pieces, outcome.cells
    seat, stream = seat_of(game, seats), np.uint64(stream_of(game))
    return FinishedGame(pieces, cells, outcome.plies, outcome.winner, seat, stream)  # type: ignore[arg-type]


def train(
    learner: Learner, opponent: KernelAgent, rules: Rules, games: int, seats: str = "both"
) -> tuple[Policy, list[Outcome]]:
    """Play the jitted learner's games, one after the other; return what it learned from them, and the games."""
    knowledge, played = learner.knowledge(rules), list[Outcome]()
    player = KernelPlayer(type(learner).kernel, knowledge, rules)
    other = build_player(opponent, rules, "opponent")
    assert isinstance(other, KernelPlayer)
    for game in range(games):
        played.append(play(rules, Lifted(player), Lifted(other), game, seats))
        if not type(learner).update(log_game(played[-1], game, seats), rules.tables, player.agent):
            knowledge = learner.enlarge(knowledge)
            player = KernelPlayer(type(learner).kernel, knowledge, rules)
    return learner.to_policy(knowledge), played


def relearn(learner: Learner, rules: Rules, played: list[Outcome], seats: str = "both") -> Policy:
    """Return what the learner learns from games that were played before."""
    knowledge = learner.knowledge(rules)
    for game, outcome in enumerate(played):
        player = KernelPlayer(type(learner).kernel, knowledge, rules)
        if not type(learner).update(log_game(outcome, game, seats), rules.tables, player.agent):
            knowledge = learner.enlarge(knowledge)
    return learner.to_policy(knowledge)


def list_last_positions(played: list[Outcome], count: int) -> list[PackedPosition]:
    """Return the last of the positions in which somebody was asked in these games."""
    positions = []
    for outcome in reversed(played):
        plies = list(zip(outcome.pieces, outcome.cells, strict=True))
        for ply, (piece, _) in enumerate(plies):
            positions += [position_from_plies(plies[:ply], hand) for hand in (naive.NONE, piece)]
        if len(positions) >= count:
            return positions[:count]
    raise AssertionError(f"only {len(positions)} positions were met")


def train_twin(learner: NaiveLearner, opponent: Player, rules: Rules, games: int, seats: str = "both") -> list[Outcome]:
    """Play the slow learner's games; it learns after each of them."""
    played = []
    for game in range(games):
        played.append(play(rules, learner, opponent, game, seats))
        winner = played[-1].winner
        learner.learn("draw" if winner == naive.NONE else "win" if winner == seat_of(game, seats) else "loss")
    return played


def same_bytes(one: Policy, other: Policy) -> bool:
    """Return whether two policies are equal, floats bit for bit."""
    columns = [(name, column.dtype.str, column.tobytes()) for name, column in one.table.items()]
    others = [(name, column.dtype.str, column.tobytes()) for name, column in other.table.items()]
    return (one.kind, dict(one.parameters), columns) == (other.kind, dict(other.parameters), others)
