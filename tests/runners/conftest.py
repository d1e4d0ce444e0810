"""The command line in the process of the tests: fast, isolated, with its output and exit code."""

from __future__ import annotations

import gc
import logging
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from quarto import hooks
from runners.cli import main
from runners.hydra_app import sweep_folders


class Result(NamedTuple):
    """The exit code and the output of a command."""

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
    monkeypatch.setattr(gc, "set_threshold", lambda *_: None)  # the tests of one process share the collector
    monkeypatch.setattr(main, "CompilingNotice", lambda: hooks.ignore)  # which test compiles first is chance
    root = logging.getLogger()
    before = root.level, list(root.handlers)

    def run(*arguments: str) -> Result:
        monkeypatch.setattr("sys.argv", ["qarena", *arguments])
        monkeypatch.setattr(sweep_folders, "folders", [])
        monkeypatch.setattr(sweep_folders, "_created", [])
        capsys.readouterr()
        with pytest.raises(SystemExit) as left:
            main.main()
        for handler in set(root.handlers) - set(before[1]):
            handler.close()
        root.handlers[:] = before[1]
        root.setLevel(before[0])
        return Result(int(left.value.code or 0), *capsys.readouterr())

    return run
