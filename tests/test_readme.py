"""The examples of the README run as they stand, on the sample archive."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import analytics
from analytics.store.archive import Archive
from analytics.verify.archive import verify
from runners.checking.check import faults
from runners.checking.new_agent import new_agent
from tests.paths import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")
SAMPLE = ROOT / "data" / "sample"


def blocks(language: str) -> list[str]:
    """The code blocks of a language ('' for commands)."""
    fenced = re.findall(r"^```(\w*)\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    return [block for found, block in fenced if found == language]


def commands() -> list[list[str]]:
    """The lines of the command blocks as words, comments left out."""
    lines = [line for block in blocks("") for line in block.splitlines() if line.strip()]
    return [words for line in lines if (words := shlex.split(line, comments=True))]


def run(arguments: list[str], folder: Path, **environment: str) -> str:
    ended = subprocess.run(
        [sys.executable, "-c", "from runners.cli.main import main; main()", *arguments],
        cwd=folder,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


SQL = [words for words in commands() if words[:2] == ["qarena", "sql"]]


@pytest.mark.parametrize("words", SQL, ids=lambda words: words[2])
def test_sql_examples_answer_from_the_sample_archive(words: list[str]) -> None:
    with analytics.open_archive(SAMPLE) as opened:
        assert len(opened.sql(words[2])) > 0


def test_there_are_sql_examples() -> None:
    assert len(SQL) >= 3


@pytest.mark.slow
def test_the_notebook_example_runs() -> None:
    (source,) = [block for block in blocks("python") if "open_archive" in block]
    subprocess.run([sys.executable, "-W", "error", "-c", source], cwd=ROOT, check=True)


def test_the_agent_example_plays(tmp_path: Path) -> None:
    (source,) = [block for block in blocks("python") if "class Corner" in block]
    new, check, play = (words for words in commands() if "corner" in words or "agent@a=corner" in words)
    assert (new[1:], check[1:4]) == (["agents", "new", "corner"], ["agents", "check", "corner"])
    new_agent("corner", "choose", tmp_path / "my_agents")
    (tmp_path / "my_agents" / "corner.py").write_text(source)
    assert faults(tmp_path / "my_agents", "corner") == []
    output = run(play[1:], tmp_path, PYTHONPATH=str(ROOT))
    assert "corner" in output
    assert "1,000 games" in output


def test_the_sample_archive_is_whole_and_small() -> None:
    found = verify(Archive.open(SAMPLE))
    assert not found.problems
    assert found.games >= 10_000
    assert sum(path.stat().st_size for path in SAMPLE.rglob("*") if path.is_file()) < 2_000_000
