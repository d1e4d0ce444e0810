"""The command line in this process, quick and isolated: what a test types, and what a user would see."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest
from hydra import compose
from hydra.core.global_hydra import GlobalHydra
from omegaconf import DictConfig

from runners.arena import config
from runners.cli import main
from runners.hydra_app import sweep


class Result(NamedTuple):
    """What a command came to."""

    code: int
    out: str
    err: str


Qarena = Callable[..., Result]


@pytest.fixture
def qarena(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Qarena:
    """Runs ``qarena …`` in an empty folder, as often as a test likes."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("QARENA_COMMAND", "")  # both are set by the command line: restored after the test
    monkeypatch.setenv("HYDRA_FULL_ERROR", "1")
    root = logging.getLogger()
    before = root.level, list(root.handlers)

    def run(*arguments: str) -> Result:
        monkeypatch.setattr("sys.argv", ["qarena", *arguments])
        monkeypatch.setattr(sweep, "folders", [])
        monkeypatch.setattr(sweep, "_made", [])
        capsys.readouterr()
        with pytest.raises(SystemExit) as left:
            main.main()
        for handler in set(root.handlers) - set(before[1]):
            handler.close()
        root.handlers[:] = before[1]
        root.setLevel(before[0])
        return Result(int(left.value.code or 0), *capsys.readouterr())

    return run


@pytest.fixture(scope="session", autouse=True)
def composed_once() -> Iterator[None]:
    """Each yaml of the project is composed once: that takes longer than the games of a small run.

    Where a user's own folder is searched too, nothing is remembered: tests write into it as they go.
    """
    of_project = {"pkg://hydra.conf", "pkg://conf", f"file://{config.CONF}", "structured://"}
    options, compositions = cache(config.names), cache(compose)

    def alone() -> bool:
        sources = GlobalHydra.instance().config_loader().get_sources()
        return of_project.issuperset(source.full_path() for source in sources)

    def composed(name: str) -> DictConfig:
        return compositions(name) if alone() else compose(name)

    def named(group: str) -> list[str]:
        with config._hydra():
            return list(options(group) if alone() else options.__wrapped__(group))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("runners.arena.config.compose", composed)
        patch.setattr(config, "names", named)
        yield
