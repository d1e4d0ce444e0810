"""Several archives as one: what is united, what is refused, and that the sources stay as they are."""

from __future__ import annotations

import io
import random
from collections.abc import Callable, Sequence
from itertools import permutations
from pathlib import Path

import polars as pl
import pytest
from msgspec import structs

from agents.learning.policy import Policy
from analytics.statistics.sprt import Hypotheses
from analytics.store import policy_cards, policy_store, sprt_verdicts
from analytics.store.archive import ArchiveStore
from analytics.store.ranges import Range, StoredRange, compute_checksum, split_into_files
from analytics.store.records import RunRecord, SweepJob
from analytics.tables.derived.indexing import index_runs
from analytics.tables.upkeep.archive_merge import MergeOptions, MergeSummary, merge_archives
from analytics.tables.upkeep.compaction import compact_run
from analytics.tables.upkeep.garbage import list_unneeded_files
from analytics.tables.verification.archive import verify_archive
from quarto.errors import FailureError, RequestError
from tests.analytics.folders import copy_archive, read_contents, snapshot
from tests.analytics.naive_games import RUN_ID, SEED, build_random_blocks, build_spec, record, store_span
from tests.analytics.stored_policies import origin
from tests.marks import seldom
from tests.object_storage import BOTH

OTHER = record(build_spec(seed=8))
PLAIN = MergeOptions()
UNITS = 96


