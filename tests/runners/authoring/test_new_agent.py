"""`qarena agents new` writes agents that play, each with a test that passes and that fails for a broken agent."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from agents.base.player import build_player
from quarto.batch import Batch
from quarto.errors import FailureError, RequestError
from quarto.notation import parse_position
from quarto.rules import CLASSIC, NONE
from runners.authoring import agent_check, templates
from runners.authoring.agent_check import find_faults, load_own_agent
from runners.authoring.new_agent import INTERFACES, create_and_describe_agent_files, format_class_name
from tests import naive
from tests.agents.test_contract import streams
from tests.paths import ROOT
from tests.positions import build_view, list_positions
from tests.quarto.test_views import safe_after
from tests.runners.conftest import Qarena


@pytest.fixture(autouse=True)
def few_games(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent_check, "PAIRS", 2)
    monkeypatch.setattr(agent_check, "TIMED_SECONDS", 0.02)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Create a user's folder with a new agent for each interface."""
    for interface in INTERFACES:
        monkeypatch.delitem(sys.modules, f"new_{interface}", raising=False)
        create_and_describe_agent_files(f"new_{interface}", interface, tmp_path / "mine")
    return tmp_path / "mine"


@pytest.mark.parametrize("interface", INTERFACES)
def test_a_new_agent_keeps_to_the_rules_and_plays_as_its_description_says(interface: str, folder: Path) -> None:
    assert find_faults(folder, f"new_{interface}") == []
    positions = list_positions(CLASSIC, 6)
    turns = {}
    for safe in ("true", "false"):
        player = build_player(load_own_agent(folder, f"new_{interface}(safe={safe})"), CLASSIC, "it")
        turns[safe] = player.play(Batch.from_positions(positions), streams(len(positions)))
    for i, position in enumerate(positions):
        view, cell, gift = build_view(position, CLASSIC), int(turns["true"].cells[i]), int(turns["true"].gifts[i])
        if view.hand != NONE:
            assert cell in (naive.winning_cells(view.board, view.hand, CLASSIC) or naive.empty_cells(view.board))
        assert gift in (safe_after(position, cell, CLASSIC) or tuple(view.available) or (NONE,))
    assert turns["true"].cells.tolist() == turns["false"].cells.tolist()
    assert turns["true"].gifts.tolist() != turns["false"].gifts.tolist()


@pytest.mark.slow
def test_the_tests_of_new_agents_pass_and_fail_for_a_broken_one(folder: Path) -> None:
    create_and_describe_agent_files("broken", "choose", folder)
    source = folder / "broken.py"
    source.write_text(source.read_text().replace("return cell, ", "return (cell + 1) % 16, "))
    completed = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "mine"],
        cwd=folder.parent,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert completed.returncode == 1
    assert "3 failed, 9 passed" in completed.stdout
    assert "test_broken.py::test_it_keeps_to_the_rules_of_the_arena" in completed.stdout
    assert "test_broken.py::test_it_takes_a_win" in completed.stdout
    for text in re.findall(r'"(\S{19} \S)"', (folder / "test_broken.py").read_text()):
        position, _ = parse_position(text)
        assert (position.hand != NONE) == (position.occupied != 0)  # classic games reach it


def test_what_is_written_names_the_agent_and_no_template(folder: Path) -> None:
    files = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert files == {f for s in INTERFACES for f in (f"new_{s}.py", f"agent/new_{s}.yaml", f"test_new_{s}.py")}
    for path in folder.rglob("*.*"):
        assert "template" not in path.read_text().lower()
    for interface in INTERFACES:
        assert re.search(
            rf"^class New{interface.title()}\b", (folder / f"new_{interface}.py").read_text(), re.MULTILINE
        )
    assert format_class_name("corner_first2") == "CornerFirst2"
    names = {path.name for path in Path(str(templates.__file__)).parent.glob("*.*")}
    assert names == {
        "__init__.py",
        "template.yaml",
        "test_template.py",
        *(f"{interface}.py" for interface in INTERFACES),
    }


def test_a_broken_yaml_is_named_and_the_list_shows_the_others(qarena: Qarena, tmp_path: Path) -> None:
    qarena("agents", "new", "corner")
    (tmp_path / "my_agents/agent/broken.yaml").write_text("# mine\n_target_: a: b\n")
    listed = qarena("agents", "--config-dir", "my_agents")
    assert "│ corner " in listed.out
    assert "│ random " in listed.out
    for result in (listed, qarena("agents", "check", "broken", "--config-dir", "my_agents")):
        assert result.code == 2
        assert re.fullmatch(
            r"error: \S+/my_agents/agent/broken.yaml, line 2, column 12 is not valid YAML: .*\n", result.err
        )
    assert qarena("agents", "check", "corner", "--config-dir", "my_agents").code == 0


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"\xff\xfe", r"is not text in UTF-8 \(invalid start byte at byte 0\): save it as such"),
        (b"5\n", "holds no keys: write KEY: VALUE, one a line"),
        (b"[1, 2]\n", "holds no keys: write KEY: VALUE, one a line"),
    ],
    ids=["bytes", "a number", "a list"],
)
def test_a_yaml_that_holds_no_keys_is_named(content: bytes, reason: str, qarena: Qarena, tmp_path: Path) -> None:
    (tmp_path / "own/agent").mkdir(parents=True)
    (tmp_path / "own/agent/odd.yaml").write_bytes(content)
    for words in (("agents",), ("run", "odd", "random", "games=2")):
        result = qarena(*words, "--config-dir", "own")
        assert result.code == 2
        assert re.fullmatch(rf"error: \S*own/agent/odd\.yaml {reason}\n", result.err)


def test_no_file_is_overwritten(folder: Path) -> None:
    with pytest.raises(RequestError, match=r"mine/new_play\.py exists already"):
        create_and_describe_agent_files("new_play", "choose", folder)
    (folder / "test_another.py").write_text("mine")
    with pytest.raises(RequestError, match="exists already"):
        create_and_describe_agent_files("another", "choose", folder)
    assert not (folder / "another.py").exists()
    (folder.parent / "other").mkdir()
    (folder.parent / "other/agent").write_text("")
    with pytest.raises(FailureError, match=r"other/agent cannot be written: "):
        create_and_describe_agent_files("another", "choose", folder.parent / "other")
