from pathlib import Path

import pytest

from tests.analytics.exchange.archives import archive_of


@pytest.fixture(scope="session")
def unsplit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write an archive of three runs, which no test changes."""
    return archive_of(tmp_path_factory.mktemp("whole"))


@pytest.fixture(scope="session")
def scattered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the same games in many files."""
    return archive_of(tmp_path_factory.mktemp("scattered"), most=4)
