"""The trainings behind published figures: carried out once, and then found in the archive by their policy's name."""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace

from hydra import compose, initialize_config_dir

from analytics import policies
from analytics.archive import Archive
from analytics.records import PolicyCard
from analytics.results import results
from analytics.tally import Tally
from runners.config import CONF
from runners.experiment import Progress
from runners.training.application import keep
from runners.training.config import TrainingRequest, check, training_request_of


@dataclass(frozen=True)
class Learned:
    """What a training has come to."""

    policy: str  # name
    learner: str  # label
    opponent: str  # label
    tally: Tally  # of the games learned from, as the learner sees them
    played: int  # now


def learn(
    overrides: str, settings: dict[str, object], command: str, stop: threading.Event, progress: Progress | None
) -> Learned | None:
    """Train as ``qarena train`` does with these overrides, or find that it was done; None if stopped before the end.

    ``overrides`` are separated by spaces, ``settings`` are further keys with their values. Raises what a training
    raises, before anything is played if the request is wrong.
    """
    request = _request([*overrides.split(), *(f"{key}={value}" for key, value in settings.items())], command)
    card, played = _known(request), 0
    if card is None:
        check(request)
        trained = request.trainer.train(replace(request.setting, stop=stop, progress=progress))
        if trained.policy is None:
            return None
        card, played = keep(request, trained, trained.policy), trained.played
    (run_id,) = card.learned["run_ids"]
    return _learned(Archive.open(request.setting.root), card.name, run_id, played)


def _request(overrides: list[str], command: str) -> TrainingRequest:
    with initialize_config_dir(str(CONF), version_base="1.3"):
        composed = compose("train", overrides=overrides, return_hydra_config=True)
        return training_request_of(composed, composed.hydra.runtime.choices, command)


def _known(request: TrainingRequest) -> PolicyCard | None:
    """The card of the same training by the same code, if the archive has it."""
    archive = Archive.open(request.setting.root, create=True)
    card = policies.named(archive, request.policy)
    same = (
        card is not None
        and card.learned["training"] == request.training
        and card.code["fingerprint"] == request.code["fingerprint"]
    )
    return card if same else None


def _learned(archive: Archive, policy: str, run_id: str, played: int) -> Learned:
    (result,) = results(archive, run_id)
    record = archive.run(run_id)
    learner = record.labels[record.spec["learner"]] if record else result.first
    first = result.first == learner
    return Learned(
        policy,
        learner,
        result.second if first else result.first,
        result.tally if first else result.tally.swapped,
        played,
    )
