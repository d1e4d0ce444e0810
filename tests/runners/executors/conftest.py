from __future__ import annotations

from collections.abc import Iterator

import pytest

from runners.executors.processes import Processes


@pytest.fixture(scope="module")
def processes() -> Iterator[Processes]:
    """Two processes, which all tests of a file share: starting one takes a second."""
    made = Processes()
    yield made
    made.close()
