"""Turns a second of players that search, on one thread and with the empty board, where a search is longest."""

from __future__ import annotations

from typing import Any

import numpy as np

from agents.lift import lift
from quarto.batch import Batch
from quarto.position import ALL_PIECES, Position
from quarto.rng import Streams
from quarto.rules import CLASSIC, NONE, PIECES
from runners.arena.config import agent_named
from runners.speed.stopwatch import NANOSECONDS, turn_nanoseconds
from runners.speed.timing import Yardstick

ITERATIONS = 200
PLAYERS = {
    "mcts": f"mcts(iterations={ITERATIONS})",
    "genetic_minimax": "genetic_minimax(population=70,offspring=40,generations=10)",
}
TURNS = {"mcts": 8000, "genetic_minimax": 800}  # that are timed in a round
TARGET_TURNS = {"mcts": 300, "genetic_minimax": 50}
TARGET_ROLLOUTS = 1_500_000
YARDSTICK_GAMES = 1_000_000


def searches(plain_c: Yardstick | None, rounds: int, quick: bool) -> dict[str, Any]:
    """Turns a second of one thread with the empty board and a piece in hand; the best of ``rounds`` rounds.

    An iteration of ``mcts`` plays one game to its end, so its rollouts are compared with games of plain C, on one
    thread in the same rounds.
    """
    best: dict[str, float] = {}
    for _ in range(rounds):
        for name, turns in TURNS.items():
            best[name] = max(best.get(name, 0.0), _turns_a_second(PLAYERS[name], turns // 10 if quick else turns))
        if plain_c:
            best["plain C"] = max(best.get("plain C", 0.0), YARDSTICK_GAMES / plain_c(YARDSTICK_GAMES, 1))
    figures: dict[str, Any] = {
        name: {"player": label, "turns_per_second": best[name], "target_turns_per_second": TARGET_TURNS[name]}
        for name, label in PLAYERS.items()
    }
    rollouts = ITERATIONS * best["mcts"]
    figures["mcts"] |= {"rollouts_per_second": rollouts, "target_rollouts_per_second": TARGET_ROLLOUTS}
    if plain_c:
        figures["mcts"] |= {
            "yardstick_games_per_second": best["plain C"],
            "ratio_of_rollouts_to_yardstick": rollouts / best["plain C"],
        }
    return figures


def _turns_a_second(label: str, turns: int) -> float:
    """The mean over ``turns`` turns; the piece in hand is each piece in turn."""
    hands = [number % PIECES for number in range(turns)]
    batch = Batch.of([Position(0, 0, ALL_PIECES & ~(1 << hand), hand, NONE) for hand in hands])
    player = lift(agent_named(label).build(), CLASSIC, label)
    rng = Streams(Streams(np.arange(turns, dtype=np.uint64)).draw(0))
    return NANOSECONDS / float(turn_nanoseconds(player, batch, rng).mean())
