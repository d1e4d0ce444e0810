"""`qarena policy compare` and `show`: what differs between policies, and where they come from."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from agents.learning.policy import Policy
from agents.policy import MC_AFTERSTATE
from agents.rl_encoded import ENCODED_VALUES
from agents.rl_tabular import COUNTERS
from analytics import open_archive
from analytics.policies.kinds.dataset import load_dataset
from analytics.policies.kinds.mc_afterstate import McAfterstate
from analytics.questions.selection import select_games
from analytics.store import policy_cards, policy_store
from analytics.store.archive import ArchiveStore
from quarto.rules import CLASSIC
from runners.learning.policies.comparison import compare_turns_in_table_positions, join_rows
from runners.learning.policies.lineage import describe_share
from tests.analytics.folders import snapshot
from tests.analytics.stored_policies import GENES, origin
from tests.runners.conftest import Qarena
from tests.runners.experiments import play
from tests.runners.learning.training.trainings import build


@pytest.fixture(scope="module")
def shared_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("made") / "archive"
    play(root, "agent@a=semi_random", "agent@b=random", "games=2000")
    return root


@pytest.fixture
def root(shared_root: Path, tmp_path: Path) -> Path:
    shutil.copytree(shared_root, tmp_path / "data/archive")
    return tmp_path / "data/archive"


def build_value_policy(*rows: tuple[int, int, int, float]) -> Policy:
    lanes, occupied, count, mean = zip(*rows, strict=True)
    columns = {"lanes": np.array(lanes), "occupied": np.array(occupied, np.int32), "count": np.array(count)}
    return Policy(MC_AFTERSTATE, table={**columns, "mean": np.array(mean)})


ONE = build_value_policy((0, 0, 9, 0.5), (1, 1, 5, 0.25), (2, 2, 3, -1.0))
OTHER = build_value_policy((0, 0, 7, 0.5), (1, 1, 5, -0.25))


def test_what_both_know_is_joined_by_position_whatever_the_counts() -> None:
    common = join_rows(ONE, OTHER)
    assert common is not None
    rows = common.select("lanes", "occupied", "a", "b", "difference").rows()
    assert rows == [(0, 0, 0.5, 0.5, 0.0), (1, 1, 0.25, -0.25, 0.5)]
    one, other = ({**policy.table, "cell": policy.table["lanes"]} for policy in (ONE, OTHER))
    del one["mean"], other["mean"]
    counted = join_rows(Policy(COUNTERS, table=one), Policy(COUNTERS, table=other))  # counts are the values
    assert counted is not None
    assert counted.select("cell", "a", "b").rows() == [(0, 9, 7), (1, 5, 5)]
    for first, second in ((ONE, GENES), (Policy(COUNTERS, table=one), ONE), (ONE, Policy(ENCODED_VALUES, table={}))):
        assert join_rows(first, second) is None


def test_a_policy_chooses_as_itself_and_not_as_its_opposite(shared_root: Path) -> None:
    with open_archive(shared_root) as opened:
        policy = McAfterstate().derive(load_dataset(select_games(opened)), 1)
    opposite = Policy(policy.kind, table={**policy.table, "mean": -policy.table["mean"]})
    same, different = (
        compare_turns_in_table_positions(policy, policy, CLASSIC),
        compare_turns_in_table_positions(policy, opposite, CLASSIC),
    )
    assert same.same_turn.all()
    assert same.same_board.all()
    assert len(same.positions) == len(different.positions) == len(policy.table["mean"])
    assert different.same_turn[different.deterministic].mean() < 0.5
    assert 20 < different.deterministic.sum() < len(different.positions)


def test_policies_are_compared_with_what_both_know(root: Path, qarena: Qarena) -> None:
    one, two = (build(root, "mc_afterstate", name="one"), build(root, "mc_afterstate", name="two", least=4))
    for kind, name in (("fitted_q", "three"), ("gift", "four")):
        build(root, kind, name=name)
    policy_store.save(ArchiveStore.open(root), GENES, origin("bred"))
    before = snapshot(root)
    rows = {card.name: card.files["table.parquet"].rows for card in (one, two)}
    same = qarena("policy", "compare", "one", "two")
    assert (same.code, same.err) == (0, "")
    assert f"{rows['one']:,} and {rows['two']:,}, {rows['two']:,} in common" in same.out
    assert re.search(r"difference +│ 0\.0000 on average", same.out)
    itself = qarena("policy", "compare", "one", "one").out
    assert re.search(r"same turn +│ 100\.00 %", itself)
    assert "Different turns" not in itself
    assert re.search(r"rows +│ .* in common", qarena("policy", "compare", "three", "one").out)
    for other in ("four", "bred", "three"):
        result = qarena("policy", "compare", "one", other)
        assert (result.code, result.err) == (0, "")
        assert re.search(r"asked +│ [\d,]+ of [\d,]+ positions that (both have|only one of them has)", result.out)
    assert "Different turns" in result.out
    assert "Largest differences" in result.out
    assert "positions of 1,000 random games" in qarena("policy", "compare", "four", "bred").out
    assert snapshot(root) == before


@pytest.mark.parametrize(
    ("games", "held", "expected"),
    [
        (5, 5, "5 games of X"),
        (None, 5, "5 games of X"),
        (3, 5, "3 of 5 games of X"),
        (None, 0, "games of X, no longer in this archive"),
        (5, 0, "5 games of X, no longer in this archive"),
        (5, 3, "5 games of X, some of them no longer in this archive"),
    ],
)
def test_a_lineage_says_how_many_games_there_are_still(games: int | None, held: int, expected: str) -> None:
    assert describe_share(games, held, "X") == expected


def test_lineage_goes_from_policies_to_runs_to_policies(root: Path, qarena: Qarena) -> None:
    first = build(root, "gift", "winner = 0", "first")
    play(root, "agent@a=policy", "a.policy=first", "agent@b=random", "games=40", f"archive.root={root}")
    by_first = "agent_0 = 'policy(policy=first)'"
    second = build(root, "mc_afterstate", by_first, "second")
    result = qarena("policy", "show", "second")
    assert (result.code, result.err) == (0, "")
    lines = result.out.splitlines()
    start = lines.index("Where it comes from:")
    assert lines[start + 1] == f"policy second ({second.policy_id}), mc_afterstate, classic rules"
    assert all("run" not in line.split("│")[1] for line in lines[:start] if "│" in line)  # they are listed once
    assert f"  where {by_first}" in lines
    (run,) = second.learned["run_ids"]
    assert re.search(rf"^  run {run}, .*: 20 of 40 games of policy\(policy=first\), random$", result.out, re.MULTILINE)
    assert f"      policy first ({first.policy_id}), gift, classic rules" in lines
    assert re.search(
        rf"^        run {first.learned['run_ids'][0]}, .*: [\d,]+ of 2,000 games of ", result.out, re.MULTILINE
    )
    assert len(re.findall("code 0", result.out)) == 4
    shutil.rmtree(policy_cards.policy_folder(ArchiveStore.open(root), first.policy_id))
    assert f"      policy {first.policy_id}: not in this archive" in qarena("policy", "show", "second").out
    shutil.rmtree(root / f"games/run={run}")
    remaining = r"20 games of policy\(policy=first\), random, no longer in this archive$"
    assert re.search(rf"^  run {run}, .*: {remaining}", qarena("policy", "show", "second").out, re.MULTILINE)
    (root / f"runs/{run}.json").unlink()
    assert f"  run {run}: no longer in this archive" in qarena("policy", "show", "second").out
