"""An archive in Google Cloud Storage, as far as a translator of its dialect for a server of S3 can tell."""

from __future__ import annotations

import pytest

from analytics.store.archive import ArchiveStore
from analytics.store.files.backend import ObjectUrl
from analytics.store.files.local_files import find_backend
from analytics.tables.upkeep.garbage import list_unneeded_files
from analytics.tables.verification.archive import verify_archive
from tests.analytics.naive_games import BLOCKS, RUN_ID, record, store
from tests.analytics.shared_archive import assert_writers_readers_and_upkeep_share_an_archive
from tests.object_storage import Proxy

pytestmark = pytest.mark.extras


def test_writers_readers_and_upkeep_share_an_archive(google_bucket: ObjectUrl) -> None:
    assert_writers_readers_and_upkeep_share_an_archive(google_bucket / "archive")


def test_a_change_needs_the_generation_that_was_read(google_bucket: ObjectUrl) -> None:
    backend, path = find_backend(google_bucket), google_bucket / "record"
    assert backend.create(path, b"1")
    assert not backend.create(path, b"2")
    seen: list[bytes | None] = []

    def change(content: bytes | None) -> bytes:
        if not seen:
            backend.replace(path, b"another writer's")
        seen.append(content)
        return b"mine after " + (content or b"")

    backend.update(path, path, change)
    assert seen == [b"1", b"another writer's"]
    assert backend.read(path) == b"mine after another writer's"


def test_a_file_whose_answer_was_lost_counts_once(google: Proxy, google_bucket: ObjectUrl) -> None:
    archive = ArchiveStore.open(google_bucket / "archive", create=True)
    archive.write_run_and_unit_count(record())
    google.fault = lambda method, path: "lose" if method == "PUT" and not google.faults and "games" in path else None
    store(archive, RUN_ID, BLOCKS)
    assert google.faults["lose"] == 1
    assert archive.list_effective_ranges(RUN_ID).covered_ranges == [(0, 24)]
    assert verify_archive(archive).problems == []
    assert list_unneeded_files(archive) == []
