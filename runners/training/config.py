"""The request that the composed configuration of a training becomes."""

from __future__ import annotations

import functools
import re
import threading
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from omegaconf import DictConfig

from analytics.policies import policy_store
from analytics.store import marker
from analytics.store.archive import Archive
from analytics.store.policy_cards import POLICY_NAME
from analytics.store.records import run_id_of
from runners.arena.code import code_by
from runners.arena.config import archive_settings_of, executor_of, named_rules, threads_of
from runners.arena.config_groups import flat, plain, rules_of, settings_of, targets_in
from runners.arena.spec import made_of
from runners.training.trainer import Trainer, TrainingContext

_MISSING = object()


@dataclass(frozen=True)
class TrainingRequest:
    """A checked configuration: the trainer, its setting, and the name of the policy."""

    trainer: Trainer
    settings: Mapping[str, Any]  # of the trainer: its class under _target_ and its parameters
    context: TrainingContext
    policy: str  # name
    progress: bool
    notes: tuple[str, ...]  # remarks for the user on how the configuration was understood

    @property
    def training(self) -> str:
        """The training's id, 12 hex digits: a hash of all that affects what is learned.

        The trainer's ``extent``, if it has one, is left out: asking for more is the same training.
        """
        settings = {key: value for key, value in self.settings.items() if key != self.trainer.extent}
        mapping = {"trainer": settings, "rules": asdict(self.context.rules), "seed": self.context.seed}
        other = {"salt": self.code["fingerprint"]} if self.context.storage.other_code == "new" else {}
        return run_id_of(mapping | other)

    @functools.cached_property
    def changed(self) -> dict[str, Any]:
        """The trainer's settings that differ from its yaml, by dotted key, but for the training's length."""
        own = dict(flat(settings_of("trainer", self.context.name)))
        extent = self.trainer.extent
        return {key: value for key, value in flat(self.settings) if key != extent and own.get(key, _MISSING) != value}

    @functools.cached_property
    def code(self) -> dict[str, str]:
        """The code that will learn, as ``runners.arena.spec.code_of`` describes it."""
        return code_by(targets_in(self.settings), learning=True)


def training_request_of(cfg: DictConfig, choices: Mapping[str, str], command: str) -> TrainingRequest:
    """Check a composed configuration. ``choices`` are Hydra's: ``{'trainer': 'rl_encoded', ...}``.

    Raises ``RequestError`` for the first invalid value.
    """
    context = TrainingContext(
        name=choices["trainer"],
        rules=named_rules(rules_of(plain(cfg.rules)), choices["rules"]),
        seed=cfg.seed,
        threads=threads_of(cfg),
        storage=archive_settings_of(cfg.archive),
        command=command,
        stop=threading.Event(),
        progress=None,
        curve_block=cfg.curve.block,
        executor=executor_of(cfg),
        trusted=True,
    )
    settings = plain(cfg.trainer)
    trainer: Trainer = made_of(f"trainer '{context.name}'", settings, Trainer)
    request = TrainingRequest(
        trainer=trainer,
        settings=settings,
        context=context,
        policy=cfg.policy.name or "",
        progress=cfg.progress,
        notes=(*trainer.notes, *_without_effect(trainer, context)),
    )
    name = request.policy or _derived_name(request)
    return replace(request, policy=name, context=replace(context, policy=name))


def check(request: TrainingRequest) -> None:
    """Raises ``RequestError`` for a training that cannot begin: its policy's name is taken, or its agents do not fit.

    Otherwise the archive is created, if it does not exist.
    """
    policy_store.check_name(request.policy)
    root = request.context.storage.root
    if marker.content_of(root) is not None:
        policy_store.check_free(Archive.open(root), request.policy, request.training)
    request.trainer.check(request.context)
    Archive.open(root, create=True)


def _without_effect(trainer: Trainer, context: TrainingContext) -> Iterator[str]:
    """The note that an executor does nothing for a trainer that cannot use it."""
    if trainer.sequential and not context.executor.shares_memory:
        why = trainer.sequential
        yield f"trainer {context.name} plays in this process, on one thread, whatever the executor is: {why}"


def _derived_name(request: TrainingRequest) -> str:
    """The trainer's name and all changed settings, so that different trainings have different names."""
    context = request.context
    changed = {key.rpartition(".")[2]: value for key, value in request.changed.items()}
    changed |= {"rules": context.rules.name} if context.rules.name != "classic" else {}
    changed |= {"seed": context.seed} if context.seed != 1 else {}
    texts = (str(value).lower() if isinstance(value, bool) else str(value) for value in changed.values())
    name = "_".join([context.name, *map("-".join, zip(changed, texts, strict=True))])
    if context.storage.other_code == "new" or not POLICY_NAME.fullmatch(name):
        name = f"{re.sub('[^A-Za-z0-9_.-]', '-', context.name)[:48]}-{request.training}"
    return name
