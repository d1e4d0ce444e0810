"""Archives in a bucket: writers at once, and a store that fails in every way that it can."""

from __future__ import annotations

import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import PurePath

import pytest
from msgspec import structs
from polars.testing import assert_frame_equal

from analytics import open_archive
from analytics.questions.sql.views import VIEWS
from analytics.store import archive as archive_module
from analytics.store.archive import ArchiveStore
from analytics.store.files.backend import ObjectUrl
from analytics.store.files.local_files import find_backend
from analytics.store.range_files import read_games, write_range
from analytics.tables.derived.indexing import index_runs
from analytics.tables.upkeep.archive_merge import MergeOptions, merge_archives
from analytics.tables.upkeep.compaction import compact_run
from analytics.tables.upkeep.garbage import list_unneeded_files, remove_unneeded_files
from analytics.tables.verification.archive import verify_archive
from quarto.errors import FailureError, RequestError
from tests.analytics.folders import read_contents
from tests.analytics.naive_games import BLOCKS, RUN_ID, build_spec, random_block, record, store, store_span
from tests.object_storage import SECRET, Proxy, build_s3_environment, find_free_port, remove_bucket
from tests.paths import ROOT

pytestmark = pytest.mark.extras

OTHER = record(build_spec(seed=8))
SPANS = [(first, first + 2) for first in range(0, 24, 2)]


def write_all(root: PurePath, seed: int) -> None:
    """Store the same ranges as all other writers, in an order of its own, on two threads."""
    archive, spans = ArchiveStore.open(root), random.Random(seed).sample(SPANS, len(SPANS))

    def write(span: tuple[int, int]) -> None:
        store_span(archive, span, BLOCKS, OTHER.run_id)

    with ThreadPoolExecutor(2) as threads:
        list(threads.map(write, spans))


def test_processes_with_threads_store_every_unit_once(bucket: ObjectUrl) -> None:
    archive = ArchiveStore.open(bucket / "archive", create=True)
    archive.write_run_and_unit_count(OTHER)
    with get_context("spawn").Pool(3) as processes:
        processes.starmap(write_all, [(archive.root, seed) for seed in range(3)])
    assert [stored[:2] for stored in archive.list_effective_ranges(OTHER.run_id)] == SPANS
    assert len(archive.list_files("games", OTHER.run_id)) == len(SPANS)
    assert not verify_archive(archive).problems
    assert list_unneeded_files(archive) == []


# A store that fails in passing.


def every(number: int, kind: str, first: int = 0) -> Callable[[str, str], str | None]:
    """Return a fault for every ``number``-th request after the first ``first``."""
    requests = iter(range(-first, 1 << 30))
    return lambda method, path: kind if (count := next(requests)) >= 0 and count % number == 0 else None


def written(root: PurePath) -> ArchiveStore:
    """Write an archive with one run of three ranges, its record changed once."""
    archive = ArchiveStore.open(root, create=True)
    archive.write_run_and_unit_count(record())
    store(archive, RUN_ID, BLOCKS, most=8)
    archive.write_run_and_unit_count(record(status="complete", seconds=2.0))
    return archive


def assert_whole(root: PurePath) -> None:
    archive = ArchiveStore.open(root)
    assert [stored[:2] for stored in archive.list_effective_ranges(RUN_ID)] == [(0, 8), (8, 16), (16, 24)]
    run = archive.load_run(RUN_ID)
    assert (run.status, run.seconds, run.units) == ("complete", 2.0, 24)
    assert verify_archive(archive).problems == []
    assert list_unneeded_files(archive) == []


def kept_up(root: ObjectUrl) -> ArchiveStore:
    """Write an archive whose games are indexed, in one file of each table, and merge it into a second archive."""
    archive = written(root)
    archive.write_run_and_unit_count(
        record(games=16, status="complete", seconds=2.0)
    )  # all that was asked for is there
    index_runs(archive, [RUN_ID], 3)
    assert compact_run(archive, RUN_ID).larger_files == 1
    merge_archives([archive], ArchiveStore.open(root.with_name("other"), create=True), MergeOptions())
    remove_unneeded_files(archive, list_unneeded_files(archive), 0)
    return archive


