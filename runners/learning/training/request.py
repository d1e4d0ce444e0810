"""The request for a training, how its policy is stored, and what is printed about it."""

from __future__ import annotations

import functools
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import polars as pl
from omegaconf import DictConfig

from agents.base.parameters import format_parameter
from agents.learning.policy import GENOME, Policy
from analytics import format_archive_option
from analytics.questions.columns import format_percent
from analytics.store import marker, policy_cards, policy_store
from analytics.store.archive import ArchiveStore
from analytics.store.policy_cards import POLICY_NAME, PolicyCard
from analytics.store.policy_store import PolicyOrigin
from analytics.store.records import compute_run_id
from analytics.store.texts import format_count_with_noun
from runners.arena.code_fingerprints import build_class_code_record, list_targets
from runners.arena.spec import build_from_settings
from runners.config.agent_policies import list_reader_names
from runners.config.application import ObjectiveValue
from runners.config.requests import (
    build_archive_options,
    build_executor,
    name_rules_by_changed_keys,
    resolve_thread_count,
)
from runners.config.yaml_options import build_rules, flatten_settings, load_option, to_plain_dict
from runners.learning.training.policy_build import build_kind_code_record
from runners.learning.training.trainer import Trainer, TrainingContext, TrainingOutcome
from runners.terminal import console


@dataclass(frozen=True)
class TrainingRequest:
    """A checked request for a training: the trainer, its settings, and the name of the policy."""

    trainer: Trainer
    settings: Mapping[str, Any]  # of the trainer: its class under _target_ and its parameters
    context: TrainingContext
    policy: str  # name
    progress: bool
    notes: tuple[str, ...]  # remarks for the user on how the configuration was understood

    @property
    def training_id(self) -> str:
        """A hash of everything that affects what is learned, as 12 hex digits.

        The length of the training, which is the setting named by the trainer's ``length_key``, is left out. So a
        request for more games continues the same training.
        """
        settings = {key: value for key, value in self.settings.items() if key != self.trainer.length_key}
        mapping = {"trainer": settings, "rules": asdict(self.context.rules), "seed": self.context.seed}
        salt = {"salt": self.code["fingerprint"]} if self.context.storage.other_code == "new" else {}
        return compute_run_id(mapping | salt)

    @functools.cached_property
    def changed_settings(self) -> dict[str, Any]:
        """The settings that differ from the trainer's yaml, by dotted key. The length of the training is left out."""
        defaults = dict(flatten_settings(load_option("trainer", self.context.name)))
        length_key = self.trainer.length_key
        return {
            key: value
            for key, value in flatten_settings(self.settings)
            if key != length_key and (key, value) not in defaults.items()
        }

    @functools.cached_property
    def code(self) -> dict[str, str]:
        """The record of the code that plays and learns in the training, as built by ``build_class_code_record``."""
        return build_class_code_record(list_targets(self.settings), learning=True)


def training_request_from_config(cfg: DictConfig, choices: Mapping[str, str], command: str) -> TrainingRequest:
    """Check a composed configuration and build the request that it describes.

    ``choices`` are the group options that Hydra chose, such as ``{"trainer": "ga5"}``. Raises ``RequestError`` for the
    first invalid value.
    """
    context = TrainingContext(
        name=choices["trainer"],
        rules=name_rules_by_changed_keys(build_rules(to_plain_dict(cfg.rules)), choices["rules"]),
        seed=cfg.seed,
        threads=resolve_thread_count(cfg),
        storage=build_archive_options(cfg.archive),
        command=command,
        stop=threading.Event(),
        progress=None,
        curve_block=cfg.curve.block,
        executor=build_executor(cfg),
        trusted=True,
    )
    settings = to_plain_dict(cfg.trainer)
    trainer: Trainer = build_from_settings(f"trainer '{context.name}'", settings, Trainer, trusted=True)
    request = TrainingRequest(
        trainer=trainer,
        settings=settings,
        context=context,
        policy=cfg.policy.name or "",
        progress=cfg.progress,
        notes=(*trainer.notes, *_describe_unused_executor(trainer, context)),
    )
    name = request.policy or _build_policy_name(request)
    return replace(request, policy=name, context=replace(context, policy=name))


