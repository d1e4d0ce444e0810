"""The archives of `qarena bench --growth`: many runs, files or policies, made in this process and not measured."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

from analytics.store import policy_store
from analytics.store.archive import ArchiveStore
from analytics.store.policy_store import PolicyOrigin
from runners.arena.experiment import open_experiment, record_contribution
from runners.arena.play_task import ChunkPlayer
from runners.arena.request import RunRequest
from runners.arena.spec import RunSpec
from runners.arena.storage import ArchiveOptions
from runners.bench.timing import measure_process
from runners.bench.warm_up import play_games
from runners.config.agents import load_agent
from runners.config.yaml_options import load_rules

GAMES_PER_RUN = 20
UNITS_PER_FILE = 8  # of two games each
POLICY_GAMES = 100  # from which the policy is derived that is stored under many names


def build_match_spec(seed: int = 0) -> RunSpec:
    """Build the spec of a match between two cheap agents."""
    return RunSpec(load_rules("classic"), (load_agent("rule_based"), load_agent("random")), ((0, 1),), seed, 0)


def write_runs(root: Path, count: int) -> None:
    """Write an archive of ``count`` runs, each with one small file."""
    for seed in range(count):
        play_games(build_match_spec(seed), root, GAMES_PER_RUN)


def write_files(root: Path, count: int) -> None:
    """Write an archive with one run that has ``count`` small files of games.

    The files are written by one call after the other, because a whole request would join them at its end.
    """
    units = UNITS_PER_FILE * count
    storage = ArchiveOptions(root, shard_games=2 * UNITS_PER_FILE)
    experiment = open_experiment(RunRequest(build_match_spec(), 2 * units, 1, storage, progress=False))
    player, stop = ChunkPlayer(experiment), threading.Event()
    with record_contribution(experiment, "qarena bench --growth files") as contribution:
        for first in range(0, units, UNITS_PER_FILE):
            player.play((first, first + UNITS_PER_FILE), stop)
        contribution.games = 2 * units


def write_policies(root: Path, count: int) -> None:
    """Write an archive with one run and ``count`` policies, which hold the same table under different names."""
    play_games(build_match_spec(), root, POLICY_GAMES)
    name = "policy"
    measure_process(["policy", "build", "kind=gift", f"name={name}", "--archive", str(root)], root.parent)
    archive = ArchiveStore.open(root)
    card, policy = policy_store.read(archive, name)
    origin = PolicyOrigin(name, load_rules("classic"), card.code, card.learned)
    for number in range(1, count):
        policy_store.save(archive, policy, replace(origin, name=f"{name}{number}"))
