"""Visitors of a site whose archive is empty, or a copy of the sample archive."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.paths import SAMPLE

if TYPE_CHECKING:
    from tests.runners.web.visiting import Visitor


if find_spec("fastapi") is None:  # without the extra they cannot be imported: all their tests have its marker
    collect_ignore = [
        *(
            f"test_{name}.py"
            for name in ("analyse", "archive_pages", "exercises", "how_to_play", "play", "play_review")
        ),
        *(f"test_{name}.py" for name in ("puzzles", "site", "sql_page")),
    ]


@pytest.fixture
def ada(tmp_path: Path) -> Iterator[Visitor]:
    """Open a site whose archive does not exist yet."""
    from tests.runners.web.visiting import visitor

    with visitor(tmp_path / "games") as guest:
        yield guest


@pytest.fixture(scope="session")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Visitor]:
    """Open a site over the sample archive, for tests that write nothing."""
    from tests.runners.web.visiting import visitor

    archive = tmp_path_factory.mktemp("pages") / "sample"
    shutil.copytree(SAMPLE, archive)
    with visitor(archive) as guest:
        yield guest
