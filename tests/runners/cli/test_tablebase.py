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
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No test sees what a user has built."""
    monkeypatch.setenv("QARENA_TABLEBASE", str(tmp_path / "home"))
    return tmp_path / "home"


BUILD = ("tablebase", "build", "--rules", "torus_square", "--memory", "8MiB", "--pieces")


def test_build_show_and_verify(qarena: Qarena, own_home: Path) -> None:
    found = qarena(*BUILD, "2")
    assert found.code == 0
    assert "torus_square, boards of up to 2 pieces: " in found.err
    assert f"{own_home / 'torus_square-2.parquet'}: 22 boards, " in found.out
    card = json.loads((own_home / "torus_square-2.json").read_text())
    assert (card["won"], card["drawn"], card["lost"]) == ([0, 1, 0], [0, 0, 0], [1, 0, 20])
    shown = qarena("tablebase", "show", "--rules", "torus_square")
    assert (shown.code, shown.err) == (0, "")
    assert str(own_home / "torus_square-2.parquet") in shown.out
    assert "│      2 │     20 │   0 │     0 │   20 │" in shown.out
    checked = qarena("tablebase", "verify", str(own_home / "torus_square-2.parquet"), "--sample", "1")
    assert (checked.code, checked.err) == (0, "")
    assert "22 boards, no problems" in checked.out
    (own_home / "torus_square-2.parquet").write_bytes(b"PAR1")
    checked = qarena("tablebase", "verify", str(own_home / "torus_square-2.parquet"))
    assert checked.code == 1
    assert "torus_square-2.parquet is damaged (4 bytes that differ from the" in checked.err


@pytest.mark.slow
def test_ctrl_c_says_how_to_go_on(own_home: Path) -> None:
    building = subprocess.Popen([QARENA, *BUILD, "4"], stderr=subprocess.PIPE, text=True)
    while not list(own_home.glob("*.building/lock")):
        time.sleep(0.05)
        assert building.poll() is None
    os.kill(building.pid, signal.SIGINT)
    _, notes = building.communicate(timeout=60)
    assert building.returncode == 130
    assert notes.splitlines()[-1].endswith(f" {' '.join(BUILD)} 4")


@pytest.mark.slow
def test_the_page_of_theory_is_what_the_shipped_tablebases_say(qarena: Qarena) -> None:
    page = ROOT / "docs/theory.md"
    found = qarena("tablebase", "show", "--theory")
    assert (found.code, found.err) == (0, "")
    assert found.out == page.read_text(encoding="utf-8")
