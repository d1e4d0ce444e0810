"""Comparing a jitted learner with its slow twin: they play the same games and end with the same table."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from agents.base import KernelAgent
from agents.learning.learner import FinishedGame, Learner
from agents.learning.policy import Policy
from agents.lift import KernelPlayer, lift
from quarto.batch import Batch
from quarto.position import Position, from_plies
from quarto.rng import Streams
from quarto.rules import Rules
from tests import naive
from tests.naive import NaiveGame, Outcome, Player, View

TRAINING_SEED = 29


class NaiveLearner(Player, Protocol):
    """A slow player that remembers what it did in a game until it learns how that ended."""

    def learn(self, result: str) -> None:
        """``result`` is 'win', 'loss' or 'draw'."""
        ...


class Lifted:
    """A jitted player in a slow game."""

    def __init__(self, player: KernelPlayer) -> None:
        self.player = player

    def turn(self, view: View, seed: int) -> tuple[int, int]:
        occupied = sum(1 << cell for cell, piece in enumerate(view.board) if piece != naive.NONE)
        lanes = sum(
            (piece >> attribute & 1) << (16 * attribute + cell)
            for cell, piece in enumerate(view.board)
            if piece != naive.NONE
            for attribute in range(4)
        )
        available = sum(1 << piece for piece in view.available)
        batch = Batch.of([Position(lanes, occupied, available, view.hand, view.last_cell)])
        turns = self.player.play(batch, Streams(np.array([seed], np.uint64)))
        return int(turns.cells[0]), int(turns.gifts[0])


def seat_of(game: int, seats: str) -> int:
    """The learner's seat in a game: ``seats`` is '0', '1' or 'both', in turns."""
    return game % 2 if seats == "both" else int(seats)


def stream_of(game: int) -> int:
    return naive.stream(TRAINING_SEED, game, 0)


def play(rules: Rules, learner: Player, opponent: Player, game: int, seats: str) -> Outcome:
    order = (learner, opponent) if seat_of(game, seats) == 0 else (opponent, learner)
    outcome = NaiveGame(rules, order, stream_of(game)).play([])
    assert outcome.ending in ("line", "full_board")
    return outcome


def logged(outcome: Outcome, game: int, seats: str) -> FinishedGame:
    """The game as it would be read from the archive."""
    pieces, cells = np.full(16, 99, np.int8), np.full(16, 99, np.int8)
    pieces[: outcome.plies], cells[: outcome.plies] = outcome.pieces, outcome.cells
    seat, stream = seat_of(game, seats), np.uint64(stream_of(game))
    return FinishedGame(pieces, cells, outcome.plies, outcome.winner, seat, stream)  # type: ignore[arg-type]


def train(
    learner: Learner, opponent: KernelAgent, rules: Rules, games: int, seats: str = "both"
) -> tuple[Policy, list[Outcome]]:
    """The jitted learner's games, one after the other, and what it learned from them."""
    knowledge, played = learner.knowledge(rules), list[Outcome]()
    player = KernelPlayer(type(learner).kernel, knowledge, rules)
    other = lift(opponent, rules, "opponent")
    assert isinstance(other, KernelPlayer)
    for game in range(games):
        played.append(play(rules, Lifted(player), Lifted(other), game, seats))
        if not type(learner).update(logged(played[-1], game, seats), rules.tables, player.own):
            knowledge = learner.grown(knowledge)
            player = KernelPlayer(type(learner).kernel, knowledge, rules)
    return learner.policy(knowledge), played


def relearn(learner: Learner, rules: Rules, played: list[Outcome], seats: str = "both") -> Policy:
    """The learner after games that were played before."""
    knowledge = learner.knowledge(rules)
    for game, outcome in enumerate(played):
        player = KernelPlayer(type(learner).kernel, knowledge, rules)
        if not type(learner).update(logged(outcome, game, seats), rules.tables, player.own):
            knowledge = learner.grown(knowledge)
    return learner.policy(knowledge)


def met(played: list[Outcome], count: int) -> list[Position]:
    """The last of the positions in which somebody was asked in these games."""
    positions = []
    for outcome in reversed(played):
        plies = list(zip(outcome.pieces, outcome.cells, strict=True))
        for ply, (piece, _) in enumerate(plies):
            positions += [from_plies(plies[:ply], hand) for hand in (naive.NONE, piece)]
        if len(positions) >= count:
            return positions[:count]
    raise AssertionError(f"only {len(positions)} positions were met")


def train_twin(learner: NaiveLearner, opponent: Player, rules: Rules, games: int, seats: str = "both") -> list[Outcome]:
    """The slow learner's games, after each of which it learns."""
    played = []
    for game in range(games):
        played.append(play(rules, learner, opponent, game, seats))
        winner = played[-1].winner
        learner.learn("draw" if winner == naive.NONE else "win" if winner == seat_of(game, seats) else "loss")
    return played


def same_bytes(one: Policy, other: Policy) -> bool:
    """Whether two policies are equal, floats bit for bit."""
    columns = [(name, column.dtype.str, column.tobytes()) for name, column in one.table.items()]
    others = [(name, column.dtype.str, column.tobytes()) for name, column in other.table.items()]
    return (one.kind, dict(one.parameters), columns) == (other.kind, dict(other.parameters), others)