@pytest.mark.parametrize("kind", ["drop", "lose", "cut", "503", "429", "500"])
def test_what_fails_in_passing_is_repeated(faulty: Proxy, bucket: ObjectUrl, kind: str) -> None:
    """Check whatever writes, reads, lists and removes; a part of an answer that is cut off counts as no answer."""
    fault = every(3, kind, 1)
    faulty.fault = lambda method, path: fault(method, path) if kind != "cut" or method == "GET" else None
    first_archive = kept_up(bucket / "archive")
    assert faulty.faults[kind] > 10
    faulty.fault = every(1, kind, 1 << 30)
    for root in (first_archive.root, first_archive.root.with_name("other")):
        archive = ArchiveStore.open(root)
        for table in ("games", "tallies", "positions", "first_plies"):
            assert [stored[:2] for stored in archive.list_effective_ranges(RUN_ID, table)] == [(0, 24)]
        assert archive.load_run(RUN_ID).status == "complete"
        assert verify_archive(archive).problems == []
        assert list_unneeded_files(archive) == []


def test_a_store_that_answers_too_late_is_asked_again(
    faulty: Proxy, bucket: ObjectUrl, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QARENA_STORE_TIMEOUT", "0.4")
    faulty.delay = 0.8
    faulty.fault = every(9, "slow")
    written(bucket / "archive")
    assert faulty.faults["slow"] > 3
    faulty.fault = every(1, "slow", 1 << 30)
    assert_whole(bucket / "archive")


def test_a_change_whose_answer_was_lost_is_made_once(faulty: Proxy, bucket: ObjectUrl) -> None:
    archive = ArchiveStore.open(bucket / "archive", create=True)
    archive.write_run_and_unit_count(record(seconds=1.0))
    faulty.fault = lambda method, path: "lose" if method == "PUT" and not faulty.faults else None
    archive.update_run_and_unit_count(RUN_ID, lambda run: run and structs.replace(run, seconds=run.seconds + 1))
    assert faulty.faults["lose"] == 1
    run = archive.find_run(RUN_ID)
    assert run
    assert run.seconds == 2.0


def test_another_writers_file_of_the_same_content_is_not_our_own(bucket: ObjectUrl) -> None:
    backend = find_backend(bucket)
    assert backend.create(bucket / "a", b"the same")
    assert not backend.create(bucket / "a", b"the same")
    assert backend.read(bucket / "a") == b"the same"


# A store that never gives in.


@pytest.mark.parametrize("kind", ["drop", "503", "429"])
def test_what_fails_for_good_is_one_line_and_leaves_what_is_harmless(
    faulty: Proxy, bucket: ObjectUrl, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setenv("QARENA_STORE_PATIENCE", "0.3")
    archive = written(bucket / "archive")
    more = [random_block(1, pairing, 8) for pairing in range(3)]
    faulty.fault = lambda method, path: kind if method == "PUT" and "/games/" in path else None
    with pytest.raises(FailureError, match=r"cannot write to s3://.*what was written before is kept") as caught:
        store(archive, RUN_ID, more)
    assert "\n" not in str(caught.value)
    faulty.fault = lambda method, path: None
    assert_counts(archive)
    unneeded = list_unneeded_files(archive)
    assert sorted(file.path.parts[-3] for file in unneeded) == ["plies", "tallies"]
    assert all(file.ours for file in unneeded)
    store(archive, RUN_ID, more)
    assert list_unneeded_files(archive) == []


def assert_counts(archive: ArchiveStore) -> None:
    assert archive.list_effective_ranges(RUN_ID).covered_ranges == [(0, 24)]
    assert verify_archive(archive).problems == []


def test_a_store_that_lists_nothing_for_good_is_one_line(
    faulty: Proxy, bucket: ObjectUrl, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QARENA_STORE_PATIENCE", "0.3")
    archive = written(bucket / "archive")
    faulty.fault = lambda method, path: "cut" if method == "GET" and "list-type" in path else None
    with pytest.raises(FailureError, match=r"cannot list s3://") as caught:
        archive.list_effective_ranges(RUN_ID)
    assert "\n" not in str(caught.value)


# An archive that vanishes.


def test_a_run_whose_archive_or_bucket_is_removed_ends_with_one_line(
    faulty: Proxy, bucket: ObjectUrl, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = written(bucket / "archive")
    first, run = next(iter(archive.list_effective_ranges(RUN_ID))), archive.load_run(RUN_ID)
    games = read_games(archive, RUN_ID, first)
    for path in [*archive.backend.list_files_below(archive.root)]:
        archive.backend.remove(path)
    monkeypatch.setattr(archive_module, "PRESENCE_CHECK_SECONDS", 0.0)
    with pytest.raises(FailureError, match=r"was removed while in use: remove what is left of it, or name another"):
        write_range(ArchiveStore(archive.root), run, first[:2], games)
    assert not [*archive.backend.list_files_below(archive.root)]
    remove_bucket(faulty.port, bucket)
    no_bucket = f"has no bucket {bucket.bucket}: name another one, or make it first"
    with pytest.raises(FailureError, match=no_bucket):
        write_range(archive, run, first[:2], games)
    with pytest.raises(RequestError, match=no_bucket):
        ArchiveStore.open(archive.root)


# Wrong requests.


def no_server(root: ObjectUrl, faulty: Proxy, patch: pytest.MonkeyPatch) -> ObjectUrl:
    patch.setenv("AWS_ENDPOINT_URL", build_s3_environment(find_free_port())["AWS_ENDPOINT_URL"])
    return root


def no_bucket(root: ObjectUrl, faulty: Proxy, patch: pytest.MonkeyPatch) -> ObjectUrl:
    return ObjectUrl("s3:", "another-bucket") / "archive"


def no_right(root: ObjectUrl, faulty: Proxy, patch: pytest.MonkeyPatch) -> ObjectUrl:
    faulty.fault = lambda method, path: "403"
    return root


def no_right_to_write(root: ObjectUrl, faulty: Proxy, patch: pytest.MonkeyPatch) -> ObjectUrl:
    faulty.fault = lambda method, path: "403" if method == "PUT" else None
    return root


def no_conditions(root: ObjectUrl, faulty: Proxy, patch: pytest.MonkeyPatch) -> ObjectUrl:
    faulty.fault = lambda method, path: "unconditional"
    return root


@pytest.mark.parametrize(
    ("prepare", "kind", "complaint"),
    [
        (no_server, FailureError, "does not answer: is the address right, and the server running?"),
        (no_bucket, RequestError, "has no bucket another-bucket: name another one, or make it first"),
        (no_right, RequestError, "refuses it (Forbidden): check the credentials and their rights"),
        (no_right_to_write, RequestError, "is not writable: the store at"),
        (no_conditions, RequestError, "the store ignores 'If-None-Match: *'"),
    ],
)
def test_what_cannot_be_opened_is_one_line_without_secrets(
    faulty: Proxy,
    bucket: ObjectUrl,
    monkeypatch: pytest.MonkeyPatch,
    prepare: Callable[[ObjectUrl, Proxy, pytest.MonkeyPatch], ObjectUrl],
    kind: type[Exception],
    complaint: str,
) -> None:
    monkeypatch.setenv("QARENA_STORE_PATIENCE", "0.3")
    root = prepare(bucket / "archive", faulty, monkeypatch)
    with pytest.raises(kind) as caught:
        ArchiveStore.open(root, create=True)
    assert complaint in str(caught.value)
    assert str(root) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(("scheme", "variable"), [("s3", "AWS_ACCESS_KEY_ID"), ("az", "AZURE_STORAGE_ACCOUNT_NAME")])
def test_without_credentials_one_line_names_the_variables(
    scheme: str, variable: str, faulty: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QARENA_STORE_PATIENCE", "0.1")
    monkeypatch.setenv("AWS_METADATA_ENDPOINT", f"http://127.0.0.1:{faulty.port}/169.254.169.254")
    faulty.fault = lambda method, path: "drop"
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    with pytest.raises(RequestError, match=f"there are no credentials: set {variable}"):
        ArchiveStore.open(ObjectUrl(f"{scheme}:", "games") / "archive")


def test_a_place_without_an_archive_and_one_with_other_objects(bucket: ObjectUrl) -> None:
    with pytest.raises(RequestError, match=r"there is no archive at s3://"):
        ArchiveStore.open(bucket / "archive")
    find_backend(bucket).replace(bucket / "archive" / "thesis.tex", b"mine")
    with pytest.raises(RequestError, match="has other files in it: name an empty folder or an archive"):
        ArchiveStore.open(bucket / "archive", create=True)


# Readers.


@pytest.fixture
def copied(bucket: ObjectUrl) -> ObjectUrl:
    """Copy the sample into a bucket."""
    from analytics.store.files import object_storage  # needs the extra

    sample = ArchiveStore.open(ROOT / "data/sample")
    backend = find_backend(bucket)
    object_storage.request_at_once(
        lambda path: backend.replace(bucket / "sample" / sample.relative_name(path), sample.backend.read(path)),
        list(sample.backend.list_files_below(sample.root)),
    )
    return bucket / "sample"


def test_every_view_and_frame_has_the_rows_of_a_folder(copied: ObjectUrl) -> None:
    with open_archive(copied) as there, open_archive(ROOT / "data/sample") as here:
        for view in sorted({*VIEWS} - {"positions"}):
            question = f"SELECT count(*), bit_xor(hash(COLUMNS(*))) FROM {view}"
            assert_frame_equal(there.sql(question), here.sql(question))
            frame = there.scan(view).collect()
            assert_frame_equal(frame, here.scan(view).collect(), check_row_order=False)
    assert verify_archive(ArchiveStore.open(copied)).problems == []


def test_opening_an_archive_takes_a_request_for_each_folder_and_record(faulty: Proxy, copied: ObjectUrl) -> None:
    """Count requests with 5 runs of a shard each, and 4 jobs of a sweep."""
    faulty.requests.clear()
    with open_archive(copied) as opened:
        records = 5 + 5 + 4  # runs, commits, jobs
        assert len(faulty.requests) <= records + 9  # the marker, and the archive's folders
        opened.sql("SELECT count(*) FROM games")
        first = len(faulty.requests)
        opened.sql("SELECT count(*) FROM games")
        assert faulty.requests[first:] == []
    assert first <= records + 9 + 2 + 5 * 2 + 5  # two more folders; a status and a range a file; footers are kept


def test_storing_a_range_takes_three_writes_and_one_look(faulty: Proxy, bucket: ObjectUrl) -> None:
    archive = written(bucket / "archive")
    faulty.requests.clear()
    store(archive, RUN_ID, [random_block(1, pairing, 8) for pairing in range(3)], most=32)
    requests = [(line.split()[0], line.split("/")[3]) for line in faulty.requests if "list-type" not in line]
    one = [("PUT", "plies"), ("PUT", "tallies"), ("PUT", "games"), ("HEAD", "plies")]
    assert [request for request in requests if request[1] != "runs"] == one * (len(requests) // 4)
    assert len(requests) >= 4


def test_nothing_of_the_credentials_is_stored(bucket: ObjectUrl) -> None:
    archive = written(bucket / "archive")
    assert not any(SECRET.encode() in content or b"tester" in content for content in read_contents(archive).values())


def test_a_large_file_is_read_in_ranges(bucket: ObjectUrl, monkeypatch: pytest.MonkeyPatch) -> None:
    from analytics.store.files import object_filesystem
    from analytics.store.files.local_files import build_filesystem_unless_local

    backend, content = find_backend(bucket), random.Random(1).randbytes(3000)
    monkeypatch.setattr(object_filesystem, "WHOLE_BYTES", 500)
    monkeypatch.setattr(object_filesystem, "TAIL_BYTES", 100)
    monkeypatch.setattr(object_filesystem, "BLOCK_BYTES", 50)
    backend.replace(bucket / "file", content)
    file = build_filesystem_unless_local(backend).open(str(bucket / "file"))
    monkeypatch.setattr(object_filesystem, "CACHE_BYTES", 200)
    monkeypatch.setattr(object_filesystem, "MIN_CACHED_RANGES", 1)
    places = [(2992, 8), (2900, 100), (0, 10), (10, 40), (45, 10), (40, 200), (2890, 60), (2950, 500), (3000, 5)]
    for start, size in places:
        assert file.seek(start) == start
        assert file.read(size) == content[start : start + size]
        assert file.tell() == min(3000, start + size)
    assert file.seek(-5, 2) == 2995
    assert file.read() == content[-5:]
    with pytest.raises(ValueError, match="can only be read"):
        build_filesystem_unless_local(backend).open(str(bucket / "file"), "wb")
