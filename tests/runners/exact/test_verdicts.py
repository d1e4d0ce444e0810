"""`qarena policy judge`: optimal turns, exact regret, draws against the oracle, and the page of all agents."""

from __future__ import annotations

import io
import re
import threading
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from analytics.exact.position_set import PositionSet, read_position_set, select_positions
from analytics.statistics.tally import Tally, tally_by_pairing
from quarto.rules import CLASSIC
from quarto.solver.solver import Solver
from quarto.views import Position
from runners.arena.batch_engine import PairRange
from runners.arena.experiment import build_engine
from runners.arena.spec import AgentSpec, RunSpec
from runners.config.agents import agent_from_label
from runners.config.yaml_options import use_config_dir
from runners.exact import verdicts
from runners.exact.verdict_tables import sort_by_regret
from runners.exact.verdicts import AgentVerdict, JudgeOptions, estimate_draw_rate, judge_agent
from tests.paths import ROOT
from tests.runners.conftest import Qarena
from tests.runners.learning.training.trainings import train, without_pictures

QUICK = JudgeOptions(turns_per_position=2, games=0, seed=5, threads=2)


class RandomTies:
    """An agent that takes any turn that keeps the value, each with the same probability."""

    choosers = ("opponent",)

    def __init__(self) -> None:
        self._solver = Solver(CLASSIC, 1.0)

    def choose(self, position: Position, rng: np.random.Generator) -> tuple[int, int]:
        turns = self._solver.turns(position.packed, distance=False)
        best_value = max(turn.value for turn in turns)
        best = [turn for turn in turns if turn.value == best_value]
        chosen = best[rng.integers(len(best))]
        return chosen.cell, chosen.gift


class Careless:
    """An agent that places on an occupied cell, and raises with fewer than 14 pieces on the board."""

    choosers = ("opponent",)

    def choose(self, position: Position, rng: np.random.Generator) -> tuple[int, int]:
        if len(position.free) > 2:
            raise ValueError("too hard")
        return position.last_cell, position.available[0] if position.available else -1


@pytest.fixture(scope="module")
def late_positions() -> PositionSet:
    """Select a part of the shipped set, from ten pieces on."""
    shipped = read_position_set(ROOT / "analytics/exact/position_sets/classic.parquet")
    return select_positions(shipped, (shipped.piece_counts >= 10) & (np.arange(len(shipped.piece_counts)) % 20 == 0))


def judge_quickly(agent: AgentSpec, positions: PositionSet, options: JudgeOptions = QUICK) -> AgentVerdict:
    verdict = judge_agent(agent, positions, options, threading.Event())
    assert verdict is not None
    return verdict


def build_own_agent(name: type) -> AgentSpec:
    return AgentSpec(name.__name__.lower(), f"{__name__}.{name.__name__}", {}, trusted=True)


def load_named_agent(label: str) -> AgentSpec:
    with use_config_dir(None):
        return agent_from_label(label)


@pytest.mark.parametrize(
    "agent",
    [load_named_agent("oracle"), load_named_agent("oracle(ties=trap)"), build_own_agent(RandomTies)],
    ids=lambda agent: agent.label,
)
def test_perfect_agents_have_no_regret_whatever_they_choose_among(
    agent: AgentSpec, late_positions: PositionSet
) -> None:
    figures = judge_quickly(agent, late_positions).figures
    assert set(figures["optimal"]) == {1.0}
    assert set(figures["regret"]) == {0.0}


def test_the_oracle_draws_with_itself_and_a_random_player_does_not() -> None:
    shipped = read_position_set(ROOT / "analytics/exact/position_sets/classic.parquet")
    few = select_positions(shipped, shipped.piece_counts == 15)
    options = QUICK._replace(games=40)
    oracle, random = (
        judge_quickly(load_named_agent(name), few, options).draw_estimate for name in ("oracle", "random")
    )
    assert oracle is not None
    assert random is not None
    assert oracle.mean == oracle.high == 1.0
    assert random.mean < 0.3