def write(archive: ArchiveStore, span: Range, run: RunRecord | None = None, seed: int = SEED) -> StoredRange:
    """Store the games of some units; those of another seed are others."""
    return store_span(archive, span, build_random_blocks(seed, UNITS // 3), (run or record()).run_id)


def made(root: Path, spans: Sequence[Range], run: RunRecord | None = None, seed: int = SEED) -> ArchiveStore:
    archive = ArchiveStore.open(root, create=True)
    archive.write_run_and_unit_count(run or record())
    for span in spans:
        write(archive, span, run, seed)
    archive.update_run_and_unit_count((run or record()).run_id, lambda stored: stored)
    return archive


def joined(sources: list[ArchiveStore], target: ArchiveStore, options: MergeOptions = PLAIN) -> MergeSummary:
    return merge_archives(
        [ArchiveStore.open(source.root) for source in sources], ArchiveStore.open(target.root, create=True), options
    )


def whole(archive: ArchiveStore, run_id: str = RUN_ID) -> tuple[list[Range], int]:
    ranges = archive.list_effective_ranges(run_id)
    return ranges.covered_ranges, ranges.fingerprint


# Games.


@BOTH
def test_runs_are_united_and_again_there_is_nothing_to_do(archive: ArchiveStore, tmp_path: Path) -> None:
    """Merge a file that is new, one that is there, one that holds what is there, one that is a part, and a new run."""
    target = archive
    for stored_range in archive.list_effective_ranges(RUN_ID):
        for table in ("games", "plies", "tallies"):
            archive.backend.remove(archive.find_path_of_containing_file(table, RUN_ID, stored_range))
    for span in ((0, 16), (16, 24), (64, 80)):
        write(target, span)
    first = made(tmp_path / "first", [(16, 24), (32, 48), (64, 96), (4, 8)])
    second = made(tmp_path / "second", [(0, 24)], OTHER, 2)
    before = {source: snapshot(Path(source.root)) for source in (first, second)}
    done = joined([first, second], target)
    assert done == MergeSummary(runs=1, games=2 * (16 + 16 + 24))
    assert whole(target)[0] == [(0, 24), (32, 48), (64, 96)]
    assert whole(target, OTHER.run_id) == whole(second, OTHER.run_id)
    assert not verify_archive(target).problems
    for stored in (*target.list_effective_ranges(RUN_ID), *target.list_effective_ranges(OTHER.run_id)):  # byte for byte
        for source in (first, second):
            for table in ("plies", "tallies", "games"):
                path = source.folder(table, RUN_ID if source is first else OTHER.run_id) / stored.name
                if source.backend.status(path):
                    assert target.backend.read(target.folder(table, path.parent.name[4:]) / stored.name) == (
                        source.backend.read(path)
                    )
    for source, content in before.items():
        assert snapshot(Path(source.root)) == content
    there = read_contents(target)
    assert joined([first, second], target) == MergeSummary()
    assert read_contents(target) == there
    compact_run(target, RUN_ID)
    assert joined([first, second], target) == MergeSummary()


def test_the_record_says_what_there_is(tmp_path: Path) -> None:
    first = made(tmp_path / "a", [(0, 64)], record(games=42, seconds=3.0, created="2026-01-02T00:00:00Z"))
    second = made(tmp_path / "b", [(64, 96)], record(games=64, seconds=9.0, created="2026-01-01T00:00:00Z"))
    for order in ([first, second], [second, first]):
        target = ArchiveStore.open(tmp_path / f"to-{order[0].root.name}", create=True)
        joined(order, target)
        merged = target.load_run(RUN_ID)
        assert (merged.games, merged.seconds, merged.created[:10], merged.units) == (64, 9.0, "2026-01-01", UNITS)
        assert (merged.status, merged.number) == ("complete", 1)


@pytest.mark.parametrize("seed", [5, *seldom(0, 1, 2, 3, 4, 6, 7)])
def test_whoever_played_which_part_the_whole_has_each_unit_once(tmp_path: Path, seed: int) -> None:
    """Check runs of different numbers of games, whose last files overlap other files in part."""
    dice, sources = random.Random(seed), list[ArchiveStore]()
    for name in "abc":
        total, spans = dice.randrange(8, UNITS + 1), list[Range]()
        most = dice.choice((4, 16, 64, 256))
        for span in split_into_files(0, total, total, most):
            if dice.random() < 0.8:
                spans.append(span)
        dice.shuffle(spans)
        sources.append(made(tmp_path / name, spans, record(games=2 * (total // 3))))
    expected = {unit for source in sources for first, end in whole(source)[0] for unit in range(first, end)}
    results = []
    for number, order in enumerate(permutations(sources)):
        target = ArchiveStore.open(tmp_path / f"to{number}", create=True)
        counted = 0
        for upto in (1, 3):
            joined(list(order[:upto]), target)
            assert target.list_effective_ranges(RUN_ID).units >= counted
            counted = target.list_effective_ranges(RUN_ID).units
        merged = whole(target)
        assert {unit for first, end in merged[0] for unit in range(first, end)} == expected
        assert joined(list(order), target) == MergeSummary()
        results.append(merged)
    assert not verify_archive(target).problems
    assert len({str(result) for result in results}) == 1


# Contradictions.


@pytest.mark.parametrize(
    ("mine", "theirs"),
    [
        ([(0, 32)], [(0, 32)]),
        ([(0, 32)], [(8, 16)]),  # nested
        ([(8, 16)], [(0, 32)]),
        ([(0, 20)], [(16, 32)]),  # in part
        ([(0, 16), (16, 32)], [(0, 32)]),
        ([(0, 4), (4, 6), (20, 21)], [(0, 21)]),
    ],
    ids=str,
)
def test_different_games_of_one_range_are_refused_before_anything_is_written(
    tmp_path: Path, mine: list[Range], theirs: list[Range]
) -> None:
    """Check that the order of archives makes no difference, though other runs could be merged."""
    one, other = made(tmp_path / "one", mine), made(tmp_path / "other", theirs, seed=2)
    third = made(tmp_path / "third", [(0, 8)], OTHER)
    archives = [one, other, third]
    before = {archive.root: read_contents(archive) for archive in archives}
    first = max(mine[0][0], theirs[0][0])
    for order in permutations(archives):
        with pytest.raises(RequestError, match=f"run {RUN_ID} has different games of units {first} to ") as caught:
            joined(list(order[:2]), order[2])
        with pytest.raises(RequestError):
            joined(list(order), empty := ArchiveStore.open(tmp_path / "empty", create=True))
        assert str(one.root) in str(caught.value)
        assert str(other.root) in str(caught.value)
        assert "\n" not in str(caught.value)
        assert " of random and rule_based on)" in str(caught.value) or first % 3
        assert {archive.root: read_contents(archive) for archive in archives} == before
        assert [path.name for path in read_contents(empty)] == ["archive.json"]


def test_the_same_games_in_other_bytes_are_no_contradiction(tmp_path: Path) -> None:
    one = made(tmp_path / "one", [(0, 32)])
    other = copy_archive(one, tmp_path / "other")
    (stored,) = other.list_effective_ranges(RUN_ID)
    buffer = io.BytesIO()
    path = other.find_path_of_containing_file("games", RUN_ID, stored)
    pl.read_parquet(Path(path)).write_parquet(buffer, compression="uncompressed")
    Path(path).unlink()
    other.write_file(
        path.parent / stored._replace(checksum=compute_checksum(buffer.getvalue())).name, buffer.getvalue()
    )
    assert joined([one], other) == joined([other], one) == MergeSummary()


@pytest.mark.parametrize("table", ["games", "plies"])
@pytest.mark.parametrize(
    "harm", [lambda path: path.unlink(), lambda path: path.write_bytes(b"x")], ids=["gone", "bytes"]
)
def test_a_damaged_source_is_named_and_what_was_copied_is_sound(
    tmp_path: Path, table: str, harm: Callable[[Path], None]
) -> None:
    source = made(tmp_path / "one", [(0, 32), (32, 64)])
    target = ArchiveStore.open(tmp_path / "to", create=True)
    path = source.find_path_of_containing_file(table, RUN_ID, source.list_effective_ranges(RUN_ID)[1])
    harm(Path(path))
    if table == "games" and not Path(path).exists():
        assert joined([source], target).games == 64
    else:
        with pytest.raises(FailureError, match=r"see 'qarena archive verify'"):
            joined([source], target)
    assert target.list_effective_ranges(RUN_ID).covered_ranges == [(0, 32)]
    assert not verify_archive(target).problems


# Everything else.


def test_everything_of_an_archive_is_in_the_new_one(archive: ArchiveStore, tmp_path: Path) -> None:
    index_runs(archive, [RUN_ID], 3)
    archive.write_sweep_job(SweepJob("s1", 0, {"a": "1"}, RUN_ID))
    trial = sprt_verdicts.run_sequential_test(archive, RUN_ID, Hypotheses(0.0, 10.0), 8)
    sprt_verdicts.write_verdict_and_list_in_run(
        archive, sprt_verdicts.SprtVerdict.from_test(RUN_ID, trial, "qarena sprt")
    )
    policy_store.save(archive, Policy("genome", {"gene": 1.0}), origin("mine"))
    new = ArchiveStore.open(tmp_path / "new", create=True)
    done = joined([archive], new)
    tables = {table: archive.list_files(table, RUN_ID) for table in ("positions", "first_plies", "tallies")}
    files = len(tables["positions"]) + len(tables["first_plies"])
    assert done == MergeSummary(runs=1, games=48, policies=1, verdicts=1, jobs=1, tables=files)
    assert not verify_archive(new).problems
    assert list_unneeded_files(new) == []
    assert new.load_sweep_jobs() == archive.load_sweep_jobs()
    assert policy_store.read(new, "mine")[1].parameters == {"gene": 1.0}
    for table, files_of_table in tables.items():
        assert sorted(new.list_files(table, RUN_ID)) == sorted(files_of_table)
    assert whole(new) == whole(archive)
    there = read_contents(new)
    assert joined([archive], new) == MergeSummary()
    assert read_contents(new) == there


def test_derived_tables_of_files_that_were_rolled_up_come_as_well(tmp_path: Path) -> None:
    source = made(tmp_path / "one", [(0, 8), (8, 16), (16, 32)], record(games=22))
    index_runs(source, [RUN_ID], 3)
    coarse = copy_archive(source, tmp_path / "coarse")
    compact_run(coarse, RUN_ID)
    for one, other in ((source, coarse), (coarse, source)):
        target = made(
            tmp_path / f"to-{one.root.name}",
            [stored[:2] for stored in other.list_effective_ranges(RUN_ID)],
            record(games=22),
        )
        assert joined([one], target).games == 0
        for table in ("positions", "first_plies"):
            assert target.list_effective_ranges(RUN_ID, table).covered_ranges == [(0, 32)]
        assert verify_archive(target).problems == []
        assert joined([one], target) == MergeSummary()


def test_policies_of_one_name_and_other_content_need_a_prefix(archive: ArchiveStore, tmp_path: Path) -> None:
    other = made(tmp_path / "other", [])
    for store, gene in ((archive, 1.0), (other, 2.0)):
        policy_store.save(store, Policy("genome", {"gene": gene}), origin("mine"))
    there = read_contents(archive)
    (ours,), (theirs,) = policy_cards.list_policy_ids(archive), policy_cards.list_policy_ids(other)
    with pytest.raises(RequestError, match=rf"policy 'mine' is {theirs} in .* and {ours} in .*give --prefix"):
        joined([other], archive)
    with pytest.raises(RequestError, match="policy 'mine' is"):  # two sources
        joined([archive, other], ArchiveStore.open(tmp_path / "empty", create=True))
    assert read_contents(archive) == there
    for _ in range(2):
        joined([other], archive, MergeOptions(prefix="other-"))
        genes = {card.name: card.parameters["gene"] for card in policy_cards.load_cards(archive)}
        assert genes == {"mine": 1.0, "other-mine": 2.0}
    assert not verify_archive(archive).problems
    with pytest.raises(RequestError, match="--prefix='1-mine' cannot be a name"):
        joined([other], archive, MergeOptions(prefix="1-"))


def test_games_of_other_code_are_united_on_request_only(tmp_path: Path) -> None:
    first = record()  # both begin at the same moment
    run = structs.replace(first, code={**first.code, "fingerprint": "cd" * 32})
    one, other = made(tmp_path / "one", [(0, 32)], first), made(tmp_path / "other", [(0, 32), (32, 48)], run)
    for sources, target in (([other], one), ([one, other], ArchiveStore.open(tmp_path / "a", create=True))):
        before = read_contents(target)
        with pytest.raises(RequestError, match=rf"run {RUN_ID} was played by code (cd|ab){{6}} in .*--other-code"):
            joined(sources, target)
        assert read_contents(target) == before
    assert joined([one], ArchiveStore(other.root)) == MergeSummary()  # it has all of these games
    assert other.load_run(RUN_ID).code == run.code  # and none was played by other code
    assert joined([other], one, MergeOptions(other_code=True)).games == 32
    assert one.load_run(RUN_ID).code["extended_by"] == ["cd" * 32]
    assert joined([other], one) == MergeSummary()


@pytest.mark.parametrize("knows", ["source", "target"])
def test_games_of_code_that_plays_the_same_are_united(tmp_path: Path, knows: str) -> None:
    first = record()
    own_code, other_code = first.code["fingerprint"], "cd" * 32
    agents = dict[str, str]()
    same = {"source": {own_code: agents}, "target": {other_code: agents}}[knows]
    codes = {"source": {**first.code, "fingerprint": other_code}, "target": dict(first.code)}
    codes[knows] = {**codes[knows], "same_games": same}
    target = made(tmp_path / "one", [(0, 32)], structs.replace(first, code=codes["target"]))
    source = made(tmp_path / "other", [(32, 48)], structs.replace(first, code=codes["source"]))
    assert joined([source], target).games == 32
    code = target.load_run(RUN_ID).code
    assert (code["fingerprint"], code["extended_by"]) == (own_code, [other_code])
    assert set(code.get("same_games", ())) == ({other_code} if knows == "target" else set())


@pytest.mark.parametrize("conflict", ["job", "verdict", "no record", "spec"])
def test_what_conflicts_is_named_before_anything_is_written(tmp_path: Path, conflict: str) -> None:
    archive, other = made(tmp_path / "one", [(0, 24)]), made(tmp_path / "other", [(32, 48)])
    for wins, store in ((8, archive), (0, other)):
        if conflict == "job":
            store.write_sweep_job(SweepJob("s1", 0, {"a": str(wins)}))
        elif conflict == "verdict":
            verdict(store, wins)
    if conflict == "no record":
        Path(other.run_record_path(RUN_ID)).unlink()
    if conflict == "spec":
        other.write_run_and_unit_count(record(build_spec(seed=9), run_id=RUN_ID))
    there = read_contents(archive)
    message = {
        "job": "job 0 of sweep s1 is another one in",
        "verdict": f"verdict .* of run {RUN_ID} is another one in .*run 'qarena archive verify' on both",
        "no record": "has no record",
        "spec": "has the spec of run",
    }
    with pytest.raises(RequestError, match=message[conflict]):
        joined([other], archive)
    assert read_contents(archive) == there
    if conflict in ("job", "verdict"):  # two sources as well
        with pytest.raises(RequestError, match=message[conflict]):
            joined([other, archive], ArchiveStore.open(tmp_path / "empty", create=True))


def verdict(archive: ArchiveStore, wins: int) -> None:
    counts = (0, 0, 8 - wins, 0, wins)
    hypotheses = Hypotheses(0.0, 10.0)
    name = sprt_verdicts.compute_verdict_id(hypotheses, 8)
    stored = sprt_verdicts.SprtVerdict(name, RUN_ID, hypotheses, 8, None, 8, counts, 0.1, record().created, "")
    archive.write_record(sprt_verdicts.verdict_path(archive, RUN_ID, name), stored)
