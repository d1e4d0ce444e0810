from pathlib import Path

import pytest

from analytics.store.archive import Archive
from tests.analytics.naive_games import PAIRINGS, RUN_ID, random_block, record


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    """An archive with one run of two shards: pairs 0 to 11 of pairing 0, pairs 0 to 7 of pairings 1 and 2."""
    archive = Archive.open(tmp_path / "archive", create=True)
    archive.save_run(record())
    archive.commit(RUN_ID, [random_block(1, 0, 0), random_block(1, 1, 0)], PAIRINGS)
    archive.commit(RUN_ID, [random_block(1, 0, 8, 4), random_block(1, 2, 0)], PAIRINGS)
    return archive
