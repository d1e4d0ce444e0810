"""Finds the conflicts between archives: all archives are compared with each other, in any order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from itertools import combinations
from typing import NamedTuple, TypeVar

from msgspec import structs

from analytics.policies import policy_store
from analytics.store import policy_cards, sprt_verdicts
from analytics.store.archive import Archive
from analytics.store.contradictions import FingerprintsOfRun, contradictions
from analytics.store.policy_cards import PolicyCard
from analytics.store.ranges import merged, missing
from analytics.store.records import RunRecord, dump, run_id_of

T = TypeVar("T")
Key = TypeVar("Key")


class MergeOptions(NamedTuple):
    """The user's choices for conflicts."""

    prefix: str = ""  # of the names of policies that the destination knows with other content
    other_code: bool = False  # add games of other code to a run that is there


class _Held(NamedTuple):
    """The record of a run, and the archive that holds it."""

    record: RunRecord
    archive: Archive


def by_beginning(record: RunRecord) -> tuple[datetime, str, str]:
    """The key that sorts the records of several archives: by the time at which the runs began."""
    return datetime.fromisoformat(record.created), record.run_id, str(record.code.get("fingerprint"))


def conflicts(sources: Sequence[Archive], target: Archive, options: MergeOptions) -> Iterator[str]:
    """The conflicts between archives, as sentences."""
    for source in sources:
        for run_id in source.run_ids():
            if source.run(run_id) is None:
                yield f"run {run_id} of {source.root} has no record: restore it"
    for held in _runs([*sources, target]):
        yield from _of_runs(held, target, options)
    archives = [target, *sources]
    yield from _differing(archives, _jobs, "rename the folder of one")
    yield from _differing(archives, _verdicts, "run 'qarena archive verify' on both")
    yield from _of_policies(sources, target, options)


def _runs(archives: Sequence[Archive]) -> Iterator[list[_Held]]:
    """The holders of each run, in an order that does not depend on that of the archives."""
    held: dict[str, list[_Held]] = {}
    for archive in archives:
        for record in archive.runs():
            held.setdefault(record.run_id, []).append(_Held(record, archive))
    for run_id in sorted(held):
        yield sorted(held[run_id], key=lambda each: by_beginning(each.record))


def _of_runs(held: Sequence[_Held], target: Archive, options: MergeOptions) -> Iterator[str]:
    for record, archive in held:
        if archive is not target and run_id_of(record.spec) != record.run_id:
            yield f"run {record.run_id} of {archive.root} has the spec of run {run_id_of(record.spec)}: it was changed"
    for one, other in combinations(held, 2):
        if one.record.spec != other.record.spec:
            yield f"run {one.record.run_id} has another spec in {one.archive.root} than in {other.archive.root}"
            continue
        yield from _of_games(one, other)
    if not options.other_code:
        yield from _of_code(held, target)


def _of_games(one: _Held, other: _Held) -> Iterator[str]:
    """The ranges of which two archives hold different games, as one sentence."""
    record = one.record
    mine, theirs = (
        FingerprintsOfRun(each.archive, record.run_id, each.archive.ranges(record.run_id)) for each in (one, other)
    )
    spans = merged(span for span, _ in contradictions(mine, theirs))
    if spans:
        first, end = spans[0]
        more = f", and of {len(spans) - 1} more ranges" if len(spans) > 1 else ""
        pairing = first % record.line.pairings
        labels = " and ".join(record.pairings[pairing])
        yield (
            f"run {record.run_id} has different games of units {first} to {end - 1} (from pair "
            f"{first // record.line.pairings} of {labels} on){more} in {one.archive.root} and {other.archive.root}: "
            "leave one archive out"
        )