def test_what_is_no_turn_counts_as_a_loss_and_is_told(late_positions: PositionSet) -> None:
    verdict = judge_quickly(build_own_agent(Careless), late_positions, QUICK._replace(turns_per_position=1))
    values = late_positions.values.max(axis=(1, 2))
    totals = verdict.figures.row(
        by_predicate=(pl.col("kind") == "turn") & pl.col("source").is_null() & pl.col("pieces").is_null(), named=True
    )
    assert totals["regret"] == pytest.approx((values + 1).mean())
    assert any("took no legal turn" in note for note in verdict.notes)
    assert any("ValueError" in note for note in verdict.notes)


def test_agents_are_judged_by_label_and_policies_by_name(qarena: Qarena, small: Path) -> None:
    root = Path("data/archive")
    older = train(root, "trainer=rl_encoded", "trainer.games=40", "policy.name=rl_encoded").policy_id
    judged = ("policy", "judge", "--positions", str(small), "--games", "4")
    result = qarena(*judged, "rl_encoded", "rl_encoded()", "mcts(iterations=30)", "--wide")
    assert result.code == 0, result.err
    for label in ("policy(policy=rl_encoded)", "│ rl_encoded ", "mcts(iterations=30)"):
        assert label in result.out
    assert "rl_encoded is the policy; the agent of that name is judged as 'rl_encoded()'" in result.err
    assert "plays untrained" in result.err
    assert train(root, "trainer=rl_encoded", "trainer.games=60", "policy.name=rl_encoded").policy_id != older
    assert f"policy(policy={older})" in qarena(*judged, older).out  # a name means the newest, an id any
    rows: Any = pl.read_csv(io.StringIO(qarena(*judged, "random", "semi_random", "--format", "csv").out))
    assert set(rows["agent"]) == {"random", "semi_random"}
    assert set(rows["kind"]) == {"turn", "placement", "gift"}
    assert set(rows["oracle_games"]) == {4}
    none = pl.read_csv(io.StringIO(qarena(*judged[:-2], "random", "--games", "0", "--format", "csv").out))
    assert none["draws"].null_count() == len(none)


def test_wrong_requests_cost_one_line(qarena: Qarena, small: Path) -> None:
    for arguments, message in (
        (["oracel"], "'oracel' is neither a policy in archive data/archive nor an agent; did you mean 'oracle'?"),
        ([], "name a policy or an agent to judge"),
        (["random", "--rules", "torus"], "there is no set of positions for rules 'torus'"),
        (
            ["random", "--rules", "square", "--positions", str(small)],
            "holds positions of rules 'classic', not 'square'",
        ),
        (["random(speed=3)"], "agent 'random' has no parameter 'speed'"),
        (["random", "--positions", "none.parquet"], "none.parquet"),
        (["random", "--output", "page.markdown"], "its format is not known"),
        (["own_piece_alpha_beta"], "does not play rules 'classic'"),
    ):
        options = [] if "--rules" in arguments or "--positions" in arguments else ["--positions", str(small)]
        result = qarena("policy", "judge", *arguments, *options)
        assert result.code in {1, 2}
        assert re.fullmatch(r"[^\n]+\n", result.err), result.err
        assert message in result.err


