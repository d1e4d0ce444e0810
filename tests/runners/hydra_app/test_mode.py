"""Hydra composes a command once where nothing can make a sweep of it, and looks for ``hydra.mode`` where a yaml may."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import pytest
from hydra._internal.config_repository import ConfigRepository
from hydra._internal.hydra import Hydra
from omegaconf import OmegaConf

from runners.arena.config_groups import CONF
from runners.hydra_app import application
from runners.hydra_app.mode import only_flag_decides
from tests.runners.conftest import Qarena


@pytest.mark.parametrize("arguments", [["games=4"], ["hydra.run.dir=here", "a.name=x"], ["agent@a=random"], []])
def test_of_these_none_can_set_the_mode(arguments: list[str]) -> None:
    assert only_flag_decides(arguments)


@pytest.mark.parametrize(
    "argument",
    [
        *("hydra.mode=RUN", "+hydra.mode=RUN", "hydra.searchpath=[file://here]", "hydra/launcher=joblib", "hydra=own"),
        *("+experiment@hydra=own", "--config-dir", "-cd=here", "--config-name"),
    ],
)
def test_each_of_these_may_set_the_mode(argument: str) -> None:
    assert not only_flag_decides(["games=4", argument])


@pytest.mark.parametrize("path", sorted(CONF.rglob("*.yaml")), ids=lambda path: str(path.relative_to(CONF)))
def test_no_yaml_of_the_project_sets_the_mode(path: Path) -> None:
    written = OmegaConf.load(path)
    assert OmegaConf.select(written, "hydra.mode") is None
    assert OmegaConf.select(written, "mode") is None


@pytest.mark.parametrize(("argument", "times"), [("games=4", 1), ("hydra.mode=RUN", 2)])
def test_a_run_is_composed_once(argument: str, times: int, qarena: Qarena, monkeypatch: pytest.MonkeyPatch) -> None:
    composed: list[object] = []
    compose_config = Hydra.compose_config

    def counting(hydra: Hydra, *args: object, **kwargs: object) -> object:
        composed.append(args)
        return compose_config(hydra, *args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(Hydra, "compose_config", counting)
    assert qarena("run", "agent@a=random", "agent@b=random", "games=2", argument).code == 0
    assert len(composed) == times


def test_help_copies_no_sources(qarena: Qarena, monkeypatch: pytest.MonkeyPatch) -> None:
    """The text is that of Hydra with copies; the sources are shared in the context of a command only."""
    shared = qarena("run", "--help")
    assert not hasattr(ConfigRepository, "__deepcopy__")
    monkeypatch.setattr(application, "sources_shared", nullcontext)
    assert shared.code == 0
    assert shared == qarena("run", "--help")