def check_training_and_create_archive(request: TrainingRequest) -> None:
    """Check that a training can begin, then create the archive if it does not exist.

    Raises ``RequestError`` if the name of the policy is taken, or if the trainer's agents are not suitable.
    """
    policy_store.check_name(request.policy)
    root = request.context.storage.root
    if marker.read_marker_content(root) is not None:
        policy_store.check_name_free(ArchiveStore.open(root), request.policy, request.training_id)
    request.trainer.check(request.context)
    ArchiveStore.open(root, create=True)


def _describe_unused_executor(trainer: Trainer, context: TrainingContext) -> Iterator[str]:
    """Yield a note if the trainer cannot use the configured executor."""
    if trainer.sequential_reason and not context.executor.shares_memory:
        why = trainer.sequential_reason
        yield f"trainer {context.name} plays in this process, on one thread, whatever the executor is: {why}"


def _build_policy_name(request: TrainingRequest) -> str:
    """Build a policy's name from the trainer's name and all changed settings, so that it differs between trainings.

    If that name would be invalid, the training's id takes the place of the settings. It does so too with
    ``archive.other_code=new``, which makes changed code begin a training of its own with the same settings.
    """
    context = request.context
    changed = {key.rpartition(".")[2]: value for key, value in request.changed_settings.items()}
    changed |= {"rules": context.rules.name} if context.rules.name != "classic" else {}
    changed |= {"seed": context.seed} if context.seed != 1 else {}
    name = "_".join([context.name, *(f"{key}-{format_parameter(value)}" for key, value in changed.items())])
    if context.storage.other_code == "new" or not POLICY_NAME.fullmatch(name):
        name = f"{re.sub('[^A-Za-z0-9_.-]', '-', context.name)[:48]}-{request.training_id}"
    return name


def save_policy(request: TrainingRequest, outcome: TrainingOutcome, policy: Policy) -> PolicyCard:
    """Store the policy with its learning curve and a picture of the curve; return the policy's card."""
    from analytics.report import style

    context = request.context
    learned = {
        "training": request.training_id,
        "trainer": context.name,
        "parameters": dict(request.settings),
        "seed": context.seed,
        "games": outcome.games,
        "run_ids": list(outcome.run_ids),
        "command": context.command,
        **outcome.origin,
    }
    tables = {"curve": outcome.curve, **outcome.tables}
    derivation = outcome.origin.get("derivation")
    code = build_kind_code_record(derivation["parameters"]) if derivation else request.code  # what can rebuild it
    picture = style.render_curve_svg(
        outcome.curve, f"How {context.name} learned", _format_opponents_conditions_and_changes(request)
    )
    origin = PolicyOrigin(request.policy, context.rules, code, learned, tables, {"curve": picture})
    return policy_store.save(ArchiveStore.open(context.storage.root), policy, origin)


def _format_opponents_conditions_and_changes(request: TrainingRequest) -> list[str]:
    """Format the subtitle of the learning curve: a line on opponents and conditions, and one on changed settings."""
    settings, context = request.settings, request.context
    opponents = settings.get("opponents", settings.get("opponent"))
    if isinstance(opponents, Sequence) and not isinstance(opponents, str):
        opponents = ", ".join(map(str, opponents))
    conditions = [f"{context.rules.name} rules", f"seed {context.seed}"]
    seat = f"learner in seat {settings.get('learner_seat', 0)}"
    conditions += {"swapped": ["seats swapped"], "fixed": [seat]}.get(str(settings.get("seats")), [])
    changed = request.changed_settings
    return [
        f"against {opponents}, {', '.join(conditions)}" if opponents else ", ".join(conditions),
        *([", ".join(f"{key} {value}" for key, value in changed.items())] if changed else []),
    ]


def _select_full_rows(curve: pl.DataFrame) -> pl.DataFrame:
    """Select the rows of a curve that are based on as many games as the first row.

    The last row may be based on too few games to be informative.
    """
    return curve.filter(pl.col("games") == pl.first("games"))


