"""The trainings behind published figures: carried out once, and then found in the archive by their policy's name."""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from pathlib import Path

from hydra import compose, initialize_config_dir

from analytics.policies import policy_store
from analytics.policies.relearn import training_of
from analytics.statistics.tally import Row
from analytics.store.archive import Archive
from analytics.store.records import PolicyCard
from runners.arena.config_groups import CONF
from runners.arena.experiment import Progress
from runners.training.application import keep
from runners.training.config import TrainingRequest, check, training_request_of

PREFIX = "published_"  # of the policies' names: they are not to be mistaken for the user's own


@dataclass(frozen=True)
class Learned:
    """What a training has come to."""

    policy: str  # name
    learner: str  # label
    opponent: str  # label
    results: Row  # the learner's (losses, draws, wins) in the games that it learned from
    played: int  # of these, now


def learn(overrides: str, root: Path, command: str, stop: threading.Event, progress: Progress | None) -> Learned | None:
    """Train as ``qarena train`` does with these overrides, or find that it was done; None if stopped before the end.

    ``overrides`` are separated by spaces, ``root`` is the archive's. Raises what a training raises, before anything is
    played if the request is wrong.
    """
    request = _request(overrides.split(), root, command)
    archive = Archive.open(root, create=True)
    card, played = _known(request, archive), 0
    if card is None:
        check(request)
        trained = request.trainer.train(replace(request.context, stop=stop, progress=progress))
        if trained.policy is None:
            return None
        card, played = keep(request, trained, trained.policy), trained.played
    return _learned(archive, card, played)


def _request(overrides: list[str], root: Path, command: str) -> TrainingRequest:
    with initialize_config_dir(str(CONF), version_base="1.3"):
        composed = compose("train", overrides=overrides, return_hydra_config=True)
        request = training_request_of(composed, composed.hydra.runtime.choices, command)
    return replace(request, context=replace(request.context, root=root), policy=PREFIX + request.policy)


def _known(request: TrainingRequest, archive: Archive) -> PolicyCard | None:
    """The card of the same training by the same code, if the archive has it."""
    card = policy_store.named(archive, request.policy)
    same = (
        card is not None
        and card.learned["training"] == request.training
        and card.learned["parameters"] == dict(request.settings)
        and card.code["fingerprint"] == request.code["fingerprint"]
    )
    return card if same else None


def _learned(archive: Archive, card: PolicyCard, played: int) -> Learned:
    """What a policy's card and the curve beside it say."""
    (run_id,) = card.learned["run_ids"]
    learner = training_of(archive, run_id).label
    record = archive.run(run_id)
    others = [label for label in record.labels if label != learner] if record else []
    losses, draws, wins = policy_store.read_table(archive, card, "curve").select("losses", "draws", "wins").sum().row(0)
    return Learned(card.name, learner, others[0] if others else learner, (losses, draws, wins), played)
