"""The trainings behind published figures: each is carried out once and then found by its policy's name."""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace

from hydra import compose, initialize_config_dir

from analytics.policies import policy_store
from analytics.policies.relearn import training_of
from analytics.statistics.tally import Row
from analytics.store.archive import Archive
from analytics.store.policy_cards import PolicyCard
from runners.arena.config_groups import CONF
from runners.arena.playing import Progress
from runners.arena.schemas import ArchiveSettings
from runners.training.config import TrainingRequest, check, training_request_of
from runners.training.outcome import keep

PREFIX = "published_"  # of the policies' names, which keeps them apart from the user's own


@dataclass(frozen=True)
class TrainingResult:
    """The policy that a training made, and the results of its games."""

    policy: str  # name
    learner: str  # label
    opponent: str  # label
    results: Row  # the learner's (losses, draws, wins) in the games that it learned from
    played: int  # games played by this command; 0 if the training was found


def train(
    overrides: str, storage: ArchiveSettings, command: str, stop: threading.Event, progress: Progress | None
) -> TrainingResult | None:
    """Train as ``qarena train`` does with these overrides, unless the archive has the policy; None if stopped early.

    ``overrides`` are separated by spaces. Raises the errors of a training, those for a wrong
    request before any game is played.
    """
    request = _request(overrides.split(), storage, command)
    archive = Archive.open(storage.root, create=True)
    card, played = _known(request, archive), 0
    if card is None:
        check(request)
        trained = request.trainer.train(replace(request.context, stop=stop, progress=progress))
        if trained.policy is None:
            return None
        card, played = keep(request, trained, trained.policy), trained.played
    return _result(archive, card, played)


def _request(overrides: list[str], storage: ArchiveSettings, command: str) -> TrainingRequest:
    with initialize_config_dir(str(CONF), version_base="1.3"):
        overrides = [*overrides, f"archive.other_code={storage.other_code}"]  # which affects the training's name
        composed = compose("train", overrides=overrides, return_hydra_config=True)
        request = training_request_of(composed, composed.hydra.runtime.choices, command)
    return replace(request, context=replace(request.context, storage=storage), policy=PREFIX + request.policy)


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


def _result(archive: Archive, card: PolicyCard, played: int) -> TrainingResult:
    """The result as the policy's card and learning curve hold it."""
    (run_id,) = card.learned["run_ids"]
    learner = training_of(archive, run_id).label
    record = archive.run(run_id)
    others = [label for label in record.labels if label != learner] if record else []
    losses, draws, wins = policy_store.read_table(archive, card, "curve").select("losses", "draws", "wins").sum().row(0)
    return TrainingResult(card.name, learner, others[0] if others else learner, (losses, draws, wins), played)
