"""A training as it is asked for and as it ends: the request that a configuration becomes, and the policy it stores."""

from __future__ import annotations

import functools
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import polars as pl
from omegaconf import DictConfig

from agents.base.parameters import as_typed
from agents.learning.policy import GENOME, Policy
from analytics import archive_option
from analytics.questions.columns import percent
from analytics.store import marker, policy_cards, policy_store
from analytics.store.archive import Archive
from analytics.store.policy_cards import POLICY_NAME, PolicyCard
from analytics.store.policy_store import PolicyOrigin
from analytics.store.records import run_id_of
from runners.arena.code import code_by, targets_in
from runners.arena.spec import made_of
from runners.config.agent_policies import readers_of
from runners.config.application import Judgement
from runners.config.options import flat, plain, rules_of, settings_of
from runners.config.requests import archive_settings_of, executor_of, named_rules, threads_of
from runners.learning.training.derive import code_of
from runners.learning.training.trainer import Trained, Trainer, TrainingContext
from runners.terminal import console


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
        return {key: value for key, value in flat(self.settings) if key != extent and (key, value) not in own.items()}

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
    trainer: Trainer = made_of(f"trainer '{context.name}'", settings, Trainer, trusted=True)
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
    name = "_".join([context.name, *(f"{key}-{as_typed(value)}" for key, value in changed.items())])
    if context.storage.other_code == "new" or not POLICY_NAME.fullmatch(name):
        name = f"{re.sub('[^A-Za-z0-9_.-]', '-', context.name)[:48]}-{request.training}"
    return name


def keep(request: TrainingRequest, trained: Trained, policy: Policy) -> PolicyCard:
    """Store the policy with its learning curve, and a picture of the curve."""
    from analytics.report import style

    context = request.context
    learned = {
        "training": request.training,
        "trainer": context.name,
        "parameters": dict(request.settings),
        "seed": context.seed,
        "games": trained.games,
        "run_ids": list(trained.run_ids),
        "command": context.command,
        **trained.origin,
    }
    tables = {"curve": trained.curve, **trained.tables}
    how = trained.origin.get("derivation")
    code = code_of(how["parameters"]) if how else request.code  # the code that can make the policy again
    picture = style.curve_svg(trained.curve, f"How {context.name} learned", _subtitle(request))
    origin = PolicyOrigin(request.policy, context.rules, code, learned, tables, {"curve": picture})
    return policy_store.save(Archive.open(context.storage.root), policy, origin)


def _subtitle(request: TrainingRequest) -> list[str]:
    """Two lines: the opponents and the conditions of the training, and the parameters that were changed."""
    settings, context = request.settings, request.context
    against = settings.get("opponents", settings.get("opponent"))
    if isinstance(against, Sequence) and not isinstance(against, str):
        against = ", ".join(map(str, against))
    how = [f"{context.rules.name} rules", f"seed {context.seed}"]
    seat = f"learner in seat {settings.get('learner_seat', 0)}"
    how += {"swapped": ["seats swapped"], "fixed": [seat]}.get(str(settings.get("seats")), [])
    changed = request.changed
    return [
        f"against {against}, {', '.join(how)}" if against else ", ".join(how),
        *([", ".join(f"{key} {value}" for key, value in changed.items())] if changed else []),
    ]


def _full(curve: pl.DataFrame) -> pl.DataFrame:
    """The rows of a curve that have as many games as the first: the last may have too few to be informative."""
    return curve.filter(pl.col("games") == pl.first("games"))


def score(curve: pl.DataFrame) -> float | None:
    """The last value of a curve: the learner's win rate, the fitness of the best, or the measured strength."""
    if curve.is_empty():
        return None
    if "win_rate" in curve.columns:
        return float(_full(curve)["win_rate"][-1])
    return next((float(curve[name][-1]) for name in ("best", "strength") if name in curve.columns), None)


def judged(curve: pl.DataFrame) -> Judgement | None:
    """The value that judges a training: the last one of its curve."""
    last = score(curve)
    name = next((each for each in ("win_rate", "strength") if each in curve.columns), "fitness")
    return None if last is None else Judgement(name, last)


def row(card: PolicyCard, trained: Trained) -> dict[str, str]:
    """The row of a job in the table of its sweep."""
    last = score(trained.curve)
    names = {"win_rate": "last win rate", "strength": "mean score"}
    what = next((name for column, name in names.items() if column in trained.curve.columns), "fitness")
    return {"policy": card.name, "games": f"{trained.games:,}", what: "·" if last is None else percent(last)}


def show_interrupted(request: TrainingRequest, trained: Trained) -> None:
    """Print how far an interrupted training came."""
    console.print_line(
        f"Learned from {trained.games:,} games so far; {trained.played:,} games were played now. They are in "
        f"{request.context.storage.root}; the policy is stored once all games are played."
    )


def show(request: TrainingRequest, trained: Trained, card: PolicyCard) -> None:
    """Print what was learned, from which games, where the policy is and how to play by it."""
    folder = policy_cards.folder_of(Archive(request.context.storage.root), card.policy_id)
    genes = (f"{gene} {value:g}" for gene, value in card.parameters.items())
    for line in (
        _what_was_learned(request, trained),
        _what_it_took(request, trained),
        f"Policy '{card.name}' ({card.policy_id}) is in {folder}: {', '.join(map(card.stored_name, card.files))}.",
        *([f"Genes: {', '.join(genes)}."] if card.kind == GENOME else []),
        "Play by it:",
        f"  {_play_command(request, card)}",
    ):
        console.print_line(line)


def _what_was_learned(request: TrainingRequest, trained: Trained) -> str:
    curve = trained.curve
    learned = f"{request.context.name} learned from {trained.games:,} games"
    first, last = score(curve.head(1)), score(curve)
    if first is None or last is None:
        return f"{learned}."
    if "strength" in curve.columns:
        return f"{learned}: its mean score against the same opponents went from {first:.3f} to {last:.3f}."
    if "win_rate" not in curve.columns:
        return f"{learned}: the best of the first generation had fitness {first:.3f}, the best of the last {last:.3f}."
    begins, games = _full(curve).select("first_game", "games").row(-1)
    later = f", {percent(last)} % of games {begins + 1:,} to {begins + games:,}" if begins else ""
    return f"{learned}: it won {percent(first)} % of the first {games:,}{later}."


def _what_it_took(request: TrainingRequest, trained: Trained) -> str:
    runs = f"run {trained.run_ids[0]}" if len(trained.run_ids) == 1 else f"{len(trained.run_ids)} runs"
    if trained.played == 0:
        return f"Nothing to play: {request.context.storage.root} had all games; learned from {runs}."
    took = console.speed(trained.played, trained.seconds)
    return f"{took}; learned from {runs} in {request.context.storage.root}."


def _play_command(request: TrainingRequest, card: PolicyCard) -> str:
    """A command that plays by a policy."""
    players = readers_of(card.kind)
    player = request.context.name if request.context.name in players or not players else players[0]
    root = request.context.storage.root
    return f"{console.program()} run '{player}(policy={card.name})' random{archive_option(root)}"
