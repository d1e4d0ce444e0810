"""No address does anything by being opened: it starts no program, begins no game and writes no file."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest
from starlette.routing import Route

from runners.web.application import ROUTERS
from runners.web.play.games import HeldGames

if TYPE_CHECKING:
    from pathlib import Path

    from tests.runners.web.visiting import Visitor

pytestmark = pytest.mark.extras
VALUES = {
    "run_id": "8d1cb3670fa3",
    "game_id": "8",
    "sweep_id": "fe6afc128298",
    "slug": "crosstable",
    "identity": "A" * 22,
    "policy": "none",
}
LINK = {"agent": "minimax(depth=16)", "rules": "classic", "seat": "1", "seed": "1", "name": "me", "number": "0"}
QUERIES: tuple[dict[str, str], ...] = (
    {},
    LINK | {"id": "A" * 22, "hint": "1"},
    {"q": "SELECT 1 AS x"},
    {"question": "1", "chart": "bars"},
)


def files_of(folder: Path) -> dict[Path, int]:
    return {each: each.stat().st_mtime_ns for each in folder.rglob("*")}


def test_no_get_starts_a_program_or_an_agent_or_writes(reader: Visitor, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = reader.site.settings.archive
    before, started = files_of(archive), []  # type: ignore[arg-type]
    monkeypatch.setattr(subprocess, "Popen", lambda *arguments, **_: started.append(arguments))
    routes = [route for router in ROUTERS for route in router.routes if isinstance(route, Route)]
    paths = {"/", *(route.path for route in routes if "GET" in (route.methods or ()))}
    assert {"/play", "/play/game", "/ask", "/ask.csv", "/analyse", "/browse/openings"} <= paths
    for path in sorted(paths):
        for query in QUERIES:
            found = reader.ready(path.format(**VALUES), **query)
            assert found.status < 500, (path, query, found.line)
    jobs = reader.site.service(HeldGames)._background
    assert not started
    assert not jobs._jobs
    assert files_of(archive) == before  # type: ignore[arg-type]
