"""An archive whose agents are hard to rank: many, some that won everything or hardly played, a person, a training."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from analytics.store.archive import ArchiveStore
from quarto.rules import CLASSIC, Rules
from tests.analytics.naive_games import Game, Pairings, build_spec, pack_games, random_game, record, store
from tests.naive import PRESETS

LEAGUE = [f"agent{number:02}" for number in range(14)]  # more than a report shows; each has rank 1 to 14
STAR, RARE, PERSON = "star", "rare", "human:ada"  # won everything; one game; a person
PARTNER = "partner"  # played the person often, and agents seldom
SECONDS, THOUGHT = 2.0, 400.0  # that the runs of agents took together, and a person's
Decide = Callable[[int], int | None]  # the winning seat of the game with a number; None: as it comes


def write_uneven_archive(root: Path) -> ArchiveStore:
    """Write the archive: a league in a ring under two rules, what is hard about it, and a training."""
    archive = ArchiveStore.open(root, create=True)
    ring = [*zip(LEAGUE, [*LEAGUE[1:], LEAGUE[0]], strict=True)]
    _write_run(archive, ring, 52, seconds=SECONDS)
    _write_run(archive, [(STAR, LEAGUE[0])], 110, lambda game: game % 2)
    _write_run(archive, [(RARE, LEAGUE[1])], 1, seats="fixed")
    # The person holds seat 0 and wins most games.
    _write_run(archive, [(PERSON, LEAGUE[2])], 120, lambda game: int(game % 9 == 0), seats="fixed", seconds=THOUGHT)
    _write_run(archive, [(PERSON, PARTNER)], 120, seats="fixed")
    _write_run(archive, [(PARTNER, LEAGUE[1])], 20)
    _write_run(archive, [(LEAGUE[3], LEAGUE[4])], 200, lambda game: 1 - game % 2, training=True)
    pairings = [(LEAGUE[13], LEAGUE[0]), (LEAGUE[0], LEAGUE[5]), (LEAGUE[5], LEAGUE[13])]
    _write_run(archive, pairings, 150, rules=PRESETS["square"])
    return archive


def _write_run(
    archive: ArchiveStore,
    pairings: Pairings,
    games: int,
    decide: Decide = lambda _: None,
    rules: Rules = CLASSIC,
    seats: str = "swapped",
    **fields: Any,
) -> None:
    """Write a run with so many games a pairing. An agent of the league wins the more often, the lower its number."""
    run = record(build_spec(rules, pairings, seats=seats), status="complete", games=games, **fields)
    archive.write_run_and_unit_count(run)
    blocks = []
    for pairing, both in enumerate(pairings):
        dice = random.Random(f"{both} {games}")
        played = [
            _play_game(dice, rules, _choose_winner(dice, both, number, seats), decide(number))
            for number in range(games)
        ]
        blocks.append(pack_games(played, pairing, swapped=seats == "swapped"))
    store(archive, run.run_id, blocks, pairings)


def _choose_winner(dice: random.Random, agents: Sequence[str], number: int, seats: str) -> int | None:
    """Return the winning seat between two agents of the league: the stronger one's in two of three games."""
    if not set(agents) <= set(LEAGUE):
        return None
    first_seat = number % 2 if seats == "swapped" else 0
    stronger = first_seat if agents[0] < agents[1] else 1 - first_seat
    return stronger if dice.random() < 2 / 3 else 1 - stronger


def _play_game(dice: random.Random, rules: Rules, *winners: int | None) -> Game:
    """Return a random game that is won by the last of ``winners`` that is a seat."""
    winner = next((seat for seat in reversed(winners) if seat is not None), None)
    game = random_game(dice, rules, 0.0)
    while winner not in (None, game["winner"]):
        game = random_game(dice, rules, 0.0)
    return game
