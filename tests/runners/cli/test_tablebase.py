"""``qarena tablebase`` from the command line."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.paths import ROOT
from tests.runners.conftest import Qarena
from tests.runners.experiments import QARENA


@pytest.fixture(autouse=True)
def tablebase_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let tests use an empty folder of tablebases instead of the user's."""
    monkeypatch.setenv("QARENA_TABLEBASE", str(tmp_path / "home"))
    return tmp_path / "home"


BUILD = ("tablebase", "build", "--rules", "torus_square", "--memory", "8MiB", "--pieces")


def test_build_show_and_verify(qarena: Qarena, tablebase_folder: Path) -> None:
    result = qarena(*BUILD, "2")
    assert result.code == 0
    assert "torus_square, boards of up to 2 pieces: " in result.err
    assert f"{tablebase_folder / 'torus_square-2.parquet'}: 22 boards, " in result.out
    card = json.loads((tablebase_folder / "torus_square-2.json").read_text())
    assert (card["won"], card["drawn"], card["lost"]) == ([0, 1, 0], [0, 0, 0], [1, 0, 20])
    shown = qarena("tablebase", "show", "--rules", "torus_square")
    assert (shown.code, shown.err) == (0, "")
    assert str(tablebase_folder / "torus_square-2.parquet") in shown.out
    assert "│      2 │     20 │   0 │     0 │   20 │" in shown.out
    checked = qarena("tablebase", "verify", str(tablebase_folder / "torus_square-2.parquet"), "--sample", "1")
    assert (checked.code, checked.err) == (0, "")
    assert "22 boards, no problems" in checked.out
    (tablebase_folder / "torus_square-2.parquet").write_bytes(b"PAR1")
    checked = qarena("tablebase", "verify", str(tablebase_folder / "torus_square-2.parquet"))
    assert checked.code == 1
    assert "torus_square-2.parquet is damaged (4 bytes that differ from the" in checked.err


@pytest.mark.slow
def test_ctrl_c_says_how_to_go_on(tablebase_folder: Path) -> None:
    building = subprocess.Popen([QARENA, *BUILD, "4"], stderr=subprocess.PIPE, text=True)
    while not list(tablebase_folder.glob("*.building/lock")):
        time.sleep(0.05)
        assert building.poll() is None
    os.kill(building.pid, signal.SIGINT)
    _, notes = building.communicate(timeout=60)
    assert building.returncode == 130
    assert notes.splitlines()[-1].endswith(f" {' '.join(BUILD)} 4")


@pytest.mark.slow
def test_the_page_of_theory_is_what_the_shipped_tablebases_say(qarena: Qarena) -> None:
    page = ROOT / "docs/theory.md"
    result = qarena("tablebase", "show", "--theory")
    assert (result.code, result.err) == (0, "")
    assert result.out == page.read_text(encoding="utf-8")
