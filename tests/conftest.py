"""Settings of all tests: quiet, repeatable property tests, and temporary files in memory."""

import atexit
import gc
import os
import re
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from tests.paths import SAMPLE

if TYPE_CHECKING:
    from analytics.store.files.backend import ObjectUrl
    from tests.object_storage import Proxy

# The first example may compile a kernel, so no deadline; and what fails on one machine must fail on all, so no luck.
settings.register_profile("suite", deadline=None, derandomize=True, max_examples=50)
settings.load_profile("suite")

# Every commit waits for the disk, and the tests commit ten thousand times: half of their time on a slow disk.
MEMORY = Path("/dev/shm")  # noqa: S108  (pytest makes a folder in it that only this user can read)
ENOUGH = 2 << 30  # bytes; all tests together leave about 200 MB if they fail
if os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free >= ENOUGH:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))

# What a user has set is not what commands without --archive are tested with.
os.environ.pop("QARENA_ARCHIVE", None)

# Jobs that a script starts in the background ignore Ctrl-C, and so would all that tests start: these send it.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Workers take a file at a time: the files that take longest begin first, so that no worker ends long after the others.
LONGEST_FIRST = (
    "test_interruptions.py",
    "test_interruption.py",
    "test_transcripts.py",
    "test_engines.py",
    "test_evaluations.py",
    "test_refusals.py",
    "test_check.py",
    "test_questions.py",
    "test_contract.py",
    "test_rolling.py",
    "test_experiment.py",
    "test_flipped_bytes.py",
    "test_writers.py",
    "test_damage.py",
    "test_sweep.py",
    "test_derive.py",
    "test_terminal.py",
)


@pytest.fixture(autouse=True)
def unchanged_sample() -> Iterator[None]:
    """Fail if a test writes into the sample, which is part of the repository: index a copy of it."""
    yield
    changed = {path: path.stat().st_mtime_ns for path in SAMPLE.rglob("*")}.items() ^ SAMPLE_FILES.items()
    assert not changed


SAMPLE_FILES = {path: path.stat().st_mtime_ns for path in SAMPLE.rglob("*")}

# What is compared under every variant of the rules is compared under three of them by ``make test``.
SELDOM = {"square", "torus_square"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests under the other variants as slow, and put the longest files first."""
    for item in items:
        if (
            isinstance(item, pytest.Function)
            and hasattr(item, "callspec")
            and SELDOM & set(re.split("[- ]", item.callspec.id))
        ):
            item.add_marker(pytest.mark.slow)
    items.sort(key=lambda item: item.path.name not in LONGEST_FIRST)


# The libraries make half a million objects that live as long as the process: the collector need not look at them again.
gc.disable()


def pytest_collection_finish() -> None:
    """Let the garbage collector see only what the tests make."""
    gc.freeze()
    gc.set_threshold(50_000)
    gc.enable()


# What is still frozen when Python ends, its extension modules report as leaks. Not before: pytest collects ten times.
atexit.register(gc.unfreeze)


@pytest.fixture(scope="session")
def storage_port() -> Iterator[int]:
    """Start a server that speaks S3, and yield its port."""
    from tests.object_storage import start_server

    with start_server() as port:
        yield port


@pytest.fixture
def bucket(storage_port: int) -> "Iterator[ObjectUrl]":
    """Make a new bucket, which this process and those that it starts can reach, whatever a test undoes of its own."""
    from tests.object_storage import build_s3_environment, create_bucket

    with pytest.MonkeyPatch.context() as patch:
        for name, value in build_s3_environment(storage_port).items():
            patch.setenv(name, value)
        yield create_bucket(storage_port)


@pytest.fixture
def faulty(bucket: "ObjectUrl", storage_port: int, monkeypatch: pytest.MonkeyPatch) -> "Iterator[Proxy]":
    """Put a proxy before the bucket."""
    from tests.object_storage import build_s3_environment, connect_to_server, start_proxy

    with start_proxy(connect_to_server(storage_port)) as front:
        for name, value in build_s3_environment(front.port).items():
            monkeypatch.setenv(name, value)
        yield front


@pytest.fixture
def google(bucket: "ObjectUrl", storage_port: int, monkeypatch: pytest.MonkeyPatch) -> "Iterator[Proxy]":
    """Put a proxy before the bucket that speaks Google's dialect: ``gs://`` and the bucket's name."""
    from tests.google_storage import build_google_environment, translate_to_s3
    from tests.object_storage import connect_to_server, start_proxy

    with start_proxy(translate_to_s3(connect_to_server(storage_port))) as front:
        for name, value in build_google_environment(front.port).items():
            monkeypatch.setenv(name, value)
        yield front


@pytest.fixture
def google_bucket(google: "Proxy", bucket: "ObjectUrl") -> "ObjectUrl":
    """Return the new bucket as one of Google's."""
    from analytics.store.files.backend import ObjectUrl

    return ObjectUrl("gs:", bucket.bucket)
