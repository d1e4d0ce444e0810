"""The folder `docs/d3rlpy`: its networks are trained and played; what is wrong costs one line.

The library has an environment of its own: `make test-d3rlpy` runs what needs it, all other environments lack it.
"""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

from analytics.store import policy_store
from analytics.store.archive import ArchiveStore
from tests.paths import ROOT
from tests.runners.conftest import Qarena
from tests.runners.experiments import play

FOLDER = str(ROOT / "docs" / "d3rlpy")
INSTALLED = importlib.util.find_spec("d3rlpy") is not None
BUILD = ("policy", "build", "--config-dir", FOLDER, "kind=d3rlpy")


@pytest.mark.skipif(INSTALLED, reason="the library is installed")
def test_a_missing_library_is_named_with_its_extra(qarena: Qarena) -> None:
    play(Path("data/archive"), "agent@a=random", "agent@b=random", "games=4")
    for more, message in (
        ((), "kind d3rlpy needs d3rlpy: install its extra: in a clone, .venv/bin/pip install -e '.[d3rlpy]'"),
        (("kind.algorithm=ppo",), "algorithm='ppo' is not one of bc, dqn, cql"),
    ):
        result = qarena(*BUILD, "name=mine", *more)
        assert result.code == 2
        assert re.fullmatch(r"[^\n]+\n", result.err), result.err
        assert message in result.err


@pytest.mark.skipif(not INSTALLED, reason="the library is not installed: make test-d3rlpy")
@pytest.mark.parametrize("algorithm", ["bc", "dqn", "cql"])
def test_a_network_is_trained_again_to_the_same_weights_and_plays(qarena: Qarena, algorithm: str) -> None:
    assert qarena("run", "agent@a=oracle", "agent@b=random", "games=60", "opening_plies=2", "seed=5").code == 0
    small = (f"kind.algorithm={algorithm}", "kind.steps=60", "kind.games=40", "kind.units=[16]")
    for name, more in (("one", ()), ("other", ("kind.seed=1",))):
        built = qarena(*BUILD, f"name={name}", *small, *more)
        assert built.code == 0, built.err
    archive = ArchiveStore.open(Path("data/archive"))
    one, other = (policy_store.read(archive, name)[1] for name in ("one", "other"))
    assert one.kind == "network"
    assert policy_store.compute_knowledge_digest(one) != policy_store.compute_knowledge_digest(other)
    assert qarena("policy", "rebuild", "one", "--config-dir", FOLDER).code == 0  # to the byte
    assert qarena("run", "agent@a=policy", "a.policy=one", "agent@b=random", "games=40", "seed=6").code == 0
    endings = qarena("sql", "SELECT DISTINCT ending FROM games", "--format", "csv").out.split()
    assert {"line"} <= {*endings[1:]} <= {"line", "full_board"}  # its turns are legal


@pytest.mark.skipif(not INSTALLED, reason="the library is not installed: make test-d3rlpy")
def test_a_clone_does_what_an_agent_did_that_always_did_the_same(qarena: Qarena) -> None:
    assert qarena("run", "agent@a=dumb", "agent@b=dumb", "games=40").code == 0
    built = qarena(*BUILD, "name=clone", "kind.algorithm=bc", "kind.steps=300", "kind.units=[32]", "kind.rate=0.003")
    assert built.code == 0, built.err
    assert qarena("run", "agent@a=policy", "a.policy=clone", "agent@b=random", "games=20").code == 0
    result = qarena(
        "sql",
        "SELECT DISTINCT piece FROM plies JOIN games USING (run_id, game_id) WHERE ply = 0 AND agent_0 LIKE 'policy%'",
        *("--format", "csv"),
    )
    assert result.out.split() == ["piece", "0"]  # the first gift of every game
