"""The one line of a request: words, overrides, a composed configuration, a typed request, a run."""

from __future__ import annotations

import ast
import os
import shlex
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import DictConfig, OmegaConf

import runners
from analytics import open_archive
from analytics.store.schema import MAX_PAIRS
from runners.arena.request import RunRequest
from runners.config import requests, schemas
from tests.paths import ROOT
from tests.runners.conftest import Qarena

WORDS = ("random", "dumb", "games=10", "seed=7", "archive.shard_games=64", "progress=false")


def test_each_key_of_a_run_is_checked_once_and_its_overrides_are_left_to_hydra(
    qarena: Qarena, monkeypatch: pytest.MonkeyPatch
) -> None:
    checked, parsed = Counter[str](), list[str]()
    check_range, parse = schemas.check_range, OverridesParser.parse_overrides

    def check(key: str, *bounds: float) -> None:
        checked[key] += 1
        check_range(key, *bounds)

    def parse_and_note(parser: Any, overrides: list[str]) -> Any:
        parsed.extend(overrides)
        return parse(parser, overrides)

    monkeypatch.setattr(schemas, "check_range", check)
    monkeypatch.setattr(OverridesParser, "parse_overrides", parse_and_note)
    assert qarena("run", *WORDS).code == 0
    assert checked["games"] == checked["seed"] == checked["archive.shard_games"] == 1
    assert set(checked.values()) == {1}
    assert Counter(parsed) == Counter(dict.fromkeys(["agents=[random,dumb]", *WORDS[2:]], 1))


def test_a_call_composes_the_configuration_of_the_command(
    qarena: Qarena, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    composed, built = list[dict[Any, Any]](), list[RunRequest]()
    build = requests.build_request

    def build_and_note(cfg: DictConfig, *arguments: Any) -> RunRequest:
        settings = OmegaConf.masked_copy(cfg, [str(key) for key in cfg if key != "hydra"])
        composed.append(dict(OmegaConf.to_container(settings, resolve=True)))  # type: ignore[arg-type]
        built.append(build(cfg, *arguments))
        return built[-1]

    monkeypatch.setattr(requests, "build_request", build_and_note)
    assert qarena("run", *WORDS, "--archive", "one").code == 0
    monkeypatch.chdir(tmp_path)
    runners.run("random", "dumb", games=10, seed=7, overrides=["archive.shard_games=64"], progress=False, archive="one")
    assert composed[0] == composed[1]
    assert built[0] == built[1]


def test_calls_in_threads_find_their_own_folders_and_leave_none(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("one", "two", "three")]
    for faithful, folder in enumerate(folders):
        (folder / "agent").mkdir(parents=True)
        text = f"_target_: agents.dumb.Dumb\nfaithful: {str(bool(faithful % 2)).lower()}\n"
        (folder / "agent" / f"mine_{folder.name}.yaml").write_text(text)

    def play(folder: Path) -> str | None:
        return runners.run(
            f"mine_{folder.name}", "random", games=2, config_dir=folder, archive=tmp_path / "archive", progress=False
        ).run_id

    with ThreadPoolExecutor(3) as pool:
        run_ids = [*pool.map(play, folders)]
    with open_archive(tmp_path / "archive") as archive:
        assert {*archive.runs().frame["run_id"]} == {*run_ids}
    assert len({*run_ids}) == 3
    with pytest.raises(Exception, match="mine_one"):
        runners.run("mine_one", "random", games=2, archive=tmp_path / "archive")


def test_a_launch_leaves_nothing_in_the_environment(qarena: Qarena, tmp_path: Path) -> None:
    before, arguments = dict(os.environ), ["qarena", "sweep", "random", "dumb", "games=2,4", "--config-dir", "own"]
    (tmp_path / "own").mkdir()
    swept = qarena(*arguments[1:])
    assert swept.code == 0, swept.err
    assert dict(os.environ) == before
    assert sys.argv == arguments
    with open_archive(tmp_path / "data/archive") as archive:
        assert {*archive.runs().frame["command"]} == {shlex.join(arguments)}


# Every module of ours that touches the environment or ``sys.argv``, and why. None hands an argument to our own code.
ENVIRONMENT = {
    "quarto/sources.py": "the user's settings: folders of the cache",
    "analytics/store/files/backend.py": "the user's settings: the default archive, credentials of stores",
    "analytics/exact/tablebase.py": "the user's settings: the folder of tablebases",
    "runners/config/execution.py": "the user's folders are written out for other processes; HYDRA_FULL_ERROR",
    "runners/config/sweep.py": "the user's settings go to a Ray cluster that is there already",
    "runners/arena/executors/ray_cluster.py": "Ray's own settings",
    "runners/arena/executors/processes.py": "Ray's own settings, while its processes start",
    "runners/hosting/subprocesses.py": "the environment of a subprocess, and PYTHONPATH of what it becomes",
    "runners/hosting/sandbox.py": "the environment of a subprocess",
    "runners/bench/benchmark.py": "TMPDIR, the user's setting",
    "runners/bench/executors.py": "the environment of a subprocess",
    "runners/bench/timing.py": "the environment of a subprocess",
}
SET_ARGUMENTS = {  # what assigns ``sys.argv``
    "runners/cli/main.py": "--debug is taken out",
    "runners/config/execution.py": "for hydra.main, in a sweep",
    "runners/hosting/polito/player_factory.py": "a stranger's program, in a process of its own",
}


def test_the_limit_of_games_is_that_of_the_archive() -> None:
    assert schemas.MAX_PAIRS == MAX_PAIRS


def test_no_module_takes_its_arguments_from_the_environment() -> None:
    environment, arguments = set[str](), set[str]()
    for package in ("quarto", "agents", "analytics", "runners"):
        for path in (ROOT / package).rglob("*.py"):
            text, name = path.read_text(encoding="utf-8"), path.relative_to(ROOT).as_posix()
            tree = ast.parse(text)
            if "environ" in text or "getenv" in text:
                environment |= {name} if any(map(_is_environment, ast.walk(tree))) else set()
            if "sys.argv" in text:
                arguments |= {name} if any(map(_assigns_arguments, ast.walk(tree))) else set()
    assert environment <= {*ENVIRONMENT}, environment - {*ENVIRONMENT}
    assert arguments <= {*SET_ARGUMENTS}, arguments - {*SET_ARGUMENTS}


def _is_environment(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and node.attr in ("environ", "getenv", "putenv")


def _assigns_arguments(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == "argv" and isinstance(node.ctx, ast.Store)
