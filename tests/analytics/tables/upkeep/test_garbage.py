"""What ``gc`` lists and removes: nothing that counts, no games that are nowhere else, nothing that is not ours."""

from __future__ import annotations

import re
import time
from pathlib import PurePath

import pytest
from msgspec import structs

from analytics.store import policy_store
from analytics.store.archive import ArchiveStore
from analytics.store.range_files import write_slices
from analytics.store.ranges import StoredRange, split_aligned
from analytics.store.records import SweepJob
from analytics.tables.derived.indexing import index_runs
from analytics.tables.upkeep import garbage
from analytics.tables.upkeep.compaction import compact_run
from analytics.tables.upkeep.garbage import (
    UnneededFile,
    list_needed_and_replaced_files,
    list_unneeded_files,
    parse_age,
    remove_replaced_files,
    remove_unneeded_files,
)
from analytics.tables.verification.archive import verify_archive
from quarto.errors import FailureError, RequestError
from tests.analytics.folders import read_contents
from tests.analytics.naive_games import RUN_ID, SEED, build_random_blocks, build_spec, record, store_span
from tests.analytics.stored_policies import COUNTS, CURVE, origin
from tests.object_storage import BOTH

HOUR = parse_age("1h")


def write(archive: ArchiveStore, span: tuple[int, int], seed: int = SEED) -> StoredRange:
    """Store the games of some units: those of ``BLOCKS`` and more of them, or with another seed others."""
    return store_span(archive, span, build_random_blocks(seed, 24))


def litter(archive: ArchiveStore) -> tuple[list[PurePath], list[PurePath]]:
    """Write files as crashes leave them, and files that somebody else put there."""
    part = StoredRange(64, 128, 7, "01234567").name
    ours = [
        archive.folder(table, RUN_ID) / name for table in ("decisions", "plies") for name in (part, f".tmp-{'b' * 32}")
    ]
    ours += [archive.root / "runs" / f".tmp-{'d' * 32}", archive.root / f".tmp-{'e' * 32}"]
    ours += [archive.folder("plies", "0123456789ab") / part]
    foreign = [archive.root / "notes.txt", archive.folder("games", RUN_ID) / "part-1.parquet"]
    foreign += [
        archive.folder("verdicts", RUN_ID) / part,
        archive.root / "games" / part,
        archive.root / "runs" / "x.json",
    ]
    for path in [*ours, *foreign]:
        archive.backend.replace(path, b"12345")
    return sorted(ours), sorted(foreign)


