import errno
import json
import os
import random
import re
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import polars as pl
import pytest

from analytics import durable
from analytics.archive import MARKER, Archive
from analytics.leftovers import leftovers
from analytics.records import SweepJob
from analytics.tally import tally
from analytics.verify import verify
from quarto.batch import Block
from quarto.errors import FailureError, RequestError
from tests.analytics.naive_games import PAIRINGS, RUN_ID, naive_rows, random_block, record

ROOT = Path(__file__).parents[2]


def stored(archive: Archive, table: str) -> list[tuple[object, ...]]:
    return sorted(row for path in archive.committed_files(table) for row in pl.read_parquet(path).rows())


def snapshot(root: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}


# What is an archive.


def test_an_archive_is_made_once_and_opened_again(tmp_path: Path) -> None:
    root = tmp_path / "deep" / "archive"
    Archive.open(root, create=True)
    before = snapshot(root)
    assert Archive.open(root, create=True).runs() == Archive.open(root).runs() == []
    assert snapshot(root) == before
    assert json.loads((root / MARKER).read_text()) == {"format": "quarto-arena archive", "schema_version": 1}


def foreign_folder(root: Path) -> None:
    root.mkdir()
    (root / "thesis.tex").write_text("mine")


def archive_with(content: str) -> Callable[[Path], None]:
    def make(root: Path) -> None:
        root.mkdir()
        (root / MARKER).write_text(content)

    return make


@pytest.mark.parametrize(
    ("make", "create", "complaint"),
    [
        (lambda root: None, False, "there is no archive at"),
        (lambda root: root.mkdir(), False, "is not an archive (it has no archive.json)"),
        (lambda root: root.write_text("x"), False, "is a file"),
        (lambda root: root.write_text("x"), True, "is a file"),
        (foreign_folder, False, "is not an archive"),
        (foreign_folder, True, "has other files in it"),
        (archive_with('{"format": "quarto-arena archive", "schema_version": 2}'), True, "schema version 2"),
        (archive_with('{"format": "photo album", "schema_version": 1}'), False, "photo album"),
        (archive_with('{"format": "quarto-arena arch'), False, "cannot be read"),
        (archive_with("[]"), True, "cannot be read"),
    ],
)
def test_what_is_not_an_archive_is_refused_and_left_alone(
    tmp_path: Path, make: Callable[[Path], None], create: bool, complaint: str
) -> None:
    make(tmp_path / "archive")
    before = snapshot(tmp_path)
    with pytest.raises(RequestError, match=re.escape(complaint)) as caught:
        Archive.open(tmp_path / "archive", create=create)
    assert "\n" not in str(caught.value)
    assert snapshot(tmp_path) == before


def test_an_archive_that_cannot_be_written_to_says_whose_it_is(
    archive: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # file modes do not stop root, which may run the tests
    with pytest.raises(
        RequestError, match=rf"not writable by user id {os.geteuid()} .* mode 7.., owner {os.geteuid()}"
    ):
        Archive.open(archive.root, create=True)
    assert Archive.open(archive.root).runs()  # reading is fine


# Runs and sweeps.


def test_runs_are_stored_and_replaced_whole(archive: Archive) -> None:
    first, second = record(created="2026-01-02T00:00:00Z"), record("ffffffffffff", created="2026-01-01T00:00:00+00:00")
    for run in (first, second, record(created=first.created, status="complete", seconds=2.5)):
        archive.save_run(run)
    assert archive.run(RUN_ID) == record(created=first.created, status="complete", seconds=2.5)
    assert [run.run_id for run in archive.runs()] == ["ffffffffffff", RUN_ID]
    assert archive.run("000000000000") is None
    assert archive.run("../archive") is None


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b'{"run_id": "x"}', b"\xff", b"[" * 100_000], ids=lambda c: c[:9]
)
def test_a_damaged_run_is_named(archive: Archive, content: bytes) -> None:
    path = archive.root / "runs" / f"{RUN_ID}.json"
    path.write_bytes(content)
    with pytest.raises(FailureError, match=re.escape(str(path))) as caught:
        archive.runs()
    assert "\n" not in str(caught.value)


def test_a_run_under_another_name_is_damage(archive: Archive) -> None:
    shutil.copy(archive.root / "runs" / f"{RUN_ID}.json", archive.root / "runs" / "ffffffffffff.json")
    with pytest.raises(FailureError, match="is the record of run 123456789012"):
        archive.run("ffffffffffff")


