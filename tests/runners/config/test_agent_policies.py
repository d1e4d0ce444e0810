"""Agents by policy: what is learned is played by name, and what does not fit is refused before a folder is made."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agents.ga2 import Ga2
from agents.ga5 import Ga5
from agents.learning.policy import GENOME, Policy
from agents.rl_encoded import CODES, ENCODED_VALUES
from analytics.store import policy_cards, policy_store
from analytics.store.archive import ArchiveStore
from analytics.store.policy_cards import PolicyCard
from quarto.errors import RequestError
from quarto.rules import CLASSIC
from runners.arena.spec import RunSpec
from runners.config.agent_policies import build_policy_agent
from runners.config.agents import agent_from_label
from tests.agents.test_line_values import random_policy
from tests.analytics.stored_policies import COUNTS, GENES, origin
from tests.runners.conftest import Qarena
from tests.runners.experiments import build_run_request

FIVE = ("alpha", "beta", "gamma", "delta", "epsilon")


def values(seed: int) -> Policy:
    """Build a policy for ``rl_encoded`` with random values."""
    code = np.arange(CODES, dtype=np.int32)
    return Policy(ENCODED_VALUES, table={"code": code, "value": np.random.default_rng(seed).random(CODES)})


def save(root: Path, policy: Policy, name: str) -> PolicyCard:
    return policy_store.save(ArchiveStore.open(root, create=True), policy, origin(name))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "data/archive"


def test_parameters_of_policy_go_to_the_player_that_has_them(root: Path) -> None:
    save(root, random_policy(CLASSIC, 0)[0], "mine")
    spec = agent_from_label("policy(policy=mine,risk=0.75,exploration=0.5)", root)
    assert (spec.target, spec.params["policy"]) == ("agents.policy.PolicyAgent", "mine")  # as ids need it
    assert "player" not in spec.to_record()
    player = spec.player
    assert player is not None
    assert (player.params["risk"], player.params["exploration"]) == (0.75, 0.5)
    default_player = agent_from_label("policy(policy=mine)", root).player
    assert default_player is not None
    assert (default_player.params["risk"], default_player.params["exploration"]) == (0.25, 0.0)


def test_a_learned_policy_reaches_its_player_and_names_it(root: Path) -> None:
    card = save(root, values(1), "mine")
    for spec in (
        build_run_request("agent@a=rl_encoded", "a.policy=mine", f"archive.root={root}").spec.agents[0],
        build_run_request('agents=["rl_encoded(policy=mine)",random]', f"archive.root={root}").spec.agents[0],
        build_run_request("agents=[{agent:rl_encoded,policy:mine},random]", f"archive.root={root}").spec.agents[0],
        agent_from_label("rl_encoded(policy=mine)", root),
    ):
        assert spec.label == "rl_encoded(policy=mine)"
        assert spec.params["policy"] == "mine"
        assert spec.policy_id == card.policy_id
        player: Any = spec.build()
        assert player._values.tobytes() == values(1).table["value"].tobytes()
    before = RunSpec(CLASSIC, (spec, spec), ((0, 1),), 1, 0)
    build_run_request.cache_clear()
    save(root, values(2), "mine")  # another policy of the same name makes another run
    other = agent_from_label("rl_encoded(policy=mine)", root)
    assert replace(before, agents=(other, other)).run_id != before.run_id


def test_a_genome_replaces_the_genes_of_any_player_that_has_them(root: Path) -> None:
    card = save(root, GENES, "bred")
    for agent in ("ga2", "ga_minimax"):
        spec = agent_from_label(f"{agent}(policy=bred)", root)
        assert (spec.params["alpha"], spec.params["beta"]) == (0.25, 0.75)
        assert "policy" not in spec.params
        assert (spec.label, spec.policy_id) == (f"{agent}(policy=bred)", card.policy_id)
        built: Any = spec.build()
        assert (built.alpha, built.beta) == (0.25, 0.75)
    assert (
        agent_from_label(f"ga2(policy={card.policy_id})", root).params
        == agent_from_label("ga2(policy=bred)", root).params
    )


def test_the_genes_of_a_genome_reach_its_player_or_are_refused() -> None:
    player: Any = build_policy_agent(Policy(GENOME, {"beta": 0.75}))
    assert (player.alpha, player.beta) == (0.1, 0.75)
    assert type(build_policy_agent(Policy(GENOME, {"alpha": 0.25, "beta": 0.75}))) is Ga2
    assert type(build_policy_agent(Policy(GENOME, dict.fromkeys(FIVE, 0.5)))) is Ga5
    with pytest.raises(RequestError, match="policy 'genome' has genes that no agent has: omega"):
        build_policy_agent(Policy(GENOME, {"omega": 1.0}))


@pytest.mark.slow
def test_a_kind_of_ones_own_is_played_by_the_agent_whose_yaml_reads_it(
    root: Path, tmp_path: Path, qarena: Qarena, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(root, Policy("moods", table={"mood": np.array([1])}), "mine")
    monkeypatch.syspath_prepend(str(tmp_path / "code"))
    for path, text in {
        "code/moody.py": "from agents.random import Random\n\n\nclass Moody(Random):\n"
        "    def __init__(self, policy=None):\n        self.mood = policy\n",
        "own/agent/moody.yaml": "_target_: moody.Moody\nreads: [moods]\ndefault_player: true\npolicy: null\n",
        "own/agent/other.yaml": "_target_: moody.Moody\nreads: [moods]\npolicy: null\n",
    }.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    run = ("run", "a.policy=mine", "agent@b=random", "games=2")
    refused = qarena(*run, "agent@a=policy")
    assert "policy 'mine' is of kind 'moods', which no agent plays by default; valid: counters, " in refused.refusal
    wrong = qarena(*run, "agent@a=rl_encoded", "--config-dir", "own")
    assert "policy 'mine' is of kind 'moods', which moody, other and policy read" in wrong.err
    for agent in ("policy", "moody", "other"):
        assert qarena(*run, f"agent@a={agent}", "--config-dir", "own")[::2] == (0, "")
    (tmp_path / "own/agent/other.yaml").write_text((tmp_path / "own/agent/moody.yaml").read_text())
    assert "default players are moody and other: " in qarena(*run, "agent@a=policy", "--config-dir", "own").err


def test_ids_that_look_like_numbers_are_read_as_ids(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for policy_id in ("000012345678", "123456789012"):
        for module in (policy_store, policy_cards):
            monkeypatch.setattr(module, "compute_policy_id", lambda name, knowledge, fixed_id=policy_id: fixed_id)
        save(root, GENES, "bred")
        assert agent_from_label(f"ga2(policy={policy_id})", root).policy_id == policy_id


@pytest.mark.parametrize(
    ("agent", "expected"),
    [
        ("rl_encoded(policy=mien)", "policy 'mien' is not in archive {root}; did you mean 'mine'? valid: "),
        ("rl_encoded(policy=12.5)", "agent 'rl_encoded(policy=12.5)': policy=12.5 is not a name; put it in quotes"),
        ("random(policy=mine)", "agent 'random' has no parameter 'policy'"),
        (
            "ga2(policy=mine)",
            "plays by policies of kind 'genome', and policy 'mine' is of kind 'encoded_values', which rl_encoded and ",
        ),
        ("ga2(policy=five)", "agent 'ga2(policy=five)' has no gene 'gamma' of policy 'five'"),
        ("ga5(policy=bred)", "policy 'bred' has no gene 'gamma', which agent 'ga5(policy=bred)' needs: it has alpha, "),
        ("ga2(policy=bred,alpha=0.5)", "alpha=0.5 contradicts policy=bred, which has alpha=0.25"),
    ],
)
def test_a_policy_that_does_not_fit_is_refused_in_one_line(root: Path, agent: str, expected: str) -> None:
    save(root, values(1), "mine")
    save(root, GENES, "bred")
    save(root, Policy(GENOME, dict.fromkeys(FIVE, 0.5)), "five")
    with pytest.raises(RequestError) as refused:
        agent_from_label(agent, root)
    assert expected.format(root=root) in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("a.policy=mien", "policy 'mien' is not in archive data/archive; did you mean 'mine'?"),
        (
            "a.policy=counted",
            "policies of kind 'encoded_values', and policy 'counted' is of kind 'counts', which no agent reads",
        ),
        ("a.policy=broken", "policy 'broken' is damaged: the SHA-256 of table-"),
        ("archive.root=nowhere a.policy=mine", "there is no archive at nowhere"),
    ],
)
def test_a_wrong_policy_exits_2_before_any_folder_is_made(
    typed: str, expected: str, root: Path, tmp_path: Path, qarena: Qarena
) -> None:
    save(root, values(1), "mine")
    save(root, COUNTS, "counted")
    card = save(root, values(2), "broken")
    table = Path(
        policy_cards.policy_folder(ArchiveStore.open(root), card.policy_id) / card.stored_name("table.parquet")
    )
    content = bytearray(table.read_bytes())
    content[100] ^= 1
    table.write_bytes(content)
    before = sorted(tmp_path.rglob("*"))
    result = qarena("run", "agent@a=rl_encoded", "games=2", *typed.split())
    assert re.fullmatch(rf"error: .*{re.escape(expected)}.*\n", result.refusal)
    assert sorted(tmp_path.rglob("*")) == before


def test_policies_are_listed_and_shown(qarena: Qarena, root: Path) -> None:
    assert qarena("policy", "ls").code == 2
    card = save(root, values(1), "mine")
    save(root, GENES, "bred")
    listed = qarena("policy", "ls")
    assert (listed.code, listed.err) == (0, "")
    assert re.search(rf"mine +│ {card.policy_id} │ encoded_values │ classic │ counting +│ +3 │ +20 ", listed.out)
    for name in ("mine", card.policy_id):
        shown = qarena("policy", "show", name)
        assert (shown.code, shown.err) == (0, "")
        for text in (card.policy_id, "trainer learner.rate │ 0.5", "counting, seed 3, 20 games", card.knowledge):
            assert text in shown.out
        assert re.search(r"file +│ table-[0-9a-f]{16}.parquet, [\d,]+ bytes, 390,625 rows", shown.out)
    assert re.search(r"play by it: encoded_values \(rl_encoded, policy\)", listed.out)
    assert re.search(r"gene beta +│ 0.75", qarena("policy", "show", "bred").out)
    unknown = qarena("policy", "show", "mien")
    assert "did you mean 'mine'?" in unknown.refusal
    assert re.search(r", 2 policies: no problems", qarena("archive", "verify").out)


def test_a_person_plays_against_a_policy(qarena: Qarena, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(root, values(1), "mine")
    monkeypatch.setattr("sys.stdin", io.StringIO("resign\n"))
    result = qarena("play", "rl_encoded(policy=mine)", "--archive", str(root))
    assert (result.code, result.err) == (0, "")
    assert "against rl_encoded(policy=mine)" in result.out
    monkeypatch.setattr("sys.stdin", io.StringIO("resign\n"))
    result = qarena("play", "rl_encoded", "--no-log")
    assert result.err == "rl_encoded has no policy: it plays untrained (qarena train trainer=rl_encoded makes one)\n"
