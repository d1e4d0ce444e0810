"""Several archives as one: what is united, what is refused, and that the sources stay as they are."""

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from agents.learning.policy import Policy
from analytics.derived_tables.position_index import INDEXES, index_jobs, index_shards
from analytics.policies import policy_store
from analytics.statistics.sprt import Hypotheses
from analytics.store import policy_cards, sprt_verdicts
from analytics.store.archive import Archive
from analytics.store.records import SweepJob
from analytics.upkeep.compaction import compact
from analytics.upkeep.merging import Merged, MergeOptions, merge, opened
from analytics.verify.archive import verify
from quarto.errors import RequestError
from tests.analytics.folders import contents, snapshot
from tests.analytics.naive_games import PAIRINGS, RUN_ID, random_block, record, spec_of
from tests.analytics.stored_policies import origin
from tests.analytics.upkeep.test_compaction import rows
from tests.marks import seldom
from tests.object_storage import BOTH

OTHER = record(spec_of(seed=8))
PLAIN = MergeOptions()


def made(root: Path, blocks: list[list[Any]], run: Any = None) -> Archive:
    archive = Archive.open(root, create=True)
    archive.save_run(run or record())
    for each in blocks:
        assert archive.commit((run or record()).run_id, each, PAIRINGS)
    archive.update_run((run or record()).run_id, lambda known: known)
    return archive


def joined(sources: list[Archive], target: Archive, options: MergeOptions = PLAIN) -> Merged:
    return merge([opened(source.root) for source in sources], Archive.open(target.root, create=True), options)


@BOTH
def test_runs_are_united_by_pairs_and_again_there_is_nothing_to_do(archive: Archive, tmp_path: Path) -> None:
    """One shard is new, one overlaps with what is there, one is there already, and one run is."""
    first = made(
        tmp_path / "first",
        [[random_block(1, 0, 8, 4)], [random_block(1, 0, 4, 4), random_block(1, 0, 12, 4)], [random_block(1, 1, 40)]],
    )
    second = made(tmp_path / "second", [[random_block(2, 0, 0)]], OTHER)
    before = {source: snapshot(Path(source.root)) for source in (first, second)}
    games = rows(archive.root)["games"].height
    done = joined([first, second], archive)
    assert (done.runs, done.shards, done.games) == (1, 3, 8 + 16 + 16)
    target = Archive(archive.root)
    assert target.covered(RUN_ID) == {0: [(0, 16)], 1: [(0, 8), (40, 48)], 2: [(0, 8)]}
    assert rows(archive.root)["games"].height == games + 40
    assert rows(archive.root)["games"].filter(run_id=OTHER.run_id).equals(rows(second.root)["games"])
    assert not verify(target).problems
    for source, known in before.items():
        assert snapshot(Path(source.root)) == known
    there = contents(target)
    assert joined([first, second], archive) == Merged()
    assert contents(target) == there
    compact(target, RUN_ID)
    assert joined([first, second], archive) == Merged()


def test_everything_of_an_archive_is_in_the_new_one(archive: Archive, tmp_path: Path) -> None:
    index_shards(archive, index_jobs(archive, INDEXES.shards(archive, [RUN_ID])), 1)
    archive.save_sweep_job(SweepJob("s1", 0, {"a": "1"}, RUN_ID))
    trial = sprt_verdicts.trial(archive, RUN_ID, Hypotheses(0.0, 10.0), 12)
    sprt_verdicts.save(archive, sprt_verdicts.Verdict.from_trial(RUN_ID, trial, "qarena sprt"))
    policy_store.save(archive, Policy("genome", {"gene": 1.0}), origin("mine"))
    done = joined([archive], Archive.open(tmp_path / "new", create=True))
    assert done == Merged(runs=1, shards=2, games=56, policies=1, verdicts=1, jobs=1, tables=2)
    new = Archive(tmp_path / "new")
    assert not verify(new).problems
    assert new.sweep_jobs() == archive.sweep_jobs()
    assert policy_store.read(new, "mine")[1].parameters == {"gene": 1.0}
    assert [shard.manifest is not None for shard in INDEXES.shards(new, [RUN_ID])] == [True, True]
    assert rows(new.root)["plies"].equals(rows(archive.root)["plies"])


