"""Visitors of a site whose archive is empty, or a copy of the sample archive."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.paths import SAMPLE
from tests.runners.web.browsing import CHROMIUM, OPTIONS, PATIENCE, RunningServer, find_free_port, serving

if TYPE_CHECKING:
    from tests.runners.web.visiting import Visitor


if find_spec("fastapi") is None:  # without the extra they cannot be imported: all their tests have its marker
    collect_ignore = [
        f"test_{name}.py"
        for name in (
            *("agent_page", "analyse", "archive_pages", "exercises", "fit", "how_to_play", "insights", "play"),
            *("play_review", "puzzles", "quick_hands", "quiet_pages", "site", "sql_page", "touch"),
        )
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


@pytest.fixture(scope="module")
def running_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """Serve a copy of the sample archive to the tests of one file."""
    archive = tmp_path_factory.mktemp("running_server") / "games"
    shutil.copytree(SAMPLE, archive)
    with serving(archive, find_free_port()) as server:
        yield server


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=list(OPTIONS))
        yield chromium
        chromium.close()


@pytest.fixture
def tab(browser: Any, running_server: RunningServer) -> Iterator[Any]:
    """Open a tab, and check at the end that all requests went to our server and no error was reported."""
    context = browser.new_context(base_url=running_server.home, viewport={"width": 1400, "height": 900})
    page = context.new_page()
    page.set_default_timeout(PATIENCE)
    wrong: list[str] = []

    def note(text: str, fine: bool = False) -> None:
        if not fine:
            wrong.append(text)

    page.on("request", lambda request: note(request.url, request.url.startswith(running_server.home)))
    page.on("console", lambda message: note(message.text, message.type != "error" or "400" in message.text))
    page.on("pageerror", lambda error: note(str(error)))
    yield page
    assert wrong == []
    context.close()