def _of_code(held: Sequence[_Held], target: Archive) -> Iterator[str]:
    """Runs whose games would come from different code: each archive in turn adds what those before it lack."""
    before = [each for each in held if each.archive is target]
    for each in (each for each in held if each.archive is not target):
        ranges = each.archive.ranges(each.record.run_id)
        known = merged(span for one in before for span in one.archive.ranges(each.record.run_id).covered)
        lacking = any(missing(known, end, first) for first, end in ranges.covered)
        code = each.record.code.get("fingerprint")
        if before and lacking and all(code not in _codes(one.record) for one in before):
            yield (
                f"run {each.record.run_id} was played by code {str(code)[:12]} in {each.archive.root}, by code "
                f"{str(before[0].record.code.get('fingerprint'))[:12]} in {before[0].archive.root}: leave one out, or "
                "unite their games with --other-code"
            )
        before.append(each)


def _codes(record: RunRecord) -> tuple[object, ...]:
    return record.code.get("fingerprint"), *record.code.get("extended_by", ())


# Records.


def _differing(
    archives: Sequence[Archive], of: Callable[[Archive], Iterable[tuple[str, object]]], remedy: str
) -> Iterator[str]:
    """The records of one name that archives have with different content."""
    known: dict[str, tuple[object, Archive]] = {}
    for archive in archives:
        for name, content in of(archive):
            first, where = known.setdefault(name, (content, archive))
            if first != content:
                yield f"{name} is another one in {archive.root} than in {where.root}: {remedy}"


def _jobs(archive: Archive) -> Iterator[tuple[str, object]]:
    for job in archive.sweep_jobs():
        yield f"job {job.job} of sweep {job.sweep_id}", dump(job)


def _verdicts(archive: Archive) -> Iterator[tuple[str, object]]:
    for path in sprt_verdicts.files(archive):
        verdict = sprt_verdicts.read(archive, path)
        yield f"verdict {verdict.verdict_id} of run {verdict.run_id}", (verdict.accepted, verdict.counts)


# Policies.


class AddedPolicy(NamedTuple):
    """A policy that a source has and the target lacks, and its card in the target."""

    source: Archive
    card: PolicyCard
    new: PolicyCard


def renamed_policies(sources: Sequence[Archive], target: Archive, options: MergeOptions) -> list[AddedPolicy]:
    """The policies to be added, those of each source oldest first.

    Raises ``RequestError`` for a prefix that makes no name.
    """
    there, added = policy_cards.cards(target), list[AddedPolicy]()
    for source in sources:
        cards = policy_cards.cards(source)
        clashing = {name for name, _, _ in _clashes(cards, there)}
        for card in cards:
            name = options.prefix + card.name if card.name in clashing else card.name
            policy_store.check_name(name, "--prefix")
            new = structs.replace(card, name=name, policy_id=policy_cards.policy_id_of(name, card.knowledge))
            if not {card.policy_id, new.policy_id} & {each.policy_id for each in there}:
                added.append(AddedPolicy(source, card, new))
        there = [*there, *(each.new for each in added if each.source is source)]
    return added


def _clashes(theirs: Sequence[PolicyCard], ours: Sequence[PolicyCard]) -> Iterator[tuple[str, PolicyCard, PolicyCard]]:
    """The names of policies with other content on either side, and the newest of those policies."""
    known, new = {card.policy_id for card in ours}, {card.policy_id for card in theirs}
    for name in dict.fromkeys(card.name for card in theirs):
        added = [card for card in theirs if card.name == name and card.policy_id not in known]
        others = [card for card in ours if card.name == name and card.policy_id not in new]
        if added and others:
            yield name, added[-1], others[-1]


def _of_policies(sources: Sequence[Archive], target: Archive, options: MergeOptions) -> Iterator[str]:
    for one, other in [] if options.prefix else combinations([target, *sources], 2):
        for name, theirs, ours in _clashes(policy_cards.cards(other), policy_cards.cards(one)):
            yield (
                f"policy {name!r} is {theirs.policy_id} in {other.root} and {ours.policy_id} in {one.root}: give "
                f"--prefix, which renames that of {other.root}"
            )