def test_jobs_of_sweeps_are_stored_and_replaced(archive: Archive) -> None:
    jobs = [SweepJob("b", 0), SweepJob("a", 10, {"rules": "square"}, RUN_ID), SweepJob("a", 2, status="interrupted")]
    for job in jobs:
        archive.save_sweep_job(job)
    archive.save_sweep_job(SweepJob("a", 2, status="failed", error="it broke"))
    assert archive.sweep_jobs() == [SweepJob("a", 2, status="failed", error="it broke"), jobs[1], jobs[0]]


# Commits.


def test_the_rows_stored_are_those_of_the_naive_builder(archive: Archive) -> None:
    blocks = [random_block(1, 0, 0), random_block(1, 1, 0), random_block(1, 0, 8, 4), random_block(1, 2, 0)]
    games, plies = naive_rows(blocks, PAIRINGS)
    assert stored(archive, "games") == games
    assert stored(archive, "plies") == sorted(plies)
    assert archive.tallies(RUN_ID) == tally(blocks)
    assert archive.covered(RUN_ID) == {0: [(0, 12)], 1: [(0, 8)], 2: [(0, 8)]}
    assert [commit.shard for commit in archive.commits(RUN_ID)] == [0, 1]
    assert archive.commits("ffffffffffff") == []
    assert leftovers(archive) == []


def test_gaps_in_what_is_covered_are_seen(archive: Archive) -> None:
    assert archive.commit(RUN_ID, [random_block(1, 0, 20)], PAIRINGS)
    assert archive.covered(RUN_ID)[0] == [(0, 12), (20, 28)]


@pytest.mark.parametrize(
    "block",
    [random_block(1, 0, 0), random_block(2, 0, 11, 9), random_block(2, 1, 7, 1)],
    ids=["all", "end", "last pair"],
)
def test_pairs_already_there_are_not_stored_again(archive: Archive, block: Block) -> None:
    before = snapshot(archive.root)
    assert Archive.open(archive.root).commit(RUN_ID, [block, random_block(2, 2, 100)], PAIRINGS) is None
    assert snapshot(archive.root) == before


def test_blocks_that_overlap_one_another_are_a_mistake(archive: Archive) -> None:
    with pytest.raises(ValueError, match="same pair"):
        archive.commit(RUN_ID, [random_block(1, 0, 50), random_block(1, 0, 57)], PAIRINGS)


def test_runs_do_not_share_pairs(archive: Archive) -> None:
    assert archive.commit("ffffffffffff", [random_block(1, 0, 0)], PAIRINGS)
    assert archive.run_ids() == [RUN_ID, "ffffffffffff"]