def find_last_curve_value(curve: pl.DataFrame) -> float | None:
    """Return the last value of a learning curve: the win rate, the fitness of the best individual, or the mean score.

    Returns None if the curve has no rows or none of these columns.
    """
    if curve.is_empty():
        return None
    if "win_rate" in curve.columns:
        return float(_select_full_rows(curve)["win_rate"][-1])
    return next((float(curve[name][-1]) for name in ("best", "strength") if name in curve.columns), None)


def build_objective_value(curve: pl.DataFrame) -> ObjectiveValue | None:
    """Build the value by which a sweep judges a training: the last value of its learning curve.

    Returns None if the curve has no such value.
    """
    last = find_last_curve_value(curve)
    name = next((column for column in ("win_rate", "strength") if column in curve.columns), "fitness")
    return None if last is None else ObjectiveValue(name, last)


def build_sweep_row(card: PolicyCard, outcome: TrainingOutcome) -> dict[str, str]:
    """Build the row that describes a training in the table of its sweep, as a mapping from heading to text."""
    last = find_last_curve_value(outcome.curve)
    names = {"win_rate": "last win rate", "strength": "mean score"}
    heading = next((name for column, name in names.items() if column in outcome.curve.columns), "fitness")
    return {"policy": card.name, "games": f"{outcome.games:,}", heading: "·" if last is None else format_percent(last)}


def print_interrupted(request: TrainingRequest, outcome: TrainingOutcome) -> None:
    """Print how far a training had got when it was interrupted."""
    learned, played = format_count_with_noun(outcome.games, "game"), format_count_with_noun(outcome.played, "game")
    console.print_line(
        f"Learned from {learned} so far; played {played} now. The games are "
        f"in {request.context.storage.root}; the policy is stored once all games are played."
    )


def print_training(request: TrainingRequest, outcome: TrainingOutcome, card: PolicyCard) -> None:
    """Print what was learned from which games, where the policy is stored, and how to play with it."""
    folder = policy_cards.policy_folder(ArchiveStore(request.context.storage.root), card.policy_id)
    genes = (f"{gene} {value:g}" for gene, value in card.parameters.items())
    for line in (
        _describe_learning(request, outcome),
        _describe_work(request, outcome),
        f"Policy '{card.name}' ({card.policy_id}) is in {folder}: {', '.join(map(card.stored_name, card.files))}.",
        *([f"Genes: {', '.join(genes)}."] if card.kind == GENOME else []),
        "Play by it:",
        f"  {_format_play_command(request, card)}",
    ):
        console.print_line(line)


def _describe_learning(request: TrainingRequest, outcome: TrainingOutcome) -> str:
    curve = outcome.curve
    learned = f"{request.context.name} learned from {format_count_with_noun(outcome.games, 'game')}"
    first, last = find_last_curve_value(curve.head(1)), find_last_curve_value(curve)
    if first is None or last is None:
        return f"{learned}."
    if "strength" in curve.columns:
        return f"{learned}: its mean score against the same opponents went from {first:.3f} to {last:.3f}."
    if "win_rate" not in curve.columns:
        return f"{learned}: the best of the first generation had fitness {first:.3f}, the best of the last {last:.3f}."
    first_game, games = _select_full_rows(curve).select("first_game", "games").row(-1)
    later_rate = (
        f", {format_percent(last)} % of games {first_game + 1:,} to {first_game + games:,}" if first_game else ""
    )
    return f"{learned}: it won {format_percent(first)} % of the first {games:,}{later_rate}."


def _describe_work(request: TrainingRequest, outcome: TrainingOutcome) -> str:
    runs = (
        f"run {outcome.run_ids[0]}"
        if len(outcome.run_ids) == 1
        else format_count_with_noun(len(outcome.run_ids), "run")
    )
    if outcome.played == 0:
        return f"Nothing to play: {request.context.storage.root} had all games; learned from {runs}."
    speed = console.format_games_time_and_speed(outcome.played, outcome.seconds)
    return f"{speed}; learned from {runs} in {request.context.storage.root}."


def _format_play_command(request: TrainingRequest, card: PolicyCard) -> str:
    """Format a command that plays with the policy."""
    players = list_reader_names(card.kind)
    player = request.context.name if request.context.name in players or not players else players[0]
    root = request.context.storage.root
    return f"{console.find_program()} run '{player}(policy={card.name})' random{format_archive_option(root)}"
