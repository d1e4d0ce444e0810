"""A command loads the kernels of what it plays, no others, and says when it compiles one."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.paths import ROOT, SAMPLE
from tests.runners.conftest import Qarena
from tests.runners.experiments import build_shell_environment, run_qarena

NOTICE = "Compiling the kernels"

# By command: its exit code. They describe a command, or refuse a request, before anything heavy is imported.
HELP = {"--help": 0, "sql --help": 0, "archive --help": 0, "bench --help": 0, "--version": 0, "--version?": 2}
LIGHT = HELP | {
    "agents": 0,
    "serve --help": 0,
    "run --help": 0,
    "policy build --help": 0,
    "run agent@a=nobody": 2,
    "run a.nothing=1": 2,
    "run game=2": 2,
    "run games=-1": 2,
    "train nothing=1": 2,
    "train trainer=nothing": 2,
    "train trainer.nothing=1": 2,
    "train curve.block=0": 2,
    "sprt games=1": 2,
    "policy build": 2,
    "policy build kind=nothing": 2,
    "policy build kind=gift threads=-1": 2,
    "bench --rules classic": 2,
    "serve --port 70000": 2,
}
# Of these some import numba, but none needs a kernel.
WRONG = (
    *("run archive.root=.", "train trainer.games=-1", "sprt elo0=50", "policy build kind=gift archive.root=."),
    *("policy ls", "policy show nothing", "policy rebuild nothing", "policy import nothing.csv kind=q_table"),
    *("sql nothing", "openings nowhere", "rate", "report", "annotate", "mistakes", "solve nowhere"),
    *("agents show nothing", "agents new Nothing", "play nobody", "perft 1 --rules nothing", "perft -- -1"),
    *("reproduce --study Z", "bench --turn nobody", "archive ls", "archive verify", "archive import nothing"),
    *("archive export --format nothing --output -", "tablebase build --pieces 9", "tablebase verify nothing"),
)

# Carries out commands one after another; prints for each its exit code, what it printed, and what is imported by then.
# At last it imports every player.
IN_ONE_PROCESS = """
import contextlib, importlib, io, json, sys
from runners.cli.main import main

found = []
heavy = {"numba", "numpy", "polars", "duckdb", "hydra", "omegaconf", "llvmlite"}
given = sys.argv
for typed in json.loads(given[1]):
    sys.argv, printed = ["qarena", *typed.split()], io.StringIO()
    try:
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            main()
    except SystemExit as stopped:
        found.append((stopped.code, printed.getvalue(), sorted(heavy & set(sys.modules))))
for module in given[2:]:
    importlib.import_module(module)
print(json.dumps(found))
"""


def test_help_and_what_a_schema_refuses_import_nothing_heavy_and_nothing_compiles(tmp_path: Path) -> None:
    typed = LIGHT | dict.fromkeys(WRONG, 2)
    players = [f"agents.{path.stem}" for path in (ROOT / "agents").glob("[a-z]*.py")]
    (tmp_path / "other.txt").touch()  # a folder with other files in it is no archive
    done = subprocess.run(
        [sys.executable, "-c", IN_ONE_PROCESS, json.dumps(list(typed)), *players],
        cwd=tmp_path,
        env=build_shell_environment(QARENA_CACHE=str(tmp_path / "cache")),
        capture_output=True,
        text=True,
        check=True,
    )
    for (words, code), (ended, printed, imported) in zip(typed.items(), json.loads(done.stdout), strict=True):
        assert (words, ended) == (words, code), printed
        assert NOTICE not in printed
        if words in LIGHT:
            assert imported == [] or (words not in HELP and not {"numba", "polars", "duckdb"} & {*imported}), words
    assert [path.name for path in tmp_path.iterdir()] == ["other.txt"]


@pytest.mark.slow
def test_compiling_is_announced_once_and_only_while_the_cache_lacks_a_kernel(tmp_path: Path) -> None:
    results = [run_qarena(tmp_path, "perft", "1", QARENA_CACHE=str(tmp_path / "cache")) for _ in range(2)]
    assert [done.returncode for done in results] == [0, 0]
    assert [done.stderr.count(NOTICE) for done in results] == [1, 0]
    assert results[0].stdout == results[1].stdout


@pytest.mark.parametrize(
    ("command", "line"),
    {
        "openings": "counting decisions …",
        "report --output report.html": "writing the report …",
        "annotate --from-pieces 13": "judging …",
        "policy judge random --draws 1 --games 0": "judging …",
    }.items(),
)
def test_without_a_terminal_work_says_what_it_is_before_the_archive_is_read(
    command: str, line: str, qarena: Qarena, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(SAMPLE, tmp_path / "games")
    monkeypatch.setattr("runners.terminal.console.FIRST_NOTE_SECONDS", 0.0)
    result = qarena(*command.split(), "--archive", "games")
    assert (result.code, line in result.err.splitlines()) == (0, True), result.err
