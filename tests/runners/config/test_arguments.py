"""Agents before the settings, flags anywhere, help on every key; a user's own yamls, and the modules beside them."""

from __future__ import annotations

import importlib
import os
import re
import sys
from pathlib import Path

import pytest

from analytics import open_archive
from analytics.exact.tablebase import user_folder as tablebase_home
from analytics.store.archive import ArchiveStore
from quarto.sources import cache_root
from runners.config import yaml_options
from runners.config.arguments import expand_and_quote_override, parse_arguments, parse_yaml_keys
from runners.config.help_page import list_archive_keys
from runners.config.yaml_options import (
    CONF_FOLDER,
    list_user_folders,
    search_user_folders,
    set_user_folders_returning_added,
)
from tests.marks import seldom
from tests.runners.conftest import Qarena
from tests.runners.experiments import build_run_request, run_qarena

LABELS = ["random", "rule_based(faithful=true)"]


# Agents.


@pytest.mark.parametrize(
    ("words", "same"),
    [
        (LABELS, ["agent@a=random", "agent@b=rule_based", "b.faithful=true"]),
        (["random", "random"], ["agent@a=random", "agent@b=random"]),
        (
            ["mcts(iterations=1e2)", "mcts(c=1.5, final='value')"],
            ["agents=['mcts(iterations=100)',{agent: mcts, c: 1.5, final: value}]"],
        ),
        (["random", "dumb", "rule_based", "rules=square"], ["agents=[random,dumb,rule_based]", "rules=square"]),
    ],
)
def test_agents_before_the_settings_are_the_same_run(words: list[str], same: list[str]) -> None:
    assert (
        build_run_request(*parse_arguments(["seed=3", *words]).overrides).spec
        == build_run_request("seed=3", *same).spec
    )


def test_a_sweep_and_a_test_take_agents(qarena: Qarena, tmp_path: Path) -> None:
    assert qarena("sweep", *LABELS, "games=4", "seed=1,2").code == 0
    assert qarena("sprt", *LABELS, "games=4", "elo1=500").code == 0
    labels = {record.labels for record in ArchiveStore.open(tmp_path / "data/archive").load_runs()}
    assert labels == {tuple(LABELS)}
    assert len(ArchiveStore.open(tmp_path / "data/archive").load_runs()) == 3  # seeds 1 and 2, and imposed openings


def test_keys_of_the_first_and_the_second_agent_stand_beside_their_names() -> None:
    for words, labels in (
        (["random", "mcts(iterations=20)", "b.c=1"], ("random", "mcts(c=1,iterations=20)")),
        (["random(name=first)", "mcts", "b.iterations=20"], ("first", "mcts(iterations=20)")),
    ):
        assert build_run_request(*parse_arguments(words).overrides).spec.pairing_labels == (labels,)


# The archive.


@pytest.mark.slow
def test_the_environment_names_the_archive_of_a_session(tmp_path: Path) -> None:
    played = run_qarena(tmp_path, "run", "random", "dumb", "games=2", QARENA_ARCHIVE="mine")
    assert played.returncode == 0, played.stderr
    assert "--archive" not in played.stdout
    answer = run_qarena(
        tmp_path, "sql", "SELECT count(*) AS games FROM games", "--format", "csv", QARENA_ARCHIVE="mine"
    )
    assert answer.stdout == "games\n2\n"
    assert {path.name for path in tmp_path.iterdir()} == {"mine", "outputs"}


def test_an_option_names_the_archive_and_its_text_means_nothing_to_hydra(qarena: Qarena, tmp_path: Path) -> None:
    result = qarena("run", "random", "dumb", "games=2", "--archive", "a=b,c ${d}")
    assert result.code == 0, result.err
    assert (tmp_path / "a=b,c ${d}/archive.json").exists()
    assert "qarena sql --archive 'a=b,c ${d}' " in result.out


# Flags and numbers.


