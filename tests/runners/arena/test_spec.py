"""A run's id names everything that affects its games; its code is everything that decides them."""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Optional
from unittest.mock import Mock

import pytest

from agents.base.agent import AgentLimits
from quarto.errors import RequestError
from quarto.rules import CLASSIC, Rules
from runners.arena.spec import AgentSpec, RunSpec, format_label
from tests.runners.experiments import build_run_request

RULE_BASED = AgentSpec("rule_based", "agents.rule_based.RuleBased", {"faithful": False, "version": "last"})
RANDOM = AgentSpec("random", "agents.random.Random", {})
SPEC = RunSpec(CLASSIC, (RULE_BASED, RANDOM), ((0, 1),), seed=7, opening_plies=2)

# The record of ``SPEC`` by hand: runs in archives carry this id, so its source must never change by accident.
SPELT_OUT = (
    '{"agents":[{"label":"rule_based","params":{"faithful":false,"version":"last"},"target":"agents.rule_based.RuleBased"},'
    '{"label":"random","params":{},"target":"agents.random.Random"}],"opening_plies":2,"pairings":[[0,1]],'
    '"rules":{"chooser":"opponent","diagonals":"main","name":"classic","rows_and_columns":true,"squares":"none"},'
    '"seed":7}'
)


def test_a_run_id_is_the_hash_of_its_spelt_out_spec() -> None:
    assert SPEC.run_id == hashlib.sha256(SPELT_OUT.encode()).hexdigest()[:12] == "6ca8333a90a5"


OTHERS = {
    "rules' name": replace(SPEC, rules=replace(CLASSIC, name="other")),
    "rows and columns": replace(SPEC, rules=replace(CLASSIC, rows_and_columns=False)),
    "diagonals": replace(SPEC, rules=replace(CLASSIC, diagonals="broken")),
    "squares": replace(SPEC, rules=replace(CLASSIC, squares="plain")),
    "chooser": replace(SPEC, rules=replace(CLASSIC, chooser="mover")),
    "label": replace(SPEC, agents=(replace(RULE_BASED, label="mine"), RANDOM)),
    "target": replace(SPEC, agents=(replace(RULE_BASED, target="agents.dumb.Dumb"), RANDOM)),
    "parameter": replace(SPEC, agents=(replace(RULE_BASED, params={"faithful": True, "version": "last"}), RANDOM)),
    "policy": replace(SPEC, agents=(replace(RULE_BASED, policy_id="0123456789ab"), RANDOM)),
    "one more agent": replace(SPEC, agents=(RULE_BASED, RANDOM, RANDOM)),
    "who is first": replace(SPEC, pairings=((1, 0),)),
    "seats": replace(SPEC, seats="fixed"),
    "learner": replace(SPEC, learner=0),
    "one more pairing": replace(SPEC, pairings=((0, 1), (0, 0))),
    "seed": replace(SPEC, seed=8),
    "opening": replace(SPEC, opening_plies=3),
    "limits": replace(SPEC, agents=(replace(RULE_BASED, limits=AgentLimits(turn_seconds=0.5)), RANDOM)),
    "salt": replace(SPEC, salt="0123456789abcdef"),
}


def test_whatever_affects_games_changes_the_run_id() -> None:
    assert len({spec.run_id for spec in [SPEC, *OTHERS.values()]}) == 1 + len(OTHERS)


def test_every_field_of_a_spec_is_varied_above() -> None:
    for spec in (SPEC, CLASSIC, RULE_BASED):
        kind = type(spec)
        variants = [
            other if kind is RunSpec else other.rules if kind is Rules else other.agents[0] for other in OTHERS.values()
        ]
        for name, field in kind.__dataclass_fields__.items():
            if field.compare and name != "training":  # else it follows from the others, or affects no game
                assert any(getattr(other, name) != getattr(spec, name) for other in variants), f"{kind.__name__}.{name}"


def test_what_does_not_affect_games_leaves_the_run_id_alone() -> None:
    overrides = ("agent@a=rule_based", "agent@b=random", "seed=7", "opening_plies=2")
    harmless = ("games=2", "threads=1", "archive.root=x", "archive.shard_games=4", "archive.shard_seconds=1")
    run_ids = {
        build_run_request(*overrides, other).spec.run_id
        for other in (*harmless, "progress=false", "archive.other_code=extend")
    }
    assert run_ids == {SPEC.run_id}


@pytest.mark.parametrize(
    ("params", "defaults", "expected"),
    [
        ({}, {}, "ga_minimax"),
        ({"depth": 2, "eager": False}, {"depth": 2, "eager": False}, "ga_minimax"),
        ({"depth": 3, "eager": False}, {"depth": 2, "eager": False}, "ga_minimax(depth=3)"),
        ({"eager": True, "depth": 3}, {"depth": 2, "eager": False}, "ga_minimax(depth=3,eager=true)"),
        ({"depth": None}, {"depth": 2}, "ga_minimax(depth=null)"),
        ({"depth": None}, {}, "ga_minimax(depth=null)"),
        ({"weights": [1, 0.5]}, {"weights": [1, 1]}, "ga_minimax(weights=[1,0.5])"),
        ({"table": "a.parquet"}, {"table": ""}, "ga_minimax(table=a.parquet)"),
    ],
)
def test_a_label_names_what_differs_from_the_yaml(
    params: Mapping[str, Any], defaults: Mapping[str, Any], expected: str
) -> None:
    assert format_label("ga_minimax", params, defaults) == expected


def test_an_agent_is_built_with_its_parameters_also_where_it_was_sent(outside_folder: Path) -> None:
    built: Any = AgentSpec("mine", "outside_player.Player", {"depth": 2, "width": 3}, trusted=True).build()
    assert (built.depth, built.others) == (2, {"width": 3})  # a constructor may take anything
    for trusted in (True, False):
        plain = json.loads(json.dumps(replace(RANDOM, trusted=trusted).to_dict()))
        assert AgentSpec.from_dict(plain, Mock()).trusted == trusted


