"""Writers that race one another, are refused by the disk, or are killed."""

import errno
import os
import random
import re
import shutil
import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path, PurePath

import pytest

from analytics.derived_tables.position_index import INDEXES, index_jobs, index_shards
from analytics.files import atomic
from analytics.store.archive import Archive
from analytics.store.commit_log import Ledger
from analytics.store.records import Commit
from analytics.verify.archive import verify
from analytics.verify.garbage import unreferenced_files
from quarto.errors import FailureError
from tests.analytics.folders import snapshot
from tests.analytics.naive_games import PAIRINGS, RUN_ID, random_block, record, spec_of
from tests.object_storage import BOTH, BOTH_SLOWLY
from tests.paths import ROOT

OTHER = record(spec_of(seed=8))  # a run that the archive does not hold yet


def write_all(root: PurePath, seed: int) -> int:
    """One of several writers that all want to store the same 40 slices, each in an order of its own."""
    archive = Archive.open(root)
    places = [(pairing, 4 * i) for pairing in (0, 1) for i in range(20)]
    random.Random(seed).shuffle(places)
    return sum(archive.commit(OTHER.run_id, [random_block(9, *place, 4)], PAIRINGS) is not None for place in places)


@BOTH_SLOWLY
@pytest.mark.parametrize("pool", ["threads", "processes"])
def test_writers_that_race_store_every_pair_once(archive: Archive, pool: str) -> None:
    archive.save_run(OTHER)
    if pool == "threads":
        with ThreadPoolExecutor(4) as threads:
            written = list(threads.map(write_all, [archive.root] * 4, range(4)))
    else:
        with get_context("spawn").Pool(2) as processes:
            written = processes.starmap(write_all, [(archive.root, 1), (archive.root, 2)])
    assert sum(written) == 40
    assert archive.covered(OTHER.run_id) == {0: [(0, 80)], 1: [(0, 80)]}
    assert [commit.shard for commit in archive.commits(OTHER.run_id)] == list(range(40))
    assert not verify(archive).problems
    assert unreferenced_files(archive) == []


@BOTH
def test_threads_may_share_one_archive(archive: Archive) -> None:
    with ThreadPoolExecutor(4) as threads:
        blocks = [random_block(4, 0, 100 + 4 * i, 4) for i in range(24)]
        commits = list(threads.map(lambda block: archive.commit(RUN_ID, [block], PAIRINGS), blocks))
    assert sorted(commit.shard for commit in commits if commit) == list(range(2, 26))


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

    before = snapshot(Path(archive.root))
    monkeypatch.setattr(os, failing, refuse)
    with pytest.raises(FailureError, match=f"{re.escape(str(archive.root))}.*{cause}") as caught:
        archive.commit(RUN_ID, [random_block(1, 0, 90)], PAIRINGS)
    assert "\n" not in str(caught.value)
    monkeypatch.undo()
    assert snapshot(Path(archive.root)) == before
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

    before = snapshot(Path(archive.root))
    monkeypatch.setattr(os, "fsync", stop)
    stopped = False
    try:
        archive.commit(RUN_ID, [random_block(1, 0, 90)], PAIRINGS)
    except FailureError:
        stopped = True
    monkeypatch.undo()
    assert stopped == (sync <= 6)
    assert not verify(archive).problems
    assert unreferenced_files(archive) == []
    assert (snapshot(Path(archive.root)) == before) == (sync <= 5)


@pytest.mark.parametrize("derived", [False, True], ids=["commit", "index"])
def test_ctrl_c_after_the_link_leaves_what_it_names(
    archive: Archive, monkeypatch: pytest.MonkeyPatch, derived: bool
) -> None:
    real = atomic.sync_folder

    def stop(folder: Path) -> None:
        if folder.parent.name in ("commits", "indexes"):
            raise KeyboardInterrupt
        real(folder)

    atomic.make_folder(Path(archive.folder("indexes", RUN_ID)))
    monkeypatch.setattr(atomic, "sync_folder", stop)
    jobs = index_jobs(archive, INDEXES.shards(archive, [RUN_ID]))[:1]
    with pytest.raises(KeyboardInterrupt):
        _ = index_shards(archive, jobs, 1) if derived else archive.commit(RUN_ID, [random_block(1, 0, 90)], PAIRINGS)
    monkeypatch.undo()
    assert len(INDEXES.files(archive) if derived else archive.commits(RUN_ID)[2:]) == 1
    assert verify(archive).problems == []


