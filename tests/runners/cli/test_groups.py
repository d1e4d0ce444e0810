"""The archive has one spelling, archive=DIR, and each command takes the others as well."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from runners.cli.groups import with_option
from runners.cli.main import app
from runners.hydra_app.flags import flags_first
from tests.paths import SAMPLE
from tests.runners.conftest import Qarena

SPELLINGS = ("archive={}", "archive.root={}", "--archive={}", "--archive {}")
COMMANDS: Any = typer.main.get_command(app)


def commands(group: Any, names: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, (*names, name))
        else:
            yield (*names, name), command


TAKING = [
    pytest.param(names, command, id=" ".join(names))
    for names, command in commands(COMMANDS)
    if any("--archive" in param.opts and not getattr(param, "is_flag", False) for param in command.params)
]


def test_most_commands_take_an_archive() -> None:
    assert len(TAKING) > 15


@pytest.mark.parametrize(("names", "command"), TAKING)
def test_each_command_takes_each_spelling(
    names: tuple[str, ...], command: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[Path] = []
    monkeypatch.setattr(command, "callback", lambda archive, **_others: found.append(Path(archive)))
    required = [param for param in command.params if param.required]
    needed = [word for param in required for word in ([param.opts[0], "x"] if param.opts[0][0] == "-" else ["x"])]
    for spelling in SPELLINGS:
        words = [part.format("a=b,c") for part in spelling.split()]
        COMMANDS.main([*names, *needed, *words], standalone_mode=False)
    assert found == [Path("a=b,c")] * len(SPELLINGS)


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_hydra_takes_each_spelling(spelling: str, qarena: Qarena, tmp_path: Path) -> None:
    words = [part.format("mine") for part in spelling.split()]
    assert qarena("run", "games=2", "threads=1", "progress=false", *words).code == 0
    assert (tmp_path / "mine" / "archive.json").exists()
    assert not (tmp_path / "data").exists()


def test_a_name_of_the_group_archive_is_still_a_choice(tmp_path: Path) -> None:
    (tmp_path / "archive").mkdir()
    (tmp_path / "archive" / "fast.yaml").write_text("root: /tmp/fast")
    assert flags_first(["archive=default"])[2] == ["archive=default"]
    assert flags_first(["archive=./default", "archive.shard_games=4"])[2][0] == "archive.root=./default"
    assert flags_first(["archive=fast"])[2] == ["archive.root=fast"]
    assert flags_first(["archive=fast", "--config-dir", str(tmp_path)])[2] == ["archive=fast"]


def test_a_folder_after_dashes_is_taken_as_it_is() -> None:
    assert flags_first(["--archive", "a,b=c d"])[2] == ["archive.root='a,b=c d'"]
    assert flags_first(["archive=a,b"])[2] == ["archive.root=a,b"]  # a sweep


def test_the_value_of_another_option_is_no_archive() -> None:
    params = COMMANDS.commands["report"].params
    assert with_option(params, ["--title", "archive=x", "archive=y"]) == ["--title", "archive=x", "--archive", "y"]
    assert with_option(params, ["--", "archive=x"]) == ["--", "archive=x"]
    assert with_option(COMMANDS.commands["perft"].params, ["archive=x"]) == ["archive=x"]


def test_the_archive_may_stand_anywhere(qarena: Qarena) -> None:
    found = qarena("sql", f"archive={SAMPLE}", "SELECT count(*) AS games FROM games", "--format", "csv")
    assert (found.code, found.out) == (0, "games\n16000\n")
    found = qarena("archive", "ls", "archive=nowhere")
    assert found.code == 2
    assert found.err.startswith("error: there is no archive at nowhere: run an experiment first")
