from pathlib import Path

import pytest

from analytics.store.archive import Archive
from tests.analytics.naive_games import PAIRINGS, RUN_ID, random_block, record
from tests.object_storage import root_of


@pytest.fixture
def archive(request: pytest.FixtureRequest, tmp_path: Path) -> Archive:
    """An archive with one run of two shards: pairs 0 to 11 of pairing 0, pairs 0 to 7 of pairings 1 and 2.

    It is in a folder or, with ``BOTH`` of ``tests.object_storage``, also in a bucket.
    """
    archive = Archive.open(root_of(request, tmp_path), create=True)
    archive.save_run(record())
    archive.commit(RUN_ID, [random_block(1, 0, 0), random_block(1, 1, 0)], PAIRINGS)
    archive.commit(RUN_ID, [random_block(1, 0, 8, 4), random_block(1, 2, 0)], PAIRINGS)
    return archive
