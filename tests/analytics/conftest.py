from collections.abc import Iterator
from pathlib import Path, PurePath

import pytest

from analytics.sql.database import OpenArchive
from analytics.store.archive import Archive
from tests.analytics.naive_games import PAIRINGS, RUN_ID, random_block, record
from tests.object_storage import root_of


@pytest.fixture
def archive(request: pytest.FixtureRequest, tmp_path: Path) -> Archive:
    """An archive with one run of two shards: pairs 0 to 11 of pairing 0, pairs 0 to 7 of pairings 1 and 2.

    It is in a folder or, with ``BOTH`` of ``tests.object_storage``, also in a bucket.
    """
    return filled(root_of(request, tmp_path))


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Archive:
    """The same archive, one for a file of tests that change nothing in it."""
    return filled(tmp_path_factory.mktemp("shared") / "archive")


@pytest.fixture(scope="module")
def opened(shared: Archive) -> Iterator[OpenArchive]:
    """``shared``, opened once: each question is asked after those of other tests."""
    with OpenArchive(shared.root) as opened:
        yield opened


def filled(root: PurePath) -> Archive:
    archive = Archive.open(root, create=True)
    archive.save_run(record())
    archive.commit(RUN_ID, [random_block(1, 0, 0), random_block(1, 1, 0)], PAIRINGS)
    archive.commit(RUN_ID, [random_block(1, 0, 8, 4), random_block(1, 2, 0)], PAIRINGS)
    return archive
