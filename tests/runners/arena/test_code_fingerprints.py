"""The code of a run: everything on which its games depend, agent by agent, and the messages when it has changed."""

from __future__ import annotations

import ast
import hashlib
import importlib
import sys
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from analytics import open_archive
from analytics.questions.head_to_head import compute_head_to_head
from analytics.questions.selection import GameFilter
from analytics.report.report_data import select_report_data
from analytics.report.sections.lengths import lengths_by_rules_and_agent_frame
from analytics.report.sections.runs import build_runs_section
from analytics.store.archive import ArchiveStore
from quarto.errors import RequestError
from quarto.rules import CLASSIC
from runners.arena.code_fingerprints import (
    PLAYING_MODULES,
    build_class_code_record,
    build_code_record,
    describe_code_differences,
    project_version,
)
from runners.arena.spec import AgentSpec, RunSpec
from runners.config.agents import agent_from_label
from runners.config.yaml_options import use_config_dir
from tests.paths import ROOT
from tests.runners.conftest import Qarena, Result

PLAYER = """
import code_helper_of_mine

class Player:
    def __init__(self, table=None, data_files=(), parts=None):
        self.data_files = data_files

    def choose(self, position, rng):
        return code_helper_of_mine.first(position.free), (*position.available, -1)[0]
"""
HELPER = """
def first(cells):
    return cells[0]
"""
RANDOM = AgentSpec("random", "agents.random.Random", {})
MINE = AgentSpec("mine", "code_player_of_mine.Player", {}, trusted=True)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Create a folder of a user's own modules: an agent, and a helper in a module of its own."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "own"
    folder.mkdir()
    (folder / "code_player_of_mine.py").write_text(PLAYER)
    (folder / "code_helper_of_mine.py").write_text(HELPER)
    monkeypatch.syspath_prepend(folder)
    for name in ("code_player_of_mine", "code_helper_of_mine"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return folder


def code(*agents: AgentSpec, learner: int | None = None) -> dict[str, Any]:
    spec = RunSpec(CLASSIC, agents, ((0, len(agents) - 1),), seed=1, opening_plies=0, learner=learner)
    return build_code_record(spec, [agent.build() for agent in agents])


def find_changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> tuple[bool, set[str]]:
    """Return whether the code of a run changed, and the agents whose code did."""
    labels = {label for label in now["agents"] if now["agents"][label] != before["agents"][label]}
    return before["fingerprint"] != now["fingerprint"], labels


def edit(path: Path) -> None:
    path.write_text(path.read_text() + "# edited\n")


def rename(path: Path) -> None:
    path.rename(path.with_name("other.bin"))


EDITS: dict[str, Callable[[Path], None]] = {
    "its own module": lambda folder: edit(folder / "code_player_of_mine.py"),
    "a helper in another top-level module": lambda folder: edit(folder / "code_helper_of_mine.py"),
    "a file that a parameter names": lambda folder: edit(folder.parent / "table.bin"),
    "a file that a list in a parameter names": lambda folder: edit(folder.parent / "part.bin"),
    "a data file": lambda folder: edit(folder.parent / "weights.bin"),
    "a file in a folder of data": lambda folder: edit(folder.parent / "model/inner/layer.bin"),
    "the name of such a file": lambda folder: rename(folder.parent / "model/inner/layer.bin"),
}


@pytest.mark.parametrize("edited_part", EDITS)
def test_whatever_an_agent_depends_on_changes_its_code_and_that_of_its_runs(edited_part: str, folder: Path) -> None:
    for name in ("table.bin", "part.bin", "weights.bin", "model/inner/layer.bin"):
        path = folder.parent / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("1\n")
    mine = replace(MINE, params={"table": "table.bin", "parts": [["part.bin"]], "data_files": ["weights.bin", "model"]})
    before = code(mine, RANDOM)
    assert code(mine, RANDOM) == before
    EDITS[edited_part](folder)
    assert find_changes(before, code(mine, RANDOM)) == (True, {"mine"})


def test_what_an_agent_does_not_use_changes_nothing(folder: Path) -> None:
    (folder / "code_neighbour_of_mine.py").write_text("x = 1\n")
    before = code(MINE, RANDOM)
    edit(folder / "code_neighbour_of_mine.py")
    (folder.parent / "random.bin").write_text("x")
    assert code(MINE, RANDOM) == before
    assert (
        before["version"]
        == tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
        == project_version()
    )
    assert code(MINE, RANDOM)["agents"]["random"] == code(RANDOM)["agents"]["random"]
    assert code(MINE, RANDOM)["fingerprint"] != code(RANDOM)["fingerprint"]
    assert code(replace(MINE, params={"table": "x" * 5000, "parts": ["a\0b", 3, None, True]}))  # no paths


def test_an_agent_has_the_same_code_in_a_training_as_in_any_run(folder: Path) -> None:
    run, training = code(MINE, RANDOM), code(MINE, RANDOM, learner=0)
    assert training["agents"] == run["agents"]
    assert training["fingerprint"] != run["fingerprint"]


def test_an_agent_within_a_parameter_counts_too(folder: Path) -> None:
    oracle = AgentSpec("oracle", "agents.oracle.Oracle", {"below": MINE.to_record()}, trusted=True)
    before = code(oracle, RANDOM)
    edit(folder / "code_helper_of_mine.py")
    assert find_changes(before, code(oracle, RANDOM)) == (True, {"oracle"})


@pytest.mark.parametrize("path", ["nowhere.bin", "own/nowhere"])
def test_data_that_is_not_there_is_refused_in_one_line(path: str, folder: Path) -> None:
    with pytest.raises(RequestError, match=rf"^agent 'mine' names '{path}' in data_files, and there is no such file"):
        code(replace(MINE, params={"data_files": [path]}))


def test_no_class_is_imported_to_find_its_code(folder: Path) -> None:
    (folder / "code_never_imported.py").write_text("raise SystemExit\n")
    before = build_class_code_record(["code_never_imported.Any", None, 7], learning=False)
    edit(folder / "code_never_imported.py")
    assert build_class_code_record(["code_never_imported.Any"], learning=False) != before
    assert "code_never_imported" not in sys.modules
    assert set(before) == {"version", "fingerprint", "python", "numba", "numpy"}


def test_every_module_of_ours_that_plays_is_named() -> None:
    """Check that the modules import no other module of this project, because they count without their imports."""
    imported = set()
    for name in PLAYING_MODULES:
        tree = ast.parse(Path(str(importlib.import_module(name).__file__)).read_text())
        imported |= {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    own_modules = {name for name in imported if name.startswith(("agents", "runners", "analytics"))}
    assert {name for name in own_modules if not name.startswith("runners.arena.executors")} <= set(PLAYING_MODULES)


@pytest.fixture
def declaring_folder(folder: Path, tmp_path: Path) -> Path:
    """Write a yaml of ``mine`` that declares a file and a folder beside the agent's module."""
    for path, text in {
        "agent/mine.yaml": f"_target_: {MINE.target}\nfiles: [weights.bin, model]\n",
        "agent/over.yaml": "_target_: agents.oracle.Oracle\nbelow: mine\n",
        "weights.bin": "1",
        "model/layer.bin": "2",
    }.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    return folder


def describe_declared_code(folder: Path, label: str = "mine") -> dict[str, Any]:
    with use_config_dir(folder):
        return code(agent_from_label(label, trusted=True), RANDOM)


@pytest.mark.parametrize("label", ["mine", "over"])
def test_the_files_that_a_yaml_declares_are_part_of_the_code_of_its_runs(
    label: str, declaring_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = describe_declared_code(declaring_folder, label)
    assert before["files"] == {
        label: {file: hashlib.sha256((declaring_folder / file).read_bytes()).hexdigest() for file in FILES}
    }
    monkeypatch.chdir("/")  # paths are those of the yaml's folder, whatever the current one is
    assert describe_declared_code(declaring_folder, label) == before
    for name in FILES:
        edit(declaring_folder / name)
        after = describe_declared_code(declaring_folder, label)
        assert find_changes(before, after) == (True, {label})
        assert {file for file in FILES if after["files"][label][file] != before["files"][label][file]} == {name}
        before = after


FILES = ("weights.bin", "model/layer.bin")


def test_a_changed_file_is_named_and_the_agent_is_not_given_the_key(
    declaring_folder: Path, tmp_path: Path, qarena: Qarena
) -> None:
    arguments = ("run", "--config-dir", str(declaring_folder), "agent@a=mine", "agent@b=random", "games=2")
    assert qarena(*arguments).code == 0
    (record,) = ArchiveStore.open(tmp_path / "data/archive").load_runs()
    assert set(record.code["files"]["mine"]) == {*FILES}
    assert record.labels == ("mine", "random")
    edit(declaring_folder / "model/layer.bin")
    result = qarena(*arguments)
    assert f"run {record.run_id} was begun by other code (mine (model/layer.bin) changed; " in result.err
    assert (result.code, "Nothing to play" in result.out) == (0, True)  # it plays the same all the same


# What a user sees.


@pytest.fixture
def repeat_run(folder: Path, qarena: Qarena, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """Play ``mine`` against ``random``, edit a helper of ``mine``, and return a function that repeats the run."""
    (tmp_path / "conf/agent").mkdir(parents=True)
    (tmp_path / "conf/agent/mine.yaml").write_text(f"_target_: {MINE.target}\n")

    def run(*more: str) -> Result:
        for name in ("code_player_of_mine", "code_helper_of_mine"):
            monkeypatch.delitem(sys.modules, name, raising=False)
        return qarena("run", "--config-dir", "conf", "agent@a=mine", "agent@b=random", "games=20", *more)

    assert run().code == 0
    (folder / "code_helper_of_mine.py").write_text(HELPER.replace("[0]", "[-1]"))
    return run


def test_an_edit_that_changes_no_game_is_an_upgrade(
    repeat_run: Callable[..., Result], folder: Path, tmp_path: Path, qarena: Qarena
) -> None:
    (folder / "code_helper_of_mine.py").write_text(f"{HELPER}\n# a remark\n")
    result = repeat_run()
    (record,) = ArchiveStore.open(tmp_path / "data/archive").load_runs()
    assert "Nothing to play" in result.out
    (note,) = (line for line in result.err.splitlines() if "other code" in line)
    assert note.endswith("20 games played again gave the same result, so it goes on")
    assert "other code" not in repeat_run("games=40").err  # the record says that this code plays the same
    assert repeat_run("seed=2").code == 0  # a run of this code alone
    crosstable = qarena("crosstable")
    assert "60" in crosstable.out
    assert "@" not in crosstable.out  # one agent, although its code has two fingerprints
    assert "codes" not in crosstable.err
    (record, _) = ArchiveStore.open(tmp_path / "data/archive").load_runs()
    assert record.code["extended_by"] == [*record.code["same_games"]]


@pytest.mark.slow
def test_the_results_of_an_agent_before_an_edit_are_not_shown_as_if_they_were_after_it(
    repeat_run: Callable[..., Result], tmp_path: Path
) -> None:
    refused = repeat_run()
    (record,) = ArchiveStore.open(tmp_path / "data/archive").load_runs()
    assert refused.refusal.startswith(f"error: run {record.run_id} was begun by other code (mine changed; ")
    assert "), and this code plays game " in refused.refusal
    assert refused.err.endswith("other_code=extend goes on with its games all the same\n")
    extended = repeat_run("archive.other_code=extend")
    assert extended.code == 0
    assert "Nothing to play" in extended.out
    assert "was begun by other code (mine changed; " in extended.err
    assert "its games count as if this code had played them" in extended.err
    assert repeat_run("archive.other_code=extend", "games=40").code == 0
    (record,) = ArchiveStore.open(tmp_path / "data/archive").load_runs()
    (fingerprint,) = record.code["extended_by"]
    assert fingerprint != record.code["fingerprint"]
    assert describe_code_differences(record, {"fingerprint": record.code["fingerprint"]})  # for the first code too
    assert repeat_run("games=40").code == 2
    with open_archive(tmp_path / "data/archive") as opened:
        (note,) = compute_head_to_head(opened).notes
    assert note == f"run {record.run_id} has games of several codes under one label: other code extended it"


def test_two_codes_under_one_label_are_told_apart_and_others_are_not(
    repeat_run: Callable[..., Result], tmp_path: Path, qarena: Qarena
) -> None:
    assert repeat_run("archive.other_code=new").code == 0
    root = tmp_path / "data/archive"
    codes = {record.run_id: record.code["agents"] for record in ArchiveStore.open(root).load_runs()}
    labels = sorted(f"mine@{agents['mine'][:6]}" for agents in codes.values())
    assert len({agents["random"] for agents in codes.values()}) == 1
    with open_archive(root) as opened:
        for where in (None, "winner >= -1"):
            head_to_head = compute_head_to_head(opened, GameFilter(where))
            assert sorted((result.first, result.second, result.games) for result in head_to_head.results) == [
                (label, "random", 20) for label in labels
            ]
            (note,) = head_to_head.notes
            assert note == f"'mine' was played by 2 codes, shown as {' and '.join(labels)} (--run chooses runs of one)"
        (single_result,) = compute_head_to_head(opened, GameFilter(runs=(next(iter(codes)),))).results
        report_data = select_report_data(opened)
        assert set(report_data.shown_agents) == {*labels, "random"}
        assert set(lengths_by_rules_and_agent_frame(report_data)["agent"]) == {*labels, "random"}
        assert "'mine' was played by 2 codes" in build_runs_section(report_data).note.replace("&#39;", "'")
    assert single_result.first == "mine"
    for command in ("rate", "crosstable"):
        result = qarena(command)
        assert result.code == 0
        assert all(label in result.out for label in (*labels, "random"))
        assert "'mine' was played by 2 codes" in result.err