def later(archive: ArchiveStore, monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    now = archive.backend.read_clock(archive.root)
    monkeypatch.setattr(archive.backend, "read_clock", lambda _root: now + seconds)


@BOTH
def test_what_does_not_count_is_found_and_only_ours_removed(
    archive: ArchiveStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive.write_sweep_job(SweepJob("s", 0))
    ours, foreign = litter(archive)
    elsewhere = archive.root / "notebooks" / "p1" / "table.parquet"
    archive.backend.replace(elsewhere, b"x")
    assert remove_unneeded_files(archive, list_unneeded_files(archive), HOUR) == []  # young ones may belong to a writer
    later(archive, monkeypatch, HOUR + 60)
    unneeded = list_unneeded_files(archive)
    assert [file.path for file in unneeded] == sorted([*ours, *foreign])
    assert [file.path for file in unneeded if file.ours] == ours
    assert all(file.bytes == 5 and file.age_seconds > HOUR for file in unneeded)
    assert sorted(file.path for file in remove_unneeded_files(archive, unneeded, HOUR)) == ours
    assert [file.path for file in list_unneeded_files(archive)] == foreign
    assert archive.backend.status(elsewhere)
    assert not verify_archive(archive).problems


@BOTH
def test_what_was_replaced_is_removed_when_its_replacement_is_old_enough(
    archive: ArchiveStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive.write_run_and_unit_count(record(games=16))  # all that was asked for
    index_runs(archive, [RUN_ID], 3)
    fingerprint = archive.list_effective_ranges(RUN_ID).fingerprint
    old = {
        archive.folder(table, RUN_ID) / stored.name
        for table in ("games", "plies", "tallies", "positions", "first_plies")
        for stored in archive.list_effective_ranges(RUN_ID, table)
    }
    compact_run(archive, RUN_ID)
    assert [stored[:2] for stored in archive.list_effective_ranges(RUN_ID)] == [(0, 24)]
    unneeded = list_unneeded_files(archive)
    assert {file.path for file in unneeded} == old
    assert unneeded[0].path.parent.parent.name == "games"  # before the plies, by which they count no more
    assert remove_replaced_files(archive, RUN_ID) == 0
    assert remove_unneeded_files(archive, unneeded, HOUR) == []
    later(archive, monkeypatch, 601)
    assert remove_replaced_files(archive, RUN_ID) == len(unneeded)
    assert list_unneeded_files(archive) == []
    assert archive.list_effective_ranges(RUN_ID).fingerprint == fingerprint
    assert not verify_archive(archive).problems


def test_the_age_is_that_of_the_youngest_file_that_counts_in_its_place(
    archive: ArchiveStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = write(archive, (4, 8))
    files = list_needed_and_replaced_files(archive, RUN_ID)
    mine = archive.folder("games", RUN_ID) / small.name
    counting = archive.find_path_of_containing_file("games", RUN_ID, archive.list_effective_ranges(RUN_ID)[0])
    status = archive.backend.status(counting)
    assert status is not None
    assert files.replaced[mine] == status.modified
    assert {path.parent.parent.name for path in files.replaced} == {"games", "plies", "tallies"}


def test_a_file_that_overlaps_another_stays_until_others_hold_its_games(archive: ArchiveStore) -> None:
    """Check a run of 20 units that met one of 32: of the file that was cut, units 20 to 31 count."""
    for stored in archive.list_effective_ranges(RUN_ID):
        for table in ("games", "plies", "tallies"):
            archive.backend.remove(archive.find_path_of_containing_file(table, RUN_ID, stored))
    archive.forget_cached_listings()
    files = [write(archive, (16, 32)), write(archive, (0, 20))]
    assert [stored[:2] for stored in archive.list_effective_ranges(RUN_ID)] == [(0, 20), (20, 32)]
    remove_unneeded_files(archive, list_unneeded_files(archive), 0)
    assert sorted(archive.list_files("games", RUN_ID)) == sorted(files)
    write(archive, (20, 24))  # played again: still units 24 to 31 are in the one file alone
    assert remove_unneeded_files(archive, list_unneeded_files(archive), 0) == []
    assert write_slices(archive, RUN_ID) == 1
    assert [stored[:2] for stored in archive.list_effective_ranges(RUN_ID)] == [(0, 20), (20, 24), (24, 32)]
    removed = remove_unneeded_files(archive, list_unneeded_files(archive), 0)
    assert sorted(file.path.parent.parent.name for file in removed) == ["games", "plies"]
    assert archive.list_effective_ranges(RUN_ID).covered_ranges == [(0, 32)]
    assert not verify_archive(archive).problems


def tables(archive: ArchiveStore) -> dict[PurePath, bytes]:
    """Return the files of tables, without records, which say what there was once."""
    return {path: content for path, content in read_contents(archive).items() if path.parent.name.startswith("run=")}


def test_of_contradicting_games_both_stay_with_what_follows_from_them(
    archive: ArchiveStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Copy a larger file into the archive: nobody knows whose games are right, so nothing is removed."""
    index_runs(archive, [RUN_ID])
    before = tables(archive)
    write(archive, (0, 24), seed=2)
    assert verify_archive(archive).problems
    later(archive, monkeypatch, 2 * HOUR)
    index_runs(archive, [RUN_ID])
    compact_run(archive, RUN_ID)
    remove_unneeded_files(archive, list_unneeded_files(archive), 0)
    assert tables(archive).items() >= before.items()
    forged = archive.list_effective_ranges(RUN_ID)[0]
    for table in ("games", "plies"):
        archive.backend.remove(archive.find_path_of_containing_file(table, RUN_ID, forged))
    archive.forget_cached_listings()
    remove_unneeded_files(archive, list_unneeded_files(archive), 0)
    assert tables(archive) == before
    assert not verify_archive(archive).problems


def test_a_removal_that_was_stopped_goes_on(archive: ArchiveStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Check files that no longer make up their parent: its games are read to compare."""
    for span in split_aligned(24, 32):
        write(archive, span)
    compact_run(archive, RUN_ID)
    later(archive, monkeypatch, HOUR)
    replaced = [file for file in list_unneeded_files(archive) if file.path.parts[-3] == "games"]
    assert len(replaced) > 2
    for path in (replaced[0].path, replaced[-1].path):
        archive.backend.remove(path)
    remove_unneeded_files(archive, list_unneeded_files(archive), 0)
    assert [stored[:2] for stored in archive.list_files("games", RUN_ID)] == [(0, 32)]
    assert not verify_archive(archive).problems


def test_a_table_that_grows_part_by_part_is_kept_until_it_is_whole(archive: ArchiveStore) -> None:
    """Check exact values of slow games, which come in parts of a file of games and count when all are there."""
    games = archive.list_effective_ranges(RUN_ID)[0]
    half = StoredRange(0, 8, 1234, "01234567", "16")
    complete = games._replace(checksum="01234567", extent="16")
    folder = archive.folder("decisions", RUN_ID)
    archive.write_file(folder / half.name, b"part")
    assert list_unneeded_files(archive) == []
    archive.write_file(folder / complete.name, b"whole")
    assert [file.path for file in list_unneeded_files(archive)] == [folder / half.name]
    more = complete._replace(extent="16c", checksum="89abcdef")
    archive.write_file(folder / more.name, b"with choices")
    assert {file.path.name for file in list_unneeded_files(archive)} == {half.name, complete.name}
    archive.write_file(folder / complete._replace(extent="12c", checksum="00000000").name, b"less")
    assert {more.name} == {
        path.name for path in list_needed_and_replaced_files(archive, RUN_ID).needed if path.parent == folder
    }


def test_what_was_written_after_it_was_listed_stays(archive: ArchiveStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a writer that stood still write its games between the list and the removal of its plies."""
    listed: list[UnneededFile] = []
    put = ArchiveStore.write_file

    def stand_still(self: ArchiveStore, path: PurePath, content: bytes) -> None:
        if path.parts[-3] == "games":
            listed.extend(list_unneeded_files(archive))
        put(self, path, content)

    monkeypatch.setattr(ArchiveStore, "write_file", stand_still)
    write(archive, (24, 32))
    assert sorted(file.path.parent.parent.name for file in listed) == ["plies", "tallies"]
    assert remove_unneeded_files(archive, listed, 0) == []
    assert verify_archive(archive).problems == []


@BOTH
def test_files_of_a_policy_count_once_its_card_names_them(archive: ArchiveStore) -> None:
    card = policy_store.save(archive, COUNTS, origin(tables={"curve": CURVE}))
    assert list_unneeded_files(archive) == []
    folder = archive.root / "policies" / card.policy_id
    archive.backend.replace(folder / "notes.txt", b"mine")
    archive.backend.replace(folder / f"curve-{'0' * 16}.parquet", b"of a killed writer")
    assert [(file.path.name[:6], file.ours) for file in list_unneeded_files(archive)] == [
        ("curve-", True),
        ("notes.", False),
    ]
    archive.backend.replace(folder / "card.json", b"{")
    with pytest.raises(FailureError, match=re.escape(str(folder / "card.json"))):
        list_unneeded_files(archive)


@BOTH
def test_a_clock_that_jumps_back_removes_nothing_and_keeps_the_order_of_runs(
    archive: ArchiveStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Check also this machine's clock, two hours ahead of the file system's."""
    litter(archive)
    write(archive, (0, 4))
    ahead = time.time() + 2 * HOUR
    with monkeypatch.context() as patch:
        patch.setattr(time, "time", lambda: ahead)
        assert remove_unneeded_files(archive, list_unneeded_files(archive), HOUR) == []
        assert remove_replaced_files(archive, RUN_ID, garbage.GRACE_SECONDS) == 0
    later(archive, monkeypatch, -HOUR)
    assert remove_unneeded_files(archive, list_unneeded_files(archive), 1.0) == []
    other = record(build_spec(seed=77))
    archive.write_run_and_unit_count(
        structs.replace(other, number=archive.compute_next_run_number(), created="1999-01-01T00:00:00+00:00")
    )
    assert [run.run_id for run in archive.load_runs()][-1] == other.run_id


def test_an_age_has_a_unit() -> None:
    for text, seconds in {"0": 0, "90": 90, "90s": 90, "30m": 1800, "1.5h": 5400, "2d": 172800}.items():
        assert parse_age(text) == seconds
    for text in ("", "h", "-1h", "1 h", "1w", "one hour", "1e3"):
        with pytest.raises(RequestError, match=f"--age {text} is not a time"):
            parse_age(text)
