"""The configuration of a training: its schema, and how a composed one becomes a request that can be carried out."""

from __future__ import annotations

import functools
import re
import threading
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from hydra.core.config_store import ConfigStore
from omegaconf import DictConfig, OmegaConf

from analytics.policies import policy_store
from analytics.policies.learning_curve import BLOCK
from analytics.store.archive import MARKER, Archive
from analytics.store.records import POLICY_NAME, run_id_of
from quarto.errors import RequestError
from runners.arena.config import (
    MAX_SEED,
    ArchiveConfig,
    SweepConfig,
    available_cores,
    check_keeping,
    complete,
    named_rules,
    rules_of,
    within,
)
from runners.arena.config_groups import plain, settings_of
from runners.arena.spec import code_by, flat, made
from runners.training.trainer import Checking, Extensible, Trainer, TrainingContext

MOST_GAMES_OF_A_ROW = 1 << 30
_MISSING = object()


@dataclass
class PolicyConfig:
    """What is learned."""

    name: str | None = None


@dataclass
class CurveConfig:
    """How the learning curve is drawn."""

    block: int = BLOCK


@dataclass
class TrainConfig:
    """One training. ``conf/train.yaml`` says what each key means."""

    rules: Any = None
    trainer: Any = None
    policy: PolicyConfig = field(default_factory=PolicyConfig)
    curve: CurveConfig = field(default_factory=CurveConfig)
    seed: int = 1
    threads: int | None = None
    progress: bool = True
    archive: ArchiveConfig = field(default_factory=ArchiveConfig)
    sweep: SweepConfig = field(default_factory=SweepConfig)


ConfigStore.instance().store(name="train_schema", node=TrainConfig)


@dataclass(frozen=True)
class TrainingRequest:
    """A checked configuration: how to train, where, and how to call what is learned."""

    trainer: Trainer
    settings: Mapping[str, Any]  # of the trainer: its class under _target_ and its parameters
    context: TrainingContext
    policy: str  # name
    progress: bool
    notes: tuple[str, ...]  # what the user should be told of how the request was read

    @property
    def training(self) -> str:
        """12 hex digits, the same for what goes on as one training: all that affects what is learned, but for how much.

        That is all of the trainer's parameters where it cannot go on from less.
        """
        settings = dict(self.settings)
        if isinstance(self.trainer, Extensible):
            settings.pop(self.trainer.extent, None)
        mapping = {"trainer": settings, "rules": asdict(self.context.rules), "seed": self.context.seed}
        other = {"salt": self.code["fingerprint"]} if self.context.other_code == "new" else {}
        return run_id_of(mapping | other)

    @functools.cached_property
    def changed(self) -> dict[str, Any]:
        """The trainer's settings that are not those of its yaml, by dotted key; how much it is to learn is not one."""
        own = dict(flat(settings_of("trainer", self.context.name)))
        extent = self.trainer.extent if isinstance(self.trainer, Extensible) else None
        return {key: value for key, value in flat(self.settings) if key != extent and own.get(key, _MISSING) != value}

    @functools.cached_property
    def code(self) -> dict[str, str]:
        """What is going to learn, as for runs."""
        return code_by([str(value) for key, value in flat(self.settings) if key.endswith("_target_")], learning=True)


def training_request_of(cfg: DictConfig, choices: Mapping[str, str], command: str) -> TrainingRequest:
    """Check a composed configuration. ``choices`` are Hydra's: ``{'trainer': 'rl_encoded', ...}``.

    Raises ``RequestError`` for the first value that makes no sense.
    """
    complete(cfg, TrainConfig)
    for key, schema in (("archive", ArchiveConfig), ("policy", PolicyConfig), ("curve", CurveConfig)):
        complete(cfg[key], schema, f"{key}.")
    within("seed", cfg.seed, 0, MAX_SEED)
    within("threads", cfg.threads if cfg.threads is not None else 1, 1, 1024)
    within("curve.block", cfg.curve.block, 1, MOST_GAMES_OF_A_ROW)
    check_keeping(cfg.archive)
    context = TrainingContext(
        name=choices["trainer"],
        rules=named_rules(rules_of(plain(cfg.rules)), choices["rules"]),
        seed=cfg.seed,
        threads=cfg.threads or available_cores(),
        root=Path(cfg.archive.root),
        shard_games=cfg.archive.shard_games,
        shard_seconds=cfg.archive.shard_seconds,
        other_code=cfg.archive.other_code,
        command=command,
        stop=threading.Event(),
        progress=None,
        curve_block=cfg.curve.block,
    )
    settings, trainer = _trainer(cfg.trainer, context.name)
    request = TrainingRequest(
        trainer=trainer,
        settings=settings,
        context=context,
        policy=cfg.policy.name or "",
        progress=cfg.progress,
        notes=trainer.notes if isinstance(trainer, Checking) else (),
    )
    name = request.policy or _derived_name(request)
    return replace(request, policy=name, context=replace(context, policy=name))


def check(request: TrainingRequest) -> None:
    """Raises ``RequestError`` for a training that cannot begin: its policy's name is taken, its agents do not fit.

    Only if all is well, and there is no archive yet, it is made.
    """
    policy_store.check_name(request.policy)
    root = request.context.root
    taken = policy_store.named(Archive.open(root), request.policy) if (root / MARKER).exists() else None
    if taken is not None and taken.learned["training"] != request.training:
        raise RequestError(
            f"policy.name={request.policy} is the name of another training ({taken.learned['trainer']}, seed "
            f"{taken.learned['seed']}; 'qarena policy show {request.policy}' tells all): choose another name"
        )
    if isinstance(request.trainer, Checking):
        request.trainer.check(request.context)
    Archive.open(root, create=True)


def _trainer(node: Any, name: str) -> tuple[dict[str, Any], Trainer]:
    """The trainer's settings, and itself."""
    if not OmegaConf.is_dict(node):
        raise RequestError(f"trainer={node} is not a trainer: choose one with trainer=NAME")
    settings = plain(node)
    target = settings.get("_target_")
    if not isinstance(target, str):
        raise RequestError(f"trainer '{name}': its yaml names no class under _target_")
    parameters = {key: value for key, value in settings.items() if key != "_target_"}
    return settings, made(f"trainer '{name}'", target, parameters, Trainer)


def _derived_name(request: TrainingRequest) -> str:
    """The trainer's name and whatever is not as usual, so that different trainings have different names."""
    context = request.context
    changed = {key.rpartition(".")[2]: value for key, value in request.changed.items()}
    changed |= {"rules": context.rules.name} if context.rules.name != "classic" else {}
    changed |= {"seed": context.seed} if context.seed != 1 else {}
    texts = (str(value).lower() if isinstance(value, bool) else str(value) for value in changed.values())
    name = "_".join([context.name, *map("-".join, zip(changed, texts, strict=True))])
    if context.other_code == "new" or not POLICY_NAME.fullmatch(name):
        name = f"{re.sub('[^A-Za-z0-9_.-]', '-', context.name)[:48]}-{request.training}"
    return name