@BOTH
def test_ctrl_c_when_a_commit_is_known_leaves_its_files(archive: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last moment: the commit is linked, and the writer has noted that it is."""
    learn = Ledger.learn

    def stop(ledger: Ledger, commit: Commit) -> None:
        learn(ledger, commit)
        if commit.shard == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(Ledger, "learn", stop)
    with pytest.raises(KeyboardInterrupt):
        archive.commit(RUN_ID, [random_block(1, 0, 90)], PAIRINGS)
    assert len(archive.commits(RUN_ID)) == 3
    assert verify(archive).problems == []


@pytest.mark.parametrize("order", ["runs", "plies", "root"])
def test_every_new_folder_is_synced_into_the_one_above(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, order: str
) -> None:
    synced: list[Path] = []
    real = atomic.sync_folder

    def note(folder: Path) -> None:
        synced.append(folder)
        real(folder)

    monkeypatch.setattr(atomic, "sync_folder", note)
    root = tmp_path / "deep" / "archive"
    archive = Archive.open(root, create=True)
    if order == "runs":
        archive.save_run(OTHER)
    elif order == "plies":
        archive.commit(RUN_ID, [random_block(1, 0, 90)], PAIRINGS)
    made = [path for path in tmp_path.rglob("*") if path.is_dir()]
    assert {path.parent for path in made} <= set(synced)


def test_two_may_make_one_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other one is done between our look at the marker and our look at what else is in the folder."""
    root = tmp_path / "archive"
    root.mkdir()
    list_folder = Path.iterdir

    def other_first(folder: Path) -> object:
        monkeypatch.undo()
        Archive.open(root, create=True).save_run(OTHER)
        return list_folder(folder)

    monkeypatch.setattr(Path, "iterdir", other_first)
    assert [run.run_id for run in Archive.open(root, create=True).runs()] == [OTHER.run_id]


def test_without_hard_links_the_message_says_so(archive: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object, **options: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    with pytest.raises(FailureError, match="hard links"):
        archive.commit(RUN_ID, [random_block(1, 0, 90)], PAIRINGS)


@pytest.mark.slow
def test_a_limit_on_file_sizes_is_explained_and_harmless(archive: Archive) -> None:
    script = textwrap.dedent(
        f"""
        import resource
        from pathlib import Path, PurePath
        from analytics.store.archive import Archive
        from quarto.errors import FailureError
        from tests.analytics.naive_games import PAIRINGS, RUN_ID, random_block
        archive = Archive.open(Path({str(archive.root)!r}))
        block = random_block(1, 0, 90, 200)
        from analytics.store.blocks import tables
        resource.setrlimit(resource.RLIMIT_FSIZE, (4000, 4000))
        try:
            archive.commit(RUN_ID, [block], PAIRINGS)
        except FailureError as error:
            print(error)
        """
    )
    before = snapshot(Path(archive.root))
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1"}  # the limit would also hit the cache of compiled code
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    assert "limit on the size of files" in done.stdout
    assert done.stdout.count("\n") == 1
    assert snapshot(Path(archive.root)) == before


FILL_DISK = """
from pathlib import Path, PurePath
from analytics.store.archive import Archive
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
from analytics.verify.garbage import unreferenced_files
from analytics.verify.archive import verify
found = verify(archive)
garbage = unreferenced_files(archive)
print(found.shards == i > 0, archive.covered(RUN_ID) == {0: [(0, 1000 * i)]}, found.problems, garbage)
"""


@pytest.mark.slow
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


@BOTH
def test_a_writer_that_is_killed_loses_no_more_than_the_shard_in_flight(archive: Archive) -> None:
    script = f"""
from analytics.files.location import location_of
from analytics.store.archive import Archive
from tests.analytics.naive_games import PAIRINGS, random_block
archive = Archive.open(location_of({str(archive.root)!r}))
block = random_block(1, pairs=50)
for i in range(10**6):
    archive.commit({OTHER.run_id!r}, [block._replace(first_pair=50 * i)], PAIRINGS)
    print(i, flush=True)
"""
    with subprocess.Popen([sys.executable, "-c", script], cwd=ROOT, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        for _ in range(20):
            committed = int(writer.stdout.readline())
        writer.kill()
    archive.save_run(OTHER)
    shards = len(archive.commits(OTHER.run_id))
    assert shards > committed
    assert archive.covered(OTHER.run_id) == {0: [(0, 50 * shards)]}
    assert not verify(archive).problems
    assert all(file.ours for file in unreferenced_files(archive))
