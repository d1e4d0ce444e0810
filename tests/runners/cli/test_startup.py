"""No command waits for what it does not need: kernels are loaded when something is played, and compiling says so."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.paths import ROOT
from tests.runners.experiments import command, environment_with

NOTICE = "compiling kernels"


@pytest.mark.parametrize(
    ("typed", "code"),
    [
        ("run --help", 0),
        ("sweep --help", 0),
        ("train --help", 0),
        ("sprt --help", 0),
        ("agents", 0),
        ("run agent@a=nobody", 2),
        ("run a.nothing=1", 2),
        ("run games=-1", 2),
        ("solve nowhere", 2),
        ("sql nothing", 2),
        ("policy show nothing", 2),
    ],
)
def test_help_and_wrong_requests_compile_nothing(typed: str, code: int, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    done = command(tmp_path, *typed.split(), QARENA_CACHE=str(cache))
    assert done.returncode == code, done.stderr
    assert not cache.exists()
    assert NOTICE not in done.stderr


def test_compiling_is_announced_once_and_only_while_the_cache_lacks_a_kernel(tmp_path: Path) -> None:
    found = [command(tmp_path, "perft", "1", QARENA_CACHE=str(tmp_path / "cache")) for _ in range(2)]
    assert [done.returncode for done in found] == [0, 0]
    assert [done.stderr.count(NOTICE) for done in found] == [1, 0]
    assert found[0].stdout == found[1].stdout


def test_importing_every_player_loads_no_kernel(tmp_path: Path) -> None:
    modules = ", ".join(f"agents.{path.stem}" for path in (ROOT / "agents").glob("[a-z]*.py"))
    variables = environment_with(QARENA_CACHE=str(tmp_path / "cache"))
    subprocess.run([sys.executable, "-c", f"import {modules}"], env=variables, check=True)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("typed", ["run --help", "run agent@a=nobody", "run game=2", "agents"])
def test_what_plays_nothing_imports_neither_numba_nor_polars(typed: str, tmp_path: Path) -> None:
    script = f"""
import sys
from runners.cli.main import main
sys.argv = ["qarena", *{typed.split()!r}]
try:
    main()
finally:
    sys.stderr.write(f"imported {{sorted({{'numba', 'polars', 'duckdb'}} & set(sys.modules))}}")
"""
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stderr.endswith("imported []")