@pytest.mark.parametrize("typed", ["games=2 --cfg job seed=2", "--cfg=job games=2 seed=2", "games=2 seed=2 -c all"])
def test_flags_may_stand_anywhere(typed: str, qarena: Qarena) -> None:
    result = qarena("run", *typed.split())
    assert result.code == 0
    assert {"games: 2", "seed: 2"} <= set(result.out.splitlines())


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("games=1e6", "games=1000000"),
        ("games=2.5e3,1E2", "games=2500,100"),
        ("objective.agent=mcts(iterations=1e2)", "objective.agent='mcts(iterations=100)'"),
        ("a.iterations=choice(1,2)", "a.iterations=choice(1,2)"),
        ("agents=[{agent:mcts,iterations:1e2},random]", "agents=[{agent:mcts,iterations:100},random]"),
        *((same, same) for same in ("games=1.55e1", "a.weight=1e-3", "archive.root=1e3", "trainer.path=/tmp/1e3")),
        ("""agents=["mcts(iterations=1e2)"]""", """agents=["mcts(iterations=1e2)"]"""),
    ],
)
def test_whole_numbers_may_have_an_exponent(typed: str, meant: str) -> None:
    assert expand_and_quote_override(typed) == meant


# Help.


@pytest.mark.parametrize("typed", ["run", "sweep", "train", "sprt", "policy build"])
def test_help_says_what_a_command_does_with_examples_and_every_key(typed: str, qarena: Qarena, tmp_path: Path) -> None:
    result = qarena(*typed.split(), "--help")
    assert (result.code, result.err, list(tmp_path.iterdir())) == (0, "", [])
    assert f" Usage: qarena {typed} " in result.out
    assert len(re.findall(rf"^  qarena {typed} ", result.out, re.MULTILINE)) == 3
    assert {len(line) for line in result.out.splitlines() if line} == {80}
    config = typed.replace("sweep", "run").replace(" ", "_")
    keys = list(parse_yaml_keys((CONF_FOLDER / f"{config}.yaml").read_text()))
    assert len(keys) > 8
    for key in keys:
        shown = re.findall(rf"^│   {key.name} +<(?:int|float|bool|str)> ", result.out, re.MULTILINE)
        assert len(shown) == bool(key.default), key
    assert "round_robin, gauntlet" not in " ".join(re.split(r"[│\s]+", result.out))  # which the meaning explains


def test_help_explains_the_keys_of_what_is_named(qarena: Qarena) -> None:
    agent = qarena("run", "mcts", "--help").out
    assert "mcts: Study E: Monte Carlo tree search over whole turns." in agent
    assert re.search(r"^│   iterations +<int> +for each turn, 2 to 1,000,000", agent, re.MULTILINE)
    for key, kind in {"a.turn_seconds": "float", "a.megabytes": "int", "a.name": "str"}.items():  # null by default
        assert re.search(rf"^│   {key} +<{kind}> ", agent, re.MULTILINE)
    assert re.search(r"^│   few_unused +<int> ", qarena("run", "mixed", "--help").out, re.MULTILINE)
    trainer = qarena("train", "trainer=q_table", "--help").out
    assert re.search(r"^│   learner\.discount +<float> +of the value of the opponent's next", trainer, re.MULTILINE)


def test_help_shows_the_limits_and_choices_of_the_schema() -> None:
    keys = {key.name: key for key in list_archive_keys()}
    assert keys["archive.shard_games"].limits == f"2 to {1 << 24}"
    assert keys["archive.shard_seconds"].limits == "at least 0"
    assert keys["archive.other_code"].choices == ("refuse", "extend", "new")


def test_every_key_of_a_command_is_explained() -> None:
    for path in set(CONF_FOLDER.glob("*.yaml")) - {CONF_FOLDER / "command.yaml"}:
        unexplained = {key.name for key in parse_yaml_keys(path.read_text()) if key.default and not key.meaning}
        assert unexplained <= {f"{path.stem}_schema", "command"}, path


