"""Each damage that can be done to files, names and records is named, and a sound archive has none."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from analytics.store import policy_store
from analytics.store.archive import ArchiveStore
from analytics.store.ranges import compute_checksum
from analytics.store.records import SweepJob
from analytics.tables.verification.archive import Verification, verify_archive
from tests.analytics.indexed import save_own_verdict
from tests.analytics.naive_games import (
    BLOCKS,
    PAIRINGS,
    RUN_ID,
    build_random_blocks,
    build_spec,
    naive_rows,
    record,
    store,
    store_span,
)
from tests.analytics.stored_policies import COUNTS, origin
from tests.analytics.tables.verification.damage import (
    changed,
    file_of,
    forged,
    map_of_problems,
    only_problem,
    rewrite,
)
from tests.object_storage import BOTH

DEEPER = [{**agent, "params": {"depth": 3}} for agent in build_spec()["agents"]]


@BOTH
def test_a_sound_archive_has_no_problems_and_is_counted(archive: ArchiveStore) -> None:
    games, plies = naive_rows(BLOCKS, PAIRINGS)
    assert verify_archive(archive) == Verification(runs=1, ranges=2, games=len(games), plies=len(plies), problems=[])


# Files.


@BOTH
def test_truncated_and_lost_plies_are_found(archive: ArchiveStore) -> None:
    path = file_of(archive, "plies", 1)
    for keep in (500, 3, 0):
        archive.backend.replace(path, archive.backend.read(path)[:keep])
        assert only_problem(archive).startswith(f"{path}: has other bytes than its name says")
    archive.backend.remove(path)
    games = archive.list_effective_ranges(RUN_ID)[1].games_stem
    assert only_problem(archive).startswith(f"{path.parent / games}.*.parquet: missing: restore it from a copy, or")
    assert verify_archive(archive).games == 32


@pytest.mark.parametrize("table", ["games", "plies", "tallies"])
def test_a_file_that_is_not_parquet_is_found_even_with_a_forged_check(archive: ArchiveStore, table: str) -> None:
    for content in (b"", b"PAR1", b"PAR1" + bytes(40) + b"PAR1", b"PAR1" * 9):
        path = forged(archive, table, content)
        assert only_problem(archive).startswith(f"{path}: is not a readable Parquet file")
        assert verify_archive(archive).games == (48 if table == "tallies" else 16)


# Names.


@BOTH
@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ({"fingerprint": 5}, "its games have the fingerprint "),
        ({"end": 17}, "it has 32 games of 16 units, its name says 17"),
        ({"first": 1}, "row 0: the games are not, in order, those of its units"),
        ({"first": 32, "end": 48}, "row 0: the games are not, in order, those of its units"),
        ({"end": 64}, "it has 32 games of 16 units, its name says 64"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_a_name_that_lies_is_found(archive: ArchiveStore, name: dict[str, Any], complaint: str) -> None:
    """Check files of all tables under a false name, so that nothing but the rows can tell."""
    stored = archive.list_effective_ranges(RUN_ID)[0]
    for table in ("plies", "tallies", "games"):
        path = archive.find_path_of_containing_file(table, RUN_ID, stored)
        content = archive.backend.read(path)
        archive.backend.remove(path)
        renamed = archive.folder(table, RUN_ID) / stored._replace(checksum=compute_checksum(content), **name).name
        archive.write_file(renamed, content)
    assert f"{renamed}: {complaint}" in map_of_problems(archive).replace("game 0: ", "")


@BOTH
@pytest.mark.parametrize(
    ("span", "units"),
    [
        ((0, 16), (0, 15)),  # the same range
        ((4, 8), (4, 7)),  # a part of one
        ((16, 17), (16, 16)),
        ((0, 24), None),  # of two
        ((12, 20), None),  # of a run of another length: some units of both
    ],
    ids=str,
)
def test_files_that_contradict_each_other_are_found(
    archive: ArchiveStore, span: tuple[int, int], units: tuple[int, int] | None
) -> None:
    before = [*archive.list_effective_ranges(RUN_ID)]
    other = store_span(archive, span, build_random_blocks(2, 22))
    ignored = [stored for stored in [*before, other] if stored not in archive.list_effective_ranges(RUN_ID)]
    problems = [str(problem) for problem in verify_archive(archive).problems]
    assert len(problems) >= len(ignored) > 0
    for stored in ignored:
        assert any(problem.startswith(str(archive.folder("games", RUN_ID) / stored.name)) for problem in problems)
    assert all("holds other games of units " in problem for problem in problems)
    if units:
        assert f"holds other games of units {units[0]} to {units[1]} than " in problems[0]


def test_files_of_the_same_games_do_not_contradict_each_other(archive: ArchiveStore) -> None:
    for span in ((0, 8), (4, 8), (16, 17), (10, 20)):
        store_span(archive, span)
    assert len(archive.list_files("games", RUN_ID)) == 6
    assert verify_archive(archive).problems == []
    path = archive.folder("games", RUN_ID) / next(e.name for e in archive.list_files("games", RUN_ID) if e.first == 10)
    archive.backend.replace(path, b"x")  # it must be read: it overlaps two
    assert only_problem(archive).startswith(f"{path}: cannot be compared with the games that count")


# Records.


@BOTH
def test_a_lost_damaged_or_edited_run_record_is_found(archive: ArchiveStore) -> None:
    path = archive.root / "runs" / f"{RUN_ID}.json"
    archive.backend.remove(path)
    assert str(path) in only_problem(archive)
    archive.backend.replace(path, b"{")
    assert str(path) in only_problem(archive)
    archive.backend.remove(path)
    for change in ({"seed": 8}, {"salt": "x"}, {"agents": DEEPER}):
        archive.write_run_and_unit_count(record(build_spec(**change), run_id=RUN_ID))
        assert only_problem(archive).startswith(f"{path}: its spec is that of run ")


def test_a_record_of_a_run_without_games_is_compared_too(archive: ArchiveStore) -> None:
    shutil.rmtree(archive.root / "games")
    archive.write_run_and_unit_count(record(build_spec(seed=8), run_id=RUN_ID))
    assert "its spec is that of run " in only_problem(archive)


def test_a_damaged_job_of_a_sweep_is_found(archive: ArchiveStore) -> None:
    archive.write_sweep_job(SweepJob("s", 0, {}, RUN_ID))
    assert not verify_archive(archive).problems
    path = archive.root / "sweeps" / "s" / "0.json"
    for content in ("{", "{}", '{"sweep_id": "s", "job": 4}'):
        Path(path).write_text(content)
        assert only_problem(archive).startswith(f"{path}: {path} is damaged")


@pytest.mark.parametrize("spans", [[(0, 24)], [(0, 4), (4, 16)]], ids=["rolled up", "finer"])
def test_wrong_tallies_of_other_ranges_than_the_games_are_found(
    archive: ArchiveStore, spans: list[tuple[int, int]]
) -> None:
    folder, games = archive.folder("tallies", RUN_ID), {stored.name for stored in archive.list_effective_ranges(RUN_ID)}
    for span in spans:
        store_span(archive, span)
    for stored in archive.list_files("games", RUN_ID):
        if stored.name not in games:
            archive.backend.remove(archive.folder("games", RUN_ID) / stored.name)
    for stored in archive.list_files("tallies", RUN_ID):
        if stored[:2] in ((0, 16), (16, 24)) and stored[:2] not in spans and (stored.first == 0 or len(spans) == 1):
            archive.backend.remove(folder / stored.name)
    assert {stored[:2] for stored in archive.list_effective_ranges(RUN_ID, "tallies")} == {
        *spans,
        *([] if spans == [(0, 24)] else [(16, 24)]),
    }
    assert [stored[:2] for stored in archive.list_effective_ranges(RUN_ID)] == [(0, 16), (16, 24)]
    assert verify_archive(archive).problems == []
    path = rewrite(archive, "tallies", changed("plies", 0, 7))
    assert only_problem(archive).startswith(f"{path}: its rows are not what its games give")


# What is gone.


@BOTH
def test_games_that_are_gone_are_missed_also_if_they_were_the_last(archive: ArchiveStore) -> None:
    archive.write_run_and_unit_count(record(games=500))
    folder = archive.folder("games", RUN_ID)
    for number, units in ((1, "16 to 23"), (0, "0 to 23")):  # the last ones, then all
        archive.backend.remove(file_of(archive, "games", number))
        assert f"{folder}: units {units} are missing, and their games with them: restore" in map_of_problems(archive)


def test_what_was_played_again_in_other_parts_is_not_missed(archive: ArchiveStore) -> None:
    archive.write_run_and_unit_count(record(games=16, status="complete"))
    for number in (1, 0):
        archive.backend.remove(file_of(archive, "games", number))
    store(archive, RUN_ID, BLOCKS, most=4)
    assert verify_archive(archive).problems == []


def test_jobs_that_are_missing_are_missed_also_the_last(archive: ArchiveStore) -> None:
    for job in (0, 1, 2):
        archive.write_sweep_job(SweepJob("s", job))
    for lost in (0, 1):
        path = Path(archive.root / "sweeps" / "s" / f"{lost}.json")
        path.unlink()
        assert only_problem(archive).startswith(f"{path}: missing: the sweep was killed before this job ended, or")
        archive.write_sweep_job(SweepJob("s", lost))
    archive.write_sweep_job(SweepJob("s", 0, jobs=4))
    assert only_problem(archive).startswith(f"{archive.root / 'sweeps/s/3.json'}: missing")


GONE = "is gone: restore it from a copy, or remove what refers to it"


@pytest.fixture
def full_archive(archive: ArchiveStore) -> ArchiveStore:
    """Add a sweep, a verdict of its run, a job that failed before it had one, and a policy to the archive."""
    archive.write_sweep_job(SweepJob("s", 0, {"seed": "7"}, RUN_ID))
    archive.write_sweep_job(SweepJob("s", 1, {"seed": "x"}, None, "failed", "no seed", jobs=2))
    policy_store.save(archive, COUNTS, origin())
    save_own_verdict(archive, RUN_ID)
    assert verify_archive(archive).problems == []
    return archive


def test_a_run_misses_its_verdict_and_a_sweep_and_a_verdict_miss_their_run(full_archive: ArchiveStore) -> None:
    root = Path(full_archive.root)
    (verdict,) = root.glob("verdicts/*/*")
    content = verdict.read_bytes()
    verdict.unlink()
    shutil.rmtree(root / "tallies")  # which are no loss
    (problem,) = verify_archive(full_archive).problems
    assert (problem.file, problem.fault.split(":")[0]) == (verdict, "missing")
    verdict.write_bytes(content)
    Path(full_archive.run_record_path(RUN_ID)).unlink()
    for table in ("games", "plies"):
        shutil.rmtree(root / table)
    assert {problem.file: problem.fault for problem in verify_archive(full_archive).problems} == {
        root / "sweeps" / "s" / "0.json": f"its run {RUN_ID} {GONE}",
        verdict: "its run has no record",
    }


def test_an_imported_policy_misses_no_run(archive: ArchiveStore) -> None:
    learned = {**origin().learned, "run_ids": [], "imported": {"file": "x.csv", "sha256": "ab" * 32}}
    policy_store.save(archive, COUNTS, origin(learned=learned))
    assert verify_archive(archive).problems == []
