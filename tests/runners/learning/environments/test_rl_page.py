"""The page on reinforcement learning: its programs run as they are shown, to their end, and so do its commands."""

from __future__ import annotations

import os
import re
import runpy
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from analytics import open_archive
from runners.cli.main import app
from tests.paths import ROOT

pytestmark = pytest.mark.extras

PAGE = (ROOT / "docs/rl.md").read_text(encoding="utf-8")
PROGRAMS: list[str] = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
COMMANDS: list[str] = re.findall(r"^(?:PYTHONPATH=\. )?qarena (.*?)(?: +#.*)?$", PAGE, re.MULTILINE)
GAMES = "40"


def find_program(beginning: str) -> str:
    """Find the one program on the page that contains a text."""
    (text,) = (program for program in PROGRAMS if beginning in program)
    return text


def run_program(text: str, folder: Path) -> None:
    path = folder / "program.py"
    path.write_text(text)
    runpy.run_path(str(path), run_name="__main__")


def find_command(name: str, **replacements: str) -> str:
    """Find the arguments of a command on the page, and replace texts in them."""
    (words,) = (command for command in COMMANDS if command.startswith(name))
    for old, new in replacements.items():
        assert old in words
        words = words.replace(old, new)
    return words


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the current folder, from which modules are imported too."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


@pytest.mark.parametrize(
    ("beginning", "printed"),
    [
        ("environment = env(", "in hand: -"),
        ('info["game"]', "@"),
        ("encode_pieces_and_legal_turns(batch, CLASSIC)", "] ["),
    ],
)
def test_short_programs_run(beginning: str, printed: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_program(find_program(beginning), folder)
    assert printed in capsys.readouterr().out


def test_a_network_is_trained_logged_and_judged(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "train_dqn.py").write_text(find_program("# train_dqn.py"))
    # Threads that wait for each other in products of small matrices cost most of the time.
    variables = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    trained = subprocess.run(
        [sys.executable, "train_dqn.py"], env=variables, capture_output=True, text=True, check=True, cwd=folder
    )
    assert "4,000 updates, " in trained.stdout

    app(shlex.split(find_command("run")), standalone_mode=False)
    with open_archive("data/archive") as opened:
        won, games = opened.sql(
            "SELECT count(*) FILTER (score = 1), count(*) FROM seats WHERE agent LIKE 'policy%'"
        ).row(0)
    assert games == 2000
    assert won / games >= 0.95
    capsys.readouterr()
    app([*shlex.split(find_command("policy judge")), "--games", "0"], standalone_mode=False)
    assert "policy(policy=dqn)" in capsys.readouterr().out

    app(shlex.split(find_command("archive import")), standalone_mode=False)
    assert re.search(r"run \w{12} \(classic\): [\d,]+ games added", capsys.readouterr().out)
    app(shlex.split(find_command("sql")), standalone_mode=False)
    assert "thousand" in capsys.readouterr().out

    app([*shlex.split(find_command("run", **{"2000": GAMES})), "seed=2"], standalone_mode=False)
    (run_id,) = re.findall(r"run (\w{12}) in", capsys.readouterr().out)
    app([*shlex.split(find_command("annotate", RUN=run_id)), "--from-pieces", "4"], standalone_mode=False)
    app(shlex.split(find_command("mistakes", RUN=run_id)), standalone_mode=False)
    assert re.search(r"│ policy\(policy=dqn\) +│ placement +│", capsys.readouterr().out)