def test_policies_of_one_name_and_other_content_need_a_prefix(archive: Archive, tmp_path: Path) -> None:
    other = made(tmp_path / "other", [])
    for store, gene in ((archive, 1.0), (other, 2.0)):
        policy_store.save(store, Policy("genome", {"gene": gene}), origin("mine"))
    there = contents(archive)
    (ours,), (theirs,) = policy_cards.policy_ids(archive), policy_cards.policy_ids(other)
    with pytest.raises(RequestError, match=rf"policy 'mine' is {theirs} in .* and {ours} in .*give --prefix"):
        joined([other], archive)
    assert contents(archive) == there
    for _ in range(2):
        joined([other], archive, MergeOptions(prefix="other-"))
        genes = {card.name: card.parameters["gene"] for card in policy_cards.cards(archive)}
        assert genes == {"mine": 1.0, "other-mine": 2.0}
    assert not verify(archive).problems


def test_games_of_other_code_are_united_on_request_only(archive: Archive, tmp_path: Path) -> None:
    run = record()
    run = structs.replace(run, code={**run.code, "fingerprint": "cd" * 32})
    other = made(tmp_path / "other", [[random_block(1, 0, 60)]], run)
    with pytest.raises(RequestError, match=f"run {RUN_ID} was played by code cdcdcdcdcdcd in .*--other-code"):
        joined([other], archive)
    assert joined([other], archive, MergeOptions(other_code=True)).games == 16
    known = Archive(archive.root).run(RUN_ID)
    assert known is not None
    assert known.code["extended_by"] == ["cd" * 32]
    assert joined([other], archive) == Merged()


@pytest.mark.parametrize("what", ["job", "verdict", "no record"])
def test_what_conflicts_is_named_before_anything_is_written(archive: Archive, tmp_path: Path, what: str) -> None:
    other = made(tmp_path / "other", [[random_block(1, 0, 60)]])
    for wins, store in ((8, archive), (0, other)):
        if what == "job":
            store.save_sweep_job(SweepJob("s1", 0, {"a": str(wins)}))
        elif what == "verdict":
            verdict(store, wins)
    if what == "no record":
        Path(other.record_file(RUN_ID)).unlink()
    there = contents(archive)
    message = {"job": "job 0 of sweep s1", "verdict": "different results of one test", "no record": "has no record"}
    with pytest.raises(RequestError, match=message[what]):
        joined([other], archive)
    assert contents(archive) == there


def verdict(archive: Archive, wins: int) -> None:
    counts = (0, 0, 8 - wins, 0, wins)
    hypotheses = Hypotheses(0.0, 10.0)
    name = sprt_verdicts.verdict_id_of(hypotheses, 8)
    stored = sprt_verdicts.Verdict(name, RUN_ID, hypotheses, 8, None, 8, counts, 0.1, record().created, "")
    archive.save(sprt_verdicts.path_of(archive, RUN_ID, name), stored)


class KilledError(BaseException):
    """The end of a process."""


@pytest.mark.parametrize("step", [14, *seldom(1, 4, 8, 11, 20, 26)])
def test_killed_at_any_write_the_same_merge_goes_on(
    archive: Archive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    policy_store.save(archive, Policy("genome", {"gene": 1.0}), origin("mine"))
    target, steps, real = Archive.open(tmp_path / "new", create=True), iter(range(1, 1000)), os.fsync

    def killed(descriptor: int) -> None:
        if next(steps) >= step:
            raise KilledError
        real(descriptor)

    monkeypatch.setattr(os, "fsync", killed)
    monkeypatch.setattr(Path, "unlink", lambda *_arguments, **_options: None)
    with suppress(KilledError):
        joined([archive], target)
    assert next(steps) > step
    monkeypatch.undo()
    joined([archive], target)
    assert rows(target.root)["games"].equals(rows(archive.root)["games"])
    assert not verify(Archive(target.root)).problems
    assert joined([archive], target) == Merged()