PLAYER = """
class Player:
    def __init__(self, depth, **others):
        if depth < 0:
            raise FileNotFoundError(2, "no table")
        self.depth, self.others = depth, others
    def choose(self, position, rng):
        return 0, 0
instance = Player(1)
"""


@pytest.fixture
def outside_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Create a folder of a user's own modules."""
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "outside_player.py").write_text(PLAYER)
    (folder / "outside_broken.py").write_text("import outside_nowhere")
    (folder / "outside_relative.py").write_text("from . import outside_player")
    (folder / "outside_garbled.py").write_text("class Player:\n    def")
    monkeypatch.syspath_prepend(folder)
    monkeypatch.delitem(sys.modules, "outside_player", raising=False)
    return folder


@pytest.mark.parametrize(
    ("target", "params", "expected"),
    [
        ("agents.rule_based.RuleBased", {"faithfull": True}, "no parameter 'faithfull'; did you mean 'faithful'?"),
        ("agents.rule_based.RuleBase", {}, "'agents.rule_based.RuleBase' cannot be imported"),
        ("agents.rulebased.RuleBased", {}, "No module named 'agents.rulebased'"),
        ("RuleBased", {}, "'RuleBased' cannot be imported"),
        ("agents.rule_based.rule_based_turn", {}, "is not a class"),
        ("outside_player.instance", {}, "is not a class"),
        ("outside_player.Player", {}, "missing 1 required positional argument: 'depth'"),
        ("outside_player.Player", {"depth": "x"}, "'<' not supported"),
        ("outside_player.Player", {"depth": -1}, "no table"),
        ("outside_broken.Player", {}, "broken.py:1)); install outside_nowhere beside quarto-arena"),
        ("outside_relative.Player", {}, "is imported by its name: 'import other', not 'from . import other'"),
        ("outside_garbled.Player", {}, "cannot be imported (SyntaxError: invalid syntax"),
    ],
)
def test_an_agent_that_cannot_be_made_is_refused_in_one_line(
    target: str, params: Mapping[str, Any], expected: str, outside_folder: Path
) -> None:
    with pytest.raises(RequestError) as refusal:
        AgentSpec("mine", target, params, trusted=True).build()
    message = str(refusal.value)
    assert expected in message
    assert message.startswith("agent 'mine'")
    assert "\n" not in message


class Typed:
    def __init__(
        self,
        quick: bool = True,
        depth: int | None = None,
        centre: float = 0.5,
        mode: str = "calm",
        least: Optional[int] = None,  # noqa: UP045  (as authors may write it)
        other: Mapping[str, int] | None = None,
        width: int | None = 3,
        plain: int = None,  # type: ignore[assignment]  # noqa: RUF013  (as authors may write it)
    ) -> None: ...

    def choose(self, position: Any, rng: Any) -> tuple[int, int]:
        return 0, 0


@pytest.mark.parametrize(
    ("name", "value", "wrong"),
    [
        ("quick", "maybe", "quick='maybe' is neither true nor false"),
        ("quick", 1, "quick=1 is neither true nor false"),
        ("quick", None, "quick=None is neither true nor false"),
        ("depth", True, "depth=True is not a whole number"),
        ("depth", 2.5, "depth=2.5 is not a whole number"),
        ("depth", None, ""),
        ("centre", "high", "centre='high' is not a number"),
        ("centre", 1, ""),
        ("mode", 7, "mode=7 is not a text; in quotes it is one: mode='\"7\"'"),
        ("least", "few", "least='few' is not a whole number"),
        ("least", None, ""),
        ("other", "anything", ""),
        ("width", None, ""),
        ("plain", None, ""),
    ],
)
def test_values_of_simple_types_are_checked(name: str, value: Any, wrong: str) -> None:
    typed = AgentSpec("mine", f"{__name__}.Typed", {name: value}, trusted=True)
    if not wrong:
        typed.build()
        return
    with pytest.raises(RequestError, match=f"^{re.escape(f'agent {typed.label!r}: {wrong}')}$"):
        typed.build()


class Genome:
    """A player with a gene that has the name of a parameter for policies."""

    def __init__(self, value: float = 0.5) -> None:
        self.value = value


def test_a_gene_is_no_name_of_a_policy() -> None:
    genome = AgentSpec("mine", f"{__name__}.Genome", {"policy": None, "value": 0.5}, trusted=True)
    assert genome.find_policy_parameter() is None
    assert AgentSpec("mcts", "agents.mcts.Mcts", {"value": None}).find_policy_parameter() == "value"
    assert AgentSpec("lines", "agents.line_values.LineValues", {"policy": None}).find_policy_parameter() == "policy"


def test_an_agent_that_the_user_did_not_name_runs_no_code_of_others() -> None:
    polito: dict[str, Any] = {"label": "p", "target": "runners.polito.agent.Polito", "params": {}}
    inside = AgentSpec("o", "agents.oracle.Oracle", {"below": polito})
    deeper = AgentSpec("o", "agents.oracle.Oracle", {"below": inside.to_record()})
    for spec in (AgentSpec("mine", "nowhere.Player", {}), AgentSpec(**polito), inside, deeper):
        assert len([*spec.third_party_code()]) == 1
        with pytest.raises(RequestError, match=r"code .* not vouch for .* allow it with --trust-agents"):
            spec.build()
        with pytest.raises(RequestError, match="--trust-agents"):
            spec.find_policy_parameter()
    assert replace(deeper, trusted=True).build()
    assert not [*RULE_BASED.third_party_code()]