PLAYER = """
class Player:
    def choose(self, position, rng):
        return position.free[0], (*position.available, -1)[0]
"""


@pytest.fixture
def user_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Create a user's folder with an agent, and with a module named like one of Python's."""
    monkeypatch.delitem(sys.modules, "beside_the_yaml", raising=False)
    for path, text in {
        "beside_the_yaml.py": PLAYER,
        "colorsys.py": "raise SystemExit",
        "agent/beside.yaml": "_target_: beside_the_yaml.Player\n",
    }.items():
        (tmp_path / "own" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "own" / path).write_text(text)
    return tmp_path / "own"


def test_they_come_last_and_for_the_time_of_a_command_only(user_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "colorsys", raising=False)
    before, folders = [*sys.path], list_user_folders()  # a server in this process may have set some
    with search_user_folders([user_folder, user_folder]):
        assert sys.path == [*before, str(user_folder)]
        assert user_folder not in Path(str(importlib.import_module("colorsys").__file__)).parents
    assert sys.path == before
    assert list_user_folders() == folders


def test_a_process_that_a_launcher_starts_finds_them_too(user_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yaml_options, "_user_folders", [])
    monkeypatch.setattr(sys, "path", [*sys.path])
    assert set_user_folders_returning_added([str(user_folder)]) == [str(user_folder)]  # all that such a process is told
    assert set_user_folders_returning_added([str(user_folder)]) == []
    assert (list_user_folders(), sys.path[-1]) == ([str(user_folder)], str(user_folder))


@pytest.mark.parametrize("flag", ["--config-dir", "-cd"])
def test_commands_play_what_a_yaml_beside_its_module_names(flag: str, user_folder: Path, qarena: Qarena) -> None:
    result = qarena("run", flag, "own", "agents=[beside,random]", "games=2")
    assert (result.code, result.err) == (0, "")


def test_without_the_folder_a_message_says_where_modules_are_looked_for(user_folder: Path, qarena: Qarena) -> None:
    (user_folder / "agent/beside.yaml").write_text("_target_: not_beside_the_yaml.Player\n")
    result = qarena("agents", "check", "beside", "--config-dir", "own")
    assert result.code == 2
    assert "of a module in the folder of --config-dir or on PYTHONPATH" in result.err


READER = """
from pathlib import Path

class Reader:
    def __init__(self, table):
        Path(table).read_text()

    def choose(self, position, rng):
        Path("left_by_reader.txt").touch()
        return position.free[0], (*position.available, -1)[0]
