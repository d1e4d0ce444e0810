"""An archive that is awkward to count: three rules, trainings, people, forfeits, imposed openings, one game, damage."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import polars as pl

from analytics.store import policy_store
from analytics.store.archive import ArchiveStore
from quarto.batch import FULL_BOARD, LINE
from quarto.rules import CLASSIC, Rules
from tests.analytics.indexed import decide, index, write_draw_evaluations
from tests.analytics.naive_games import Game, Pairings, build_spec, pack_games, random_game, record, store
from tests.analytics.stored_policies import GENES, LEARNED, origin
from tests.naive import PRESETS

ALPHA, BETA, GAMMA = "alpha", "beta(depth=2)", "gamma"  # play each other by all rules
STAR, RARE, LEARNER, PERSON = "star", "rare", "learner", "human:ada"  # won everything; one game; in trainings; a person
QUITTER = "quitter"  # forfeited every game
CURVE = pl.DataFrame({"first_game": [0, 10], "games": [10, 10], "wins": [2, 5], "win_rate": [0.2, 0.5]})
RULES = ("classic", "own_piece", "square")
SECONDS, THOUGHT = 2.0, 400.0  # that the league took, and a game with a person


def write_awkward_archive(root: Path) -> ArchiveStore:
    """Write the archive; the league under classic rules is indexed, annotated, and has evaluations."""
    archive = ArchiveStore.open(root, create=True)
    league = [(ALPHA, BETA), (ALPHA, GAMMA), (BETA, GAMMA)]
    run_id = _write_run(archive, league, 60, forfeits=0.1, seconds=SECONDS)
    index(archive)
    decide(archive, run_id)
    write_draw_evaluations(archive, run_id)
    _write_run(archive, [(ALPHA, BETA)], 40, opening_plies=2)  # neither indexed nor annotated, like all that follow
    _write_run(archive, [(STAR, GAMMA)], 110, winner=STAR)
    _write_run(archive, [(RARE, BETA)], 1, seats="fixed")
    _write_run(archive, [(QUITTER, ALPHA)], 6, forfeits=1.0, winner=ALPHA)
    # The person loses from seat 0, and wins from seat 1: in a record the agent of seat 0 is the first.
    _write_run(archive, [(PERSON, ALPHA)], 3, seats="fixed", seconds=THOUGHT, winner=ALPHA)
    _write_run(archive, [(ALPHA, PERSON)], 4, seats="fixed", seconds=THOUGHT, winner=PERSON)
    for seed in (1, 2):
        run_id = _write_run(archive, [(LEARNER, ALPHA)], 20, training=True, seed=seed)
        learned = {**LEARNED, "run_ids": [run_id]}
        policy_store.save(archive, GENES, origin(f"genes{seed}", learned=learned, tables={"curve": CURVE}))
    for rules in RULES[1:]:
        _write_run(archive, league[:2], 26, rules=PRESETS[rules])
    return archive


def damage_a_run(archive: ArchiveStore) -> Path:
    """Cut the file of the games of one run short, and return its path."""
    (run,) = (run for run in archive.load_runs() if RARE in run.labels)
    (path,) = (Path(archive.root) / "games" / f"run={run.run_id}").iterdir()
    path.write_bytes(path.read_bytes()[:-20])
    return path


def _write_run(
    archive: ArchiveStore,
    pairings: Pairings,
    games: int,
    *,
    rules: Rules = CLASSIC,
    seats: str = "swapped",
    forfeits: float = 0.0,
    winner: str = "",
    opening_plies: int = 0,
    seed: int = 7,
    **fields: Any,
) -> str:
    """Write a run with so many games a pairing, which ``winner`` wins if it is named, and return its id."""
    spec = build_spec(rules, pairings, seats=seats, opening_plies=opening_plies, seed=seed)
    run = record(spec, status="complete", games=games, **fields)
    archive.write_run_and_unit_count(run)
    blocks = []
    for pairing, agents in enumerate(pairings):
        dice = random.Random(f"{agents} {games} {rules.name} {seed}")
        games_played = [_play_game(dice, rules, forfeits, _find_seat(agents, winner, i, seats)) for i in range(games)]
        blocks.append(pack_games(games_played, pairing, opening=opening_plies, swapped=seats == "swapped"))
    store(archive, run.run_id, blocks, pairings)
    return run.run_id


def _find_seat(agents: tuple[str, str], agent: str, game: int, seats: str) -> int | None:
    """Return the seat of an agent in a game with a number; None for an agent that is not named."""
    if not agent:
        return None
    swapped = game % 2 if seats == "swapped" else 0
    return agents.index(agent) ^ swapped


def _play_game(dice: random.Random, rules: Rules, forfeits: float, winner: int | None) -> Game:
    while True:
        game = random_game(dice, rules, forfeits)
        complete = game["ending"] in (LINE, FULL_BOARD)
        if winner in (None, game["winner"]) and len(game["plies"]) > 2 and not (complete and forfeits == 1):
            return game
