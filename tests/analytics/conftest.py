import shutil
from collections.abc import Iterator
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

import pytest

from analytics.store.archive import ArchiveStore
from analytics.store.marker import MARKER_NAME
from tests.analytics.folders import copy_archive
from tests.analytics.naive_games import BLOCKS, RUN_ID, record, store
from tests.object_storage import find_root

if TYPE_CHECKING:
    from analytics.questions.sql.database import OpenArchive


@pytest.fixture(scope="session")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of such an archive, which is only copied."""
    return Path(write_filled_archive(tmp_path_factory.mktemp("written") / "archive").root)


@pytest.fixture
def archive(request: pytest.FixtureRequest, tmp_path: Path, written: Path) -> ArchiveStore:
    """Write an archive of one run with two ranges, ``BLOCKS``: units 0 to 15 and 16 to 23, pairs 0 to 7 of a pairing.

    It is in a folder or, with ``BOTH`` of ``tests.object_storage``, also in a bucket.
    """
    root = find_root(request, tmp_path)
    if not isinstance(root, Path):
        return write_filled_archive(root)
    archive = ArchiveStore.open(root, create=True)  # its marker is not copied: copies would be those of strangers
    shutil.copytree(
        written, root, ignore=shutil.ignore_patterns(MARKER_NAME), copy_function=shutil.copy, dirs_exist_ok=True
    )
    return archive


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> ArchiveStore:
    """Share such an archive between the tests of a file that change nothing in it."""
    return write_filled_archive(tmp_path_factory.mktemp("shared") / "archive")


@pytest.fixture(scope="module")
def opened(shared: ArchiveStore) -> "Iterator[OpenArchive]":
    """Open ``shared`` once: each question is asked after those of other tests."""
    from analytics.questions.sql.database import OpenArchive  # tests below this folder need no database

    with OpenArchive(shared.root) as opened:
        yield opened


@pytest.fixture(scope="session")
def everything(tmp_path_factory: pytest.TempPathFactory) -> ArchiveStore:
    """Write such an archive with files of every kind, so that no view is empty. It is only copied."""
    from analytics.tables.derived.definitions import EVALUATIONS_TABLE
    from analytics.tables.derived.indexing import index_runs
    from analytics.tables.derived.range_table import record_increased_derived_units
    from analytics.tables.verification.archive import verify_archive
    from tests.analytics.indexed import derive_all, write_draw_evaluations

    archive = write_filled_archive(tmp_path_factory.mktemp("everything") / "archive")
    index_runs(archive, [RUN_ID])
    derive_all(archive, RUN_ID, from_pieces=13)
    write_draw_evaluations(archive, RUN_ID)
    record_increased_derived_units(archive, RUN_ID, [EVALUATIONS_TABLE])
    assert verify_archive(archive).problems == []
    return archive


@pytest.fixture
def full_archive(everything: ArchiveStore, tmp_path: Path) -> ArchiveStore:
    """Copy that archive, to be damaged."""
    return copy_archive(everything, tmp_path / "whole")


def write_filled_archive(root: PurePath) -> ArchiveStore:
    archive = ArchiveStore.open(root, create=True)
    archive.write_run_and_unit_count(record())
    store(archive, RUN_ID, BLOCKS)
    return archive
