from collections.abc import Iterator
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

import pytest

from analytics.store.archive import Archive
from tests.analytics.naive_games import BLOCKS, RUN_ID, record, store
from tests.object_storage import root_of

if TYPE_CHECKING:
    from analytics.sql.database import OpenArchive


@pytest.fixture
def archive(request: pytest.FixtureRequest, tmp_path: Path) -> Archive:
    """An archive with one run of two ranges, ``BLOCKS``: units 0 to 15 and 16 to 23, pairs 0 to 7 of each pairing.

    It is in a folder or, with ``BOTH`` of ``tests.object_storage``, also in a bucket.
    """
    return filled(root_of(request, tmp_path))


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Archive:
    """The same archive, one for a file of tests that change nothing in it."""
    return filled(tmp_path_factory.mktemp("shared") / "archive")


@pytest.fixture(scope="module")
def opened(shared: Archive) -> "Iterator[OpenArchive]":
    """``shared``, opened once: each question is asked after those of other tests."""
    from analytics.sql.database import OpenArchive  # tests below this folder need no database

    with OpenArchive(shared.root) as opened:
        yield opened


def filled(root: PurePath) -> Archive:
    archive = Archive.open(root, create=True)
    archive.save_run(record())
    store(archive, RUN_ID, BLOCKS)
    return archive
