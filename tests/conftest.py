"""Settings of all tests: quiet, repeatable property tests, and temporary files in memory."""

import os
import shutil
from pathlib import Path

import pytest
from hypothesis import settings

# The first example may compile a kernel, so no deadline; and what fails on one machine must fail on all, so no luck.
settings.register_profile("suite", deadline=None, derandomize=True, max_examples=50)
settings.load_profile("suite")

# Every commit waits for the disk, and the tests commit ten thousand times: half of their time on a slow disk.
MEMORY = Path("/dev/shm")  # noqa: S108  (pytest makes a folder in it that only this user can read)
ENOUGH = 2 << 30  # bytes; all tests together leave about 200 MB if they fail
if os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free >= ENOUGH:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))

# What is compared under every variant of the rules is compared under three of them by ``make test``.
SELDOM = {"square", "torus_square"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests under the other variants as slow."""
    for item in items:
        if (
            isinstance(item, pytest.Function)
            and hasattr(item, "callspec")
            and SELDOM & set(item.callspec.id.split("-"))
        ):
            item.add_marker(pytest.mark.slow)
