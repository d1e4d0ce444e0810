"""Shared parts of the tests of trainings: settings, trainers as their yamls say, and the slow way to train."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hydra import compose, initialize_config_module

from agents.base.player import KernelPlayer, build_player
from agents.learning.learner import FinishedGame, Learner
from agents.learning.policy import Policy
from analytics.store.archive import ArchiveStore
from analytics.store.policy_cards import PolicyCard
from quarto.rules import CLASSIC, Rules
from runners.arena.spec import build_from_settings
from runners.arena.storage import ArchiveOptions
from runners.config.agents import load_agent
from runners.config.yaml_options import load_option
from runners.learning.training import policy_build
from runners.learning.training.online import Online
from runners.learning.training.request import (
    TrainingRequest,
    check_training_and_create_archive,
    save_policy,
    training_request_from_config,
)
from runners.learning.training.trainer import TrainingContext
from tests import naive
from tests.naive import NaiveGame, Outcome
from tests.naive_players.agreement import Lifted

LEARNERS = ("rl_encoded", "q_placement", "rl_tabular", "q_table")


def build_context(root: Path, name: str = "q_placement", **other: Any) -> TrainingContext:
    """Build a context in the archive at ``root``; ``other`` are fields of the context or of its storage."""
    storage = {key: other.pop(key) for key in ("shard_games", "shard_seconds", "other_code") if key in other}
    usual = TrainingContext(
        name=name,
        rules=CLASSIC,
        seed=5,
        threads=1,
        storage=ArchiveOptions(root, **storage),
        command="qarena train",
        stop=threading.Event(),
        progress=None,
    )
    return replace(usual, **other)


def build_online_trainer(name: str = "q_placement", **other: Any) -> Online:
    """Build the trainer of ``conf/trainer/NAME.yaml`` with other parameters."""
    settings = load_option("trainer", name)
    target = settings.pop("_target_")
    assert target == "runners.training.online.Online"
    return Online(**settings | other)


def build_request(*overrides: str) -> TrainingRequest:
    """Build the request of ``qarena train`` with these overrides."""
    with initialize_config_module("conf", version_base="1.3"):
        composed = compose("train", overrides=list(overrides), return_hydra_config=True)
        return training_request_from_config(composed, composed.hydra.runtime.choices, "qarena train")


@contextmanager
def without_pictures() -> Iterator[None]:
    """Draw no learning curves, because drawing takes longer than playing a few hundred games."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("analytics.report.style.render_curve_svg", lambda *_: b"<svg/>")
        yield


def train(root: Path, *overrides: str) -> PolicyCard:
    """Train by a request in the archive at ``root``, and store the policy without a picture."""
    request = build_request(*overrides)
    request = replace(
        request, context=replace(request.context, storage=replace(request.context.storage, root=root), progress=None)
    )
    check_training_and_create_archive(request)
    trained = request.trainer.train(request.context)
    assert trained.policy is not None
    with without_pictures():
        return save_policy(request, trained, trained.policy)


def build(root: Path, kind: str, where: str = "true", name: str = "mine", **settings: Any) -> PolicyCard:
    """Build the policy of ``qarena policy build kind=KIND`` from games in the archive at ``root``."""
    parameters = load_option("kind", kind) | settings
    request = policy_build.BuildRequest(kind, parameters, name, where, 1, root, "qarena policy build")
    return policy_build.build_policy(request, policy_build.check_and_select_build_games(request))


class StopAfter:
    """A progress that sets ``stop`` once this many games were played."""

    def __init__(self, games: int, stop: threading.Event) -> None:
        self._left = games
        self._stop = stop

    def start(self, games: int) -> None:
        """Do nothing."""

    def report_turns(self, turns: int) -> None:
        """Do nothing."""

    def advance(self, games: int) -> None:
        self._left -= games
        if self._left <= 0:
            self._stop.set()


def build_stopping_context(games: int, root: Path, **other: Any) -> TrainingContext:
    stop = threading.Event()
    return build_context(root, stop=stop, progress=StopAfter(games, stop), **other)


def train_slowly(trainer: Online, root: Path, rules: Rules = CLASSIC) -> tuple[Policy, list[Outcome]]:
    """Repeat the training whose games are in an archive by the plain rule book, one turn and one update at a time."""
    (run_id,) = ArchiveStore.open(root).list_ids_of_runs_with_games()
    learner: Learner = build_from_settings("learner", trainer.learner, Learner)
    knowledge = learner.knowledge(rules)
    opponent = build_player(load_agent(str(trainer.opponent)).build(), rules, "opponent")
    assert isinstance(opponent, KernelPlayer)
    player = KernelPlayer(type(learner).kernel, knowledge, rules)
    swapped, played = trainer.seats == "swapped", list[Outcome]()
    for number in range(trainer.games):
        pair, game = divmod(number, 2) if swapped else (number, 0)
        seat, stream = trainer.learner_seat ^ game, naive.stream(int(run_id, 16), pair, game)
        order = (Lifted(player), Lifted(opponent)) if seat == 0 else (Lifted(opponent), Lifted(player))
        outcome = NaiveGame(rules, order, stream).play([])
        pieces, cells = np.full(16, 99, np.int8), np.full(16, 99, np.int8)
        pieces[: outcome.plies], cells[: outcome.plies] = outcome.pieces, outcome.cells
        taught = FinishedGame(pieces, cells, outcome.plies, outcome.winner, seat, np.uint64(stream))  # type: ignore[arg-type]
        if not type(learner).update(taught, rules.tables, player.agent):
            knowledge = learner.enlarge(knowledge)
            player = KernelPlayer(type(learner).kernel, knowledge, rules)
        played.append(outcome)
    return learner.to_policy(knowledge), played