def test_a_writer_that_was_overtaken_drops_its_files(archive: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both writers saw pairs 12 to 19 free; the other one commits them while this one writes its tables."""
    other = Archive.open(archive.root)

    def overtake(path: Path, content: bytes) -> bool:
        monkeypatch.undo()
        assert other.commit(RUN_ID, [random_block(1, 0, 12)], PAIRINGS)
        return durable.create(path, content)

    monkeypatch.setattr("analytics.archive.create", overtake)
    assert archive.commit(RUN_ID, [random_block(1, 0, 19)], PAIRINGS) is None
    assert archive.covered(RUN_ID)[0] == [(0, 20)]
    assert leftovers(archive) == []


def test_a_writer_whose_number_was_taken_takes_the_next(archive: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    other = Archive.open(archive.root)

    def overtake(path: Path, content: bytes) -> bool:
        monkeypatch.undo()
        assert other.commit(RUN_ID, [random_block(1, 0, 12)], PAIRINGS)
        return durable.create(path, content)

    monkeypatch.setattr("analytics.archive.create", overtake)
    commit = archive.commit(RUN_ID, [random_block(1, 0, 20)], PAIRINGS)
    assert commit is not None
    assert commit.shard == 3
    assert not verify(archive).problems


def write_all(root: Path, seed: int) -> int:
    """One of several writers that all want to store the same 40 slices, each in an order of its own."""
    archive = Archive.open(root)
    places = [(pairing, 4 * i) for pairing in (0, 1) for i in range(20)]
    random.Random(seed).shuffle(places)
    return sum(archive.commit("aaaaaaaaaaaa", [random_block(9, *place, 4)], PAIRINGS) is not None for place in places)


@pytest.mark.parametrize("pool", ["threads", "processes"])
def test_writers_that_race_store_every_pair_once(archive: Archive, pool: str) -> None:
    archive.save_run(record("aaaaaaaaaaaa"))
    if pool == "threads":
        with ThreadPoolExecutor(4) as threads:
            written = list(threads.map(write_all, [archive.root] * 4, range(4)))
    else:
        with get_context("spawn").Pool(2) as processes:
            written = processes.starmap(write_all, [(archive.root, 1), (archive.root, 2)])
    assert sum(written) == 40
    assert archive.covered("aaaaaaaaaaaa") == {0: [(0, 80)], 1: [(0, 80)]}
    assert [commit.shard for commit in archive.commits("aaaaaaaaaaaa")] == list(range(40))
    assert not verify(archive).problems
    assert leftovers(archive) == []


def test_threads_may_share_one_archive(archive: Archive) -> None:
    with ThreadPoolExecutor(4) as threads:
        blocks = [random_block(4, 0, 100 + 4 * i, 4) for i in range(24)]
        commits = list(threads.map(lambda block: archive.commit(RUN_ID, [block], PAIRINGS), blocks))
    assert sorted(commit.shard for commit in commits if commit) == list(range(2, 26))


# What crashes and accidents leave is never counted.


def test_a_missing_commit_takes_its_games_with_it(archive: Archive) -> None:
    (archive.root / "commits" / f"run={RUN_ID}" / "000000.json").unlink()
    assert archive.covered(RUN_ID) == {0: [(8, 12)], 2: [(0, 8)]}
    assert len(stored(archive, "games")) == 24
    assert len(leftovers(archive)) == 2
    commit = Archive.open(archive.root).commit(RUN_ID, [random_block(1, 0, 0)], PAIRINGS)
    assert commit is not None
    assert commit.shard == 2  # a number that was given once is not given again while later ones exist


def test_half_written_and_foreign_files_are_not_read(archive: Archive) -> None:
    before = stored(archive, "games"), stored(archive, "plies"), archive.tallies(RUN_ID)
    for table in ("games", "plies", "commits"):
        folder = archive.folder(table, RUN_ID)
        (folder / f".tmp-{'0' * 32}").write_bytes(b"PAR1 half")
        (folder / f"part-000007-{'0' * 32}.parquet").write_bytes(b"PAR1 never committed")
        (folder / "notes.txt").write_text("mine")
        (folder / "notes.json").write_text("{}")
    (archive.root / "commits" / "run=mine").mkdir()
    (archive.root / "runs" / "notes.json").write_text("{}")
    again = Archive.open(archive.root, create=True)
    assert (stored(again, "games"), stored(again, "plies"), again.tallies(RUN_ID)) == before
    assert len(again.runs()) == 1
    assert not verify(again).problems


@pytest.mark.parametrize("content", [b"", b'{"shard": 0', b"{}", b"null"], ids=str)
def test_a_damaged_commit_is_named(archive: Archive, content: bytes) -> None:
    path = archive.root / "commits" / f"run={RUN_ID}" / "000001.json"
    path.write_bytes(content)
    for use in (archive.commits, archive.covered, archive.tallies):
        with pytest.raises(FailureError, match=re.escape(str(path))):
            use(RUN_ID)
    with pytest.raises(FailureError, match=re.escape(str(path))):  # a writer cannot know what is there
        Archive.open(archive.root).commit(RUN_ID, [random_block(1, 0, 90)], PAIRINGS)


def test_a_commit_cannot_name_a_file_elsewhere(archive: Archive) -> None:
    path = archive.root / "commits" / f"run={RUN_ID}" / "000001.json"
    path.write_text(re.sub(r"part-[^\"]+", "../../../secret.parquet", path.read_text()))
    with pytest.raises(FailureError, match="does not match"):
        archive.committed_files("games")


# A disk that refuses.


@pytest.mark.parametrize(
    ("code", "cause"),
    [(errno.ENOSPC, "disk is full"), (errno.EDQUOT, "quota"), (errno.EACCES, "permission"), (errno.EIO, "I")],
)
@pytest.mark.parametrize("failing", ["fsync", "link"])
def test_when_the_disk_refuses_nothing_is_lost_or_left(
    archive: Archive, monkeypatch: pytest.MonkeyPatch, failing: str, code: int, cause: str
) -> None:
    def refuse(*arguments: object, **options: object) -> None:
        raise OSError(code, os.strerror(code))

    before = snapshot(archive.root)
    monkeypatch.setattr(os, failing, refuse)
    with pytest.raises(FailureError, match=f"{re.escape(str(archive.root))}.*{cause}") as caught:
        archive.commit(RUN_ID, [random_block(1, 0, 90)], PAIRINGS)
    assert "\n" not in str(caught.value)
    monkeypatch.undo()
    assert snapshot(archive.root) == before
    assert archive.commit(RUN_ID, [random_block(1, 0, 90)], PAIRINGS)


@pytest.mark.parametrize("sync", range(1, 9))
def test_at_whichever_step_it_stops_the_archive_is_whole(
    archive: Archive, monkeypatch: pytest.MonkeyPatch, sync: int
) -> None:
    """Each sync of a commit fails in turn: either nothing is committed and nothing left, or all of it is there."""
    steps = iter(range(1, 100))
    real = os.fsync

    def stop(descriptor: int) -> None:
        if next(steps) == sync:
            raise OSError(errno.EIO, "Input/output error")
        real(descriptor)

    before = snapshot(archive.root)
    monkeypatch.setattr(os, "fsync", stop)
    stopped = False
    try:
        archive.commit(RUN_ID, [random_block(1, 0, 90)], PAIRINGS)
    except FailureError:
        stopped = True
    monkeypatch.undo()
    assert stopped == (sync <= 6)
    assert not verify(archive).problems
    assert leftovers(archive) == []
    assert (snapshot(archive.root) == before) == (sync <= 5)


def test_without_hard_links_the_message_says_so(archive: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object, **options: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    with pytest.raises(FailureError, match="hard links"):
        archive.commit(RUN_ID, [random_block(1, 0, 90)], PAIRINGS)


def test_a_limit_on_file_sizes_is_explained_and_harmless(archive: Archive) -> None:
    script = textwrap.dedent(
        f"""
        import resource
        from pathlib import Path
        from analytics.archive import Archive
        from quarto.errors import FailureError
        from tests.analytics.naive_games import PAIRINGS, RUN_ID, random_block
        archive = Archive.open(Path({str(archive.root)!r}))
        block = random_block(1, 0, 90, 200)
        from analytics.tables import tables
        resource.setrlimit(resource.RLIMIT_FSIZE, (4000, 4000))
        try:
            archive.commit(RUN_ID, [block], PAIRINGS)
        except FailureError as error:
            print(error)
        """
    )
    before = snapshot(archive.root)
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1"}  # the limit would also hit the cache of compiled code
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    assert "limit on the size of files" in done.stdout
    assert done.stdout.count("\n") == 1
    assert snapshot(archive.root) == before


FILL_DISK = """
from pathlib import Path
from analytics.archive import Archive
from quarto.errors import FailureError
from tests.analytics.naive_games import PAIRINGS, RUN_ID, random_block, record
archive = Archive.open(Path("archive"), create=True)
archive.save_run(record())
block = random_block(1, pairs=1000)
try:
    for i in range(100):
        archive.commit(RUN_ID, [block._replace(first_pair=1000 * i)], PAIRINGS)
except FailureError as error:
    print(error)
from analytics.leftovers import leftovers
from analytics.verify import verify
found = verify(archive)
print(found.shards == i > 0, archive.covered(RUN_ID) == {0: [(0, 1000 * i)]}, found.problems, leftovers(archive))
"""


def test_a_full_disk_is_explained_and_harmless(tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    mount = f"mount -t tmpfs -o size=600k tmpfs {small} && cd {small} &&"
    private = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c"]
    probe = [*private, f"{mount} true"]
    if not shutil.which("unshare") or subprocess.run(probe, capture_output=True, check=False).returncode:
        pytest.skip("this machine does not let us mount a small disk")
    command = f"{mount} exec {sys.executable} -c '{FILL_DISK}'"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([*private, command], env=environment, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    message, verdict = done.stdout.splitlines()
    assert message.startswith("cannot write to archive: the disk is full: free some space")
    assert verdict == "True True [] []"


def test_a_writer_that_is_killed_loses_no_more_than_the_shard_in_flight(archive: Archive) -> None:
    script = f"""
from pathlib import Path
from analytics.archive import Archive
from tests.analytics.naive_games import PAIRINGS, random_block
archive = Archive.open(Path({str(archive.root)!r}))
block = random_block(1, pairs=50)
for i in range(10**6):
    archive.commit("aaaaaaaaaaaa", [block._replace(first_pair=50 * i)], PAIRINGS)
    print(i, flush=True)
"""
    with subprocess.Popen([sys.executable, "-c", script], cwd=ROOT, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        for _ in range(20):
            told = int(writer.stdout.readline())
        writer.kill()
    archive.save_run(record("aaaaaaaaaaaa"))
    shards = len(archive.commits("aaaaaaaaaaaa"))
    assert shards > told
    assert archive.covered("aaaaaaaaaaaa") == {0: [(0, 50 * shards)]}
    assert not verify(archive).problems
    assert all(leftover.ours for leftover in leftovers(archive))
