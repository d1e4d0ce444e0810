"""`qarena bench --policies`: how fast each kind of policy is derived, and how fast its player plays.

Processor time of one process is measured, not the clock, so that figures of a busy machine mean something: on a free
one a derivation on two threads takes between half of it and all of it.
"""

from __future__ import annotations

import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from agents.learning.policy import Policy
from analytics import open_archive
from analytics.policies.derived.dataset import Learned
from analytics.query.selection import Selection, select
from quarto.rules import CLASSIC
from runners.arena.agent_labels import load_agent
from runners.arena.agent_policies import player_of
from runners.arena.config_groups import names, settings_of
from runners.arena.engine import Engine, Order
from runners.arena.spec import RunSpec
from runners.bench.warm import play
from runners.executors.machine import available_cores
from runners.training.kinds import derivation_of, learned_from, source_of
from runners.training.schemas import GROUP

Figures = dict[str, Any]

GAMES, QUICK_GAMES = 100_000, 1_000  # of semi_random against itself, with two imposed plies
PLAYED, QUICK_PLAYED = 2_000, 20  # of the player against itself
OPENING = 2
WARMING = 200  # games that each kind is derived from before it is measured
OUTCOMES = "line_values_outcomes"  # the kind that learns from how games ended, besides those of `conf/kind`
SETTINGS: dict[str, Figures] = {OUTCOMES: {"method": "outcomes"}}
QUICK = {"boards": 500, "exact_from": 12}  # where a kind has these parameters

TARGETS: dict[
    str, Figures
] = {  # two cores free: so many positions a second of processor time are three million by the clock
    OUTCOMES: {"target_positions_per_second": 1_500_000},
    "line_values": {"target_seconds": 120.0, "target_turns_per_second": 80_000},
}
# Of the programs that the kinds were tried out with, on a free machine with two cores: seconds by the clock.
PROTOTYPES: dict[str, Figures] = {
    OUTCOMES: {"prototype_positions_per_second_of_two_cores": 4_000_000, "prototype_seconds_for_10_000_000_games": 18},
    "line_values": {"prototype_seconds_of_two_cores_for_300_000_games": 11, "prototype_turns_per_second": 88_000},
    "line_network": {"prototype_seconds_of_two_cores_for_400_000_games": 64},
}


def policy_speeds(quick: bool = False) -> Figures:
    """Seconds and games a second of each kind's derivation, and turns a second of its player on one thread."""
    games = QUICK_GAMES if quick else GAMES
    kinds = {kind: (kind, dict(settings_of(GROUP, kind))) for kind in names(GROUP)}
    kinds |= {name: ("line_values", dict(settings_of(GROUP, "line_values")) | more) for name, more in SETTINGS.items()}
    figures: Figures = {"threads": available_cores(), "games": games}
    with TemporaryDirectory(prefix="quarto-arena-bench-") as folder:
        agents = (load_agent("semi_random"), load_agent("semi_random"))
        play(RunSpec(CLASSIC, agents, ((0, 1),), 1, OPENING), Path(folder) / "archive", games, available_cores())
        with open_archive(Path(folder) / "archive") as opened:
            selection, few = select(opened), select(opened, f"game_id < {WARMING}")
            for name, (kind, settings) in kinds.items():
                own = settings | ({key: QUICK[key] for key in QUICK if key in settings} if quick else {})
                derivation = derivation_of(kind, own)
                learned_from(derivation, source_of(derivation, few), 1)  # compiling is not measured
                figures[name] = _of_kind(kind, own, selection, QUICK_PLAYED if quick else PLAYED)
                figures[name] |= TARGETS.get(name, {}) | PROTOTYPES.get(name, {})
    return figures


def _of_kind(kind: str, settings: Figures, selection: Selection, played: int) -> Figures:
    """The figures of one kind, whose kernels are compiled."""
    derivation = derivation_of(kind, settings)
    started = time.process_time()
    learned: Learned = learned_from(derivation, source_of(derivation, selection), available_cores())
    seconds = time.process_time() - started
    figures: Figures = {"seconds": seconds, "games_per_second": selection.games / seconds}
    if learned.curve is not None:
        figures["positions_per_second"] = int(learned.curve["boards"].sum()) / seconds
    return figures | {"turns_per_second": turns_per_second(learned.policy, played)}


def turns_per_second(policy: Policy, games: int) -> float:
    """Turns a second of processor time, on one thread, of the player that plays by a policy, against itself."""
    player = player_of(policy)
    engine = Engine(CLASSIC, [player, player], ["a", "b"], [(0, 1)], 1, 1, OPENING)
    engine.play_block(Order(0, 0, 1))  # what is made once is not measured
    started = time.process_time()
    found = engine.play_block(Order(0, 1, games // 2)).block.games
    seconds = time.process_time() - started
    return int((found.plies.astype(int) - OPENING + 1).sum()) / seconds  # a gift, then a turn for each ply
