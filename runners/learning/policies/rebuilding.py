"""``qarena policy rebuild``: derives a policy again from the games on its card and reports every difference."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import PurePath
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from agents.learning.learner import Learner
from agents.learning.policy import GENOME, Policy
from analytics import open_archive
from analytics.policies.kinds.dataset import select_source_games
from analytics.policies.relearning import relearn_knowledge
from analytics.questions.pairings import load_results
from analytics.store import policy_store
from analytics.store.archive import ArchiveStore
from analytics.store.policy_cards import PolicyCard
from analytics.store.texts import format_count_with_noun
from quarto.errors import RequestError
from quarto.rules import Rules
from runners.arena.code_fingerprints import build_class_code_record, list_targets
from runners.arena.executors.base import available_cores
from runners.arena.experiment import count_missing_games
from runners.arena.request import RunRequest
from runners.arena.spec import build_from_settings, describe_classes_not_allowed_in_data, refuse_third_party_code
from runners.arena.storage import ArchiveOptions
from runners.learning.training.policy_build import build_kind_code_record, derive_from_selection

if TYPE_CHECKING:
    from runners.learning.training.genetic import GenerationResult

ONLINE_TRAINER = "runners.training.online.Online"


class RederivedPolicy(NamedTuple):
    """A policy that was made again, with notes on the runs whose games have changed since it was first made."""

    policy: Policy
    notes: list[str]


class RebuildResult(NamedTuple):
    """A rebuilt policy and the ways in which it differs from the stored policy."""

    card: PolicyCard
    policy: Policy
    differences: tuple[str, ...]  # empty: the policies are the same to the byte

    @property
    def size(self) -> str:
        """The number of rows or genes of the policy, as text."""
        rows = [len(column) for column in self.policy.table.values()]
        return (
            format_count_with_noun(rows[0], "row")
            if rows
            else format_count_with_noun(len(self.policy.parameters), "gene")
        )


def rebuild_policy(root: PurePath, name_or_id: str, threads: int | None = None, trusted: bool = False) -> RebuildResult:
    """Derive a policy again from the games that its card names, and compare it with the stored policy.

    The archive is only read. A card may come from anybody, so the third-party code that it names runs only if
    ``trusted``. If ``threads`` is None, all available cores are used.

    Raises:
        RequestError: The policy is missing or damaged, its games are missing, it cannot be derived again, or its card
            names third-party code that is not trusted.
        FailureError: The games are damaged.

    """
    archive = ArchiveStore.open(root)
    card, stored = policy_store.read(archive, name_or_id)
    if card.is_imported:
        source = card.learned["imported"]
        raise RequestError(
            f"policy '{card.name}' was imported from {source['file']} (SHA-256 {source['sha256'][:12]}…), not learned "
            f"from games: import the same file again, which gives the policy id {card.policy_id}"
        )
    threads, notes = threads or available_cores(), list[str]()
    if not trusted:
        refuse_third_party_code(
            f"policy '{card.name}'", describe_classes_not_allowed_in_data(list_targets(card.learned))
        )
    if card.is_derived:
        rebuilt, notes = _derive_again_noting_changed_runs(archive, card, threads, trusted)
    elif card.kind == GENOME:
        rebuilt = _breed_again(archive, card, threads, trusted)
    else:
        rebuilt = _learn_again(archive, card, trusted)
    differences = [*list_differences(stored, rebuilt)]
    if differences:
        differences = [*notes, *_list_code_differences(card), *differences]
    return RebuildResult(card, rebuilt, tuple(differences))


def list_differences(stored_policy: Policy, rebuilt_policy: Policy) -> Iterator[str]:
    """Yield the differences between two policies, one line for each.

    The comparison covers the kind, the parameters, the columns and the number of rows; for each column, only the first
    row that differs is named.
    """
    before, after = (
        policy_store.compute_knowledge_digest(stored_policy),
        policy_store.compute_knowledge_digest(rebuilt_policy),
    )
    if before == after:
        return
    yield f"knowledge: stored {before[:12]}, derived again {after[:12]}"
    for property_name, old_value, new_value in (
        ("kind", stored_policy.kind, rebuilt_policy.kind),
        ("parameters", dict(stored_policy.parameters), dict(rebuilt_policy.parameters)),
        ("columns", _list_column_types(stored_policy), _list_column_types(rebuilt_policy)),
    ):
        if old_value != new_value:
            yield f"{property_name}: stored {old_value}, derived again {new_value}"
    sizes = [len(next(iter(policy.table.values()), ())) for policy in (stored_policy, rebuilt_policy)]
    if sizes[0] != sizes[1]:
        yield f"rows: stored {sizes[0]:,}, derived again {sizes[1]:,}"
    for name in (name for name in stored_policy.table if name in rebuilt_policy.table):
        one, other = (policy.table[name][: min(sizes)] for policy in (stored_policy, rebuilt_policy))
        differing_rows = np.flatnonzero(one != other)
        if differing_rows.size:
            row = int(differing_rows[0])
            first = f"stored {one[row]}, derived again {other[row]}"
            yield (
                f"column {name}: {format_count_with_noun(differing_rows.size, 'different row')}, "
                f"the first is row {row}: {first}"
            )


def _list_column_types(policy: Policy) -> dict[str, str]:
    return {name: str(column.dtype) for name, column in policy.table.items()}


def _derive_again_noting_changed_runs(
    archive: ArchiveStore, card: PolicyCard, threads: int, trusted: bool
) -> RederivedPolicy:
    """Derive the policy again from the games that its card names, and note the runs whose games have changed."""
    derivation = card.learned["derivation"]
    with open_archive(archive.root) as opened:
        selection = select_source_games(opened, card)
        order = card.learned["run_ids"]
        learned, games = derive_from_selection(
            derivation["kind"], derivation["parameters"], selection, threads, order, trusted
        )
        sums, evaluation_sums = games.compute_fingerprints(threads), games.evaluation_sums
    changed = [run_id for run_id, checksum in card.learned["checksums"].items() if sums[run_id] != checksum]
    notes = [f"games of run {run_id} are not what they were: see 'qarena archive verify'" for run_id in changed]
    logged = card.learned.get("evaluations", {})
    changed = [run_id for run_id, checksum in logged.items() if evaluation_sums.get(run_id) != checksum]
    notes += [f"the evaluations of run {run_id} are not what they were" for run_id in changed]
    return RederivedPolicy(learned.policy, notes)


def _learn_again(archive: ArchiveStore, card: PolicyCard, trusted: bool) -> Policy:
    """Let the learner of a training learn from the logged games again, and return the resulting policy."""
    learner = card.learned["parameters"].get("learner")
    if card.learned["parameters"].get("_target_") != ONLINE_TRAINER or not isinstance(learner, Mapping):
        raise RequestError(
            f"policy '{card.name}' was made by trainer '{card.learned['trainer']}' "
            f"({card.learned['parameters'].get('_target_')}), which cannot learn again from logged "
            "games: repeat the command of its training instead"
        )
    rebuilt_learner: Learner = build_from_settings(f"the learner of policy '{card.name}'", learner, Learner, trusted)
    run_ids = card.learned["run_ids"]
    if len(run_ids) != 1:
        raise RequestError(f"policy '{card.name}' is damaged: a learner has one run, and its card names {len(run_ids)}")
    return rebuilt_learner.to_policy(relearn_knowledge(archive, run_ids[0], rebuilt_learner, card.learned["games"]))


def _build_generation_reader(
    archive: ArchiveStore, card: PolicyCard
) -> Callable[[RunRequest], GenerationResult | None]:
    """Build a function that, at each call, reads the logged games of the next generation.

    The generations are read in the order of the runs on the card. The function returns None if the present code would
    play the generation differently, or if games are missing. Raises ``RequestError`` if one of the runs has no games.
    """
    from runners.learning.training.genetic import GenerationResult

    run_ids = card.learned["run_ids"]
    for run_id in run_ids:
        if archive.find_run(run_id) is None or not archive.list_effective_ranges(run_id):
            raise RequestError(
                f"policy '{card.name}' was bred from the games of "
                f"{format_count_with_noun(len(run_ids), 'run')}, and run {run_id} is no longer "
                f"in archive {archive.root}: repeat the command of its training to play it"
            )
    remaining_run_ids = iter(run_ids)

    def read_generation(request: RunRequest) -> GenerationResult | None:
        record = archive.find_run(next(remaining_run_ids, ""))
        spec = replace(request.spec, salt=record.spec.get("salt", "") if record else "")
        if record is None or spec.run_id != record.run_id or count_missing_games(archive, spec, request.games):
            return None
        return GenerationResult(spec.run_id, load_results(archive, spec.run_id))

    return read_generation


def _breed_again(archive: ArchiveStore, card: PolicyCard, threads: int, trusted: bool) -> Policy:
    """Repeat an evolution from the logged games of its generations, without building any agent."""
    from runners.learning.training.genetic import GeneticTrainer
    from runners.learning.training.trainer import TrainingContext

    settings = card.learned["parameters"]
    trainer: GeneticTrainer = build_from_settings(
        f"the trainer of policy '{card.name}'", settings, GeneticTrainer, trusted
    )
    context = TrainingContext(
        name=str(card.learned["trainer"]),
        rules=Rules(**card.rules),
        seed=card.learned["seed"],
        threads=threads,
        storage=ArchiveOptions(archive.root),
        command="",
        stop=threading.Event(),
        progress=None,
        trusted=trusted,
    )
    genome = trainer.build_training(context).evolve(_build_generation_reader(archive, card))
    if genome is None:
        raise RequestError(
            f"policy '{card.name}': this code would breed it from other games than those of its "
            f"{len(card.learned['run_ids'])} runs, or some of these are missing: repeat the command of its training "
            "to play missing games"
        )
    return Policy(GENOME, genome)


def _list_code_differences(card: PolicyCard) -> Iterator[str]:
    """Yield the differences between the present code and the code that made the policy, one line for each.

    Such differences may explain why a rebuilt policy differs from the stored one.
    """
    if card.is_derived:
        code = build_kind_code_record(card.learned["derivation"]["parameters"])
    else:
        code = build_class_code_record(list_targets(card.learned["parameters"]), learning=True)
    for key in ("version", "fingerprint", "numba", "numpy"):
        if card.code.get(key) != code[key]:
            yield f"code: {key} was {card.code.get(key)}, is {code[key]}"