def test_the_page_has_a_line_on_each_agent_the_best_first(qarena: Qarena, small: Path) -> None:
    with without_pictures():
        assert qarena("train", "trainer=q_placement", "trainer.games=300", "policy.name=mine").code == 0
    command = ("policy", "judge", "random", "mine", "oracle", "--positions", str(small), "--games", "4", "--draws", "1")
    assert qarena(*command, "--output", "board.md").code == 0
    text = Path("board.md").read_text(encoding="utf-8")
    labels = re.findall(r"^\| \d+ \| `([^`]+)` \|", text, re.MULTILINE)
    assert labels[0] == "oracle"
    assert set(labels) == {"oracle", "random", "policy(policy=mine)"}
    cells = {
        line.split("|")[2].strip(): line.split("|")[-2].strip() for line in text.splitlines() if line.startswith("| ")
    }
    assert cells["`random`"] == ""
    assert int(cells["`oracle`"].replace(",", "")) > 1_000_000  # a tablebase
    assert int(cells["`policy(policy=mine)`"].replace(",", "")) > 100
    assert qarena(*command, "--output", "board.md").code == 2  # it exists
    made_by, policies = re.findall(r"^```\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert made_by.startswith("qarena policy judge random mine oracle")
    assert policies == "qarena train trainer=q_placement trainer.games=300 policy.name=mine\n"


def test_all_means_every_agent_that_can_play_and_every_policy(tmp_path: Path) -> None:
    from runners.exact.verdicts import select_agents

    with use_config_dir(None):
        labels = [agent.label for agent in select_agents([], tmp_path, CLASSIC, include_all=True)[0]]
        again, _ = select_agents(["mcts(iterations=9)", "random"], tmp_path, CLASSIC, include_all=True)
    assert {"oracle", "random", "mcts", "polito"} <= set(labels)
    assert not {"policy", "gifts", "rl_encoded", "own_piece_alpha_beta"} & set(labels)
    assert sorted(agent.label for agent in again) == sorted([*labels, "mcts(iterations=9)"])


@pytest.mark.slow
def test_the_leaderboard_has_every_agent_and_its_order() -> None:
    text = (ROOT / "docs" / "leaderboard.md").read_text(encoding="utf-8").partition("## How close to perfect")[2]
    shipped = read_position_set(ROOT / "analytics/exact/position_sets/classic.parquet")
    rows = dict(re.findall(r"^\| \d+ \| `([^`]+)` \| ([\d.]+) \|", text, re.MULTILINE))
    left_out = re.compile("policy=|value=|^quinto|^engine|^genetic|^polito")  # not here, others' programs, or slow
    agents = [load_named_agent(label) for label in rows if not left_out.search(label)]
    verdicts = sort_by_regret(
        [judge_quickly(agent, shipped, QUICK._replace(turns_per_position=1, seed=1)) for agent in agents]
    )
    assert [verdict.agent.label for verdict in verdicts] == [
        label for label in rows if label in {a.label for a in agents}
    ]
    for verdict in verdicts:
        assert f"{100 * verdict.figures['optimal'][0]:.2f}" == rows[verdict.agent.label]


def test_games_against_the_oracle_are_those_of_a_run_and_draws_are_a_share_of_them() -> None:
    agent = load_named_agent("semi_random")
    spec = RunSpec(CLASSIC, (agent, load_named_agent("oracle")), ((0, 1),), 3, 2)
    games, _ = verdicts.play_against(
        load_named_agent("oracle"), agent, CLASSIC, QUICK._replace(games=30, seed=3), threading.Event()
    )
    block = build_engine(spec).play_block(PairRange(0, 0, 15))
    assert games == tally_by_pairing([block])[0]
    mixed = estimate_draw_rate(Tally(pairs=((4, 3, 0), (3, 5, 0), (0, 0, 0))))
    assert mixed.mean == (3 + 3 + 10) / 30
    assert mixed.low < mixed.mean < mixed.high


def test_a_judgement_depends_neither_on_threads_nor_on_batches_and_says_nothing_once_stopped(
    late_positions: PositionSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    for label in ("random", "mcts(iterations=20,reuse=true)"):
        one = judge_quickly(load_named_agent(label), late_positions, QUICK._replace(threads=1)).figures
        with monkeypatch.context() as patch:
            patch.setattr(verdicts, "CHUNK_POSITIONS", 7)
            other = judge_quickly(load_named_agent(label), late_positions).figures
        assert_frame_equal(one, other)
        assert not one.equals(judge_quickly(load_named_agent(label), late_positions, QUICK._replace(seed=6)).figures)
    stop = threading.Event()
    assert judge_agent(load_named_agent("random"), late_positions, QUICK, stop, lambda _turns: stop.set()) is None