"""
MATCH = ("reader", "random", "progress=false", "--config-dir", "own", "--archive", "here/games")
COMMANDS = {
    "run": ("run", *MATCH, "games=4"),
    "sweep": ("sweep", *MATCH, "games=2,4"),
    "train": (
        *("train", "trainer=q_table", "trainer.games=20", *MATCH[2:]),
        *("trainer.opponent={agent:reader,table:table.txt}", "policy.name=mine"),
    ),
}


@pytest.mark.parametrize("name", ["run", *seldom("train", "sweep")])
def test_paths_are_relative_to_where_the_command_was_typed_also_if_hydra_changes_the_folder(
    name: str, user_folder: Path, tmp_path: Path, qarena: Qarena, monkeypatch: pytest.MonkeyPatch
) -> None:
    (user_folder / "agent/reader.yaml").write_text("_target_: folder_reader.Reader\ntable: table.txt\n")
    (user_folder / "folder_reader.py").write_text(READER)
    (tmp_path / "table.txt").touch()
    monkeypatch.setenv("QARENA_TABLEBASE", "bases")
    result = qarena(*COMMANDS[name], "hydra.job.chdir=true")
    assert (result.code, Path.cwd()) == (0, tmp_path), result.err
    assert [path.parent for path in tmp_path.rglob("archive.json")] == [tmp_path / "here/games"]
    archive = ArchiveStore.open(tmp_path / "here/games")
    assert all(archive.list_effective_ranges(run_id).units for run_id in archive.list_ids_of_runs_with_games())
    assert list(tmp_path.rglob("left_by_reader.txt")) == [tmp_path / "left_by_reader.txt"]
    assert os.environ["QARENA_TABLEBASE"] == str(tmp_path / "bases")
    assert name == "train" or "--archive here/games" in result.out


def test_names_outside_ascii_are_names(user_folder: Path, tmp_path: Path, qarena: Qarena) -> None:
    for name in ("naïve", "Ünï", "日本"):
        (user_folder / f"agent/{name}.yaml").write_text("_target_: agents.dumb.Dumb\n")
    match = ("games=2", "progress=false", "--config-dir", "own", "--archive", "Späße ü")
    for words in (
        ("run", "naïve", "Ünï", "日本"),
        ("run", "Ünï", "dumb", "a.name=Größe 1"),
        ("run", "agents=[naïve, dumb, {agent: Ünï, name: C:/ï}]"),
        ("sweep", "agent@a=naïve,Ünï", "agent@b=dumb"),
        ("sweep", "agent@a=glob(*ï*)", "agent@b=dumb", "a.name=ä b,'ä,c'"),
    ):
        result = qarena(*words, *match)
        assert (result.code, result.err.count("error")) == (0, 0), result.err
    with open_archive(tmp_path / "Späße ü") as archive:
        labels = {label for row in archive.sql("SELECT agent_0, agent_1 FROM games").rows() for label in row}
        jobs = archive.sql("SELECT DISTINCT overrides['agent@a'], overrides['a.name'] FROM sweeps ORDER BY ALL").rows()
    assert labels == {"naïve", "Ünï", "日本", "Größe 1", "C:/ï", "dumb", "ä b", "ä,c"}
    named = {("naïve", "ä b"), ("naïve", "ä,c"), ("Ünï", "ä b"), ("Ünï", "ä,c")}
    assert set(jobs) == {("naïve", None), ("Ünï", None), *named}
    assert qarena("agents", "check", "naive", "--config-dir", "own").err.startswith(
        "error: agent 'naive' does not exist; did you mean 'naïve'?"
    )
    assert "Größe 1" in qarena("crosstable", "--archive", "Späße ü").out


def test_a_home_folder_is_expanded_wherever_a_path_is_taken(
    user_folder: Path, tmp_path: Path, qarena: Qarena, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Expand ``~`` ourselves, because shells leave it alone after ``=`` and in quotes."""
    home = tmp_path / "home"
    home.mkdir()
    user_folder.rename(home / "own")
    monkeypatch.setenv("XDG_CACHE_HOME", os.environ.get("XDG_CACHE_HOME", str(Path("~/.cache").expanduser())))
    monkeypatch.setenv("HOME", str(home))
    match = ("beside", "dumb", "games=2", "progress=false", "--config-dir=~/own", "hydra.run.dir=~/out")
    for archive in ("--archive=~/one", "archive.root=~/two", "archive.root='~/three'"):
        assert qarena("run", *match, archive).code == 0
    with monkeypatch.context() as session:
        session.setenv("QARENA_ARCHIVE", "~/five")
        assert qarena("run", *match).code == 0
    assert qarena("sql", "SELECT 1", "--archive", "~/one", "--output=~/rows.csv").code == 0
    assert qarena("archive", "export", "--archive=~/two", "--format", "text", "--output=~/games.txt").code == 0
    assert qarena("archive", "import", "~/games.txt", "--archive=~/four").code == 0
    monkeypatch.setenv("QARENA_CACHE", "~/cache")
    monkeypatch.setenv("QARENA_TABLEBASE", "~/bases")
    assert (cache_root(), tablebase_home()) == (home / "cache", home / "bases")
    names = {path.name for path in home.iterdir()}
    assert names == {"own", "out", "one", "two", "three", "four", "five", "rows.csv", "games.txt"}
    assert [path.name for path in tmp_path.iterdir()] == ["home"]
