"""Every kind of policy is what a dictionary in plain Python makes of the same games, to the last bit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from agents.gifts import FEATURES, Gifts
from agents.learning.policy import Policy
from agents.policy import PolicyAgent
from analytics.policies.kinds.dataset import Dataset, PolicyKind, load_dataset
from analytics.policies.kinds.fitted_q import FittedQ
from analytics.policies.kinds.gift import Gift
from analytics.policies.kinds.mc_afterstate import (
    GameBoards,
    McAfterstate,
    build_level,
    decode_lanes_and_occupied,
    fill_keys_and_wins,
)
from analytics.policies.kinds.q_learning import EncodedQ, QTable
from analytics.questions.selection import select_games
from analytics.questions.sql.database import OpenArchive
from analytics.store.policy_store import compute_knowledge_digest
from quarto.batch import Games
from quarto.canonical import canonical_position
from quarto.errors import RequestError
from quarto.rules import CLASSIC, Rules
from tests.analytics.policies.kinds.conftest import games_of
from tests.naive import PRESETS
from tests.naive_players.agreement import assert_same_games, assert_same_turns
from tests.naive_players.rl_encoded import EncodedLearner
from tests.naive_policies import afterstates as naive_afterstates
from tests.naive_policies import gifts as naive_gifts
from tests.naive_policies.encoded import encoded_q
from tests.positions import list_positions


def rows_of(policy: Policy, *names: str) -> dict[Any, Any]:
    """Return columns as a dictionary by lanes and occupied, which must ascend."""
    columns = [policy.table[name].tolist() for name in ("lanes", "occupied", *names)]
    rows = list(zip(*columns, strict=True))
    assert rows == sorted(rows, key=lambda row: row[:2])
    assert len({row[:2] for row in rows}) == len(rows)
    return {row[:2]: row[2:] if len(names) > 1 else row[2] for row in rows}


@pytest.mark.parametrize("least", [1, 2])
def test_mc_afterstate_is_the_mean_by_position(rules: Rules, dataset: Dataset, least: int) -> None:
    policy = McAfterstate(least).derive(dataset, 2)
    expected = naive_afterstates.mc_afterstate(games_of(rules), rules, least)
    assert rows_of(policy, "count", "mean") == expected
    assert len(expected) > (200 if least == 1 else 5)


def test_q_table_is_learned_game_after_game(rules: Rules, opened: OpenArchive) -> None:
    policy = QTable(0.3, 0.9).derive(load_dataset(select_games(opened, "game_id % 2 = 0")), 1)
    assert rows_of(policy, "value") == naive_afterstates.q_table(games_of(rules)[::2], rules, 0.3, 0.9)


def test_fitted_q_is_the_fixed_point_of_sweeps(rules: Rules, dataset: Dataset) -> None:
    policy = FittedQ(0.9, 1).derive(dataset, 2)
    assert rows_of(policy, "count", "value") == naive_afterstates.fitted_q(games_of(rules), rules, 0.9)


def test_gift_is_the_share_of_givers_who_lost(rules: Rules, dataset: Dataset) -> None:
    policy = Gift(0.5).derive(dataset, 2)
    columns = [policy.table[name].tolist() for name in (*FEATURES, "count", "losses", "risk")]
    learned = {row[:4]: row[4:] for row in zip(*columns, strict=True)}
    assert learned == naive_gifts.gift(games_of(rules), rules, 0.5)
    assert len(learned) == len(columns[0])


@pytest.mark.parametrize("agent", [None, "dumb(depth=2)"])
def test_encoded_q_is_study_cs_update_by_seat(rules: Rules, dataset: Dataset, agent: str | None) -> None:
    policy = EncodedQ(values_seed=4, agent=agent).derive(dataset, 1)
    values = policy.table["value"]
    learned = encoded_q(games_of(rules), rules, EncodedLearner(values_seed=4), agent)
    untouched = EncodedQ(values_seed=4).learner.knowledge(rules).table
    assert {code: values[code] for code in learned} == learned
    assert set(np.flatnonzero(values != untouched).tolist()) <= set(learned)
    assert len(learned) > 50


KINDS: Sequence[PolicyKind] = (McAfterstate(1), QTable(), FittedQ(), Gift(), EncodedQ())


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: type(kind).__name__)
def test_a_policy_does_not_depend_on_threads_but_on_all_games(
    opened: OpenArchive, dataset: Dataset, kind: PolicyKind
) -> None:
    digest = compute_knowledge_digest(kind.derive(dataset, 1))
    assert digest == compute_knowledge_digest(kind.derive(dataset, 3))
    assert digest != compute_knowledge_digest(kind.derive(load_dataset(select_games(opened, "pairing = 0")), 2))


@pytest.mark.parametrize("rules", PRESETS.values(), ids=lambda rules: rules.name)
def test_a_key_is_exact_at_every_level(rules: Rules) -> None:
    forms = {canonical_position(position, rules) for position in list_positions(CLASSIC, 40) if position.hand != -1}
    for pieces in range(16):
        of_level = sorted({(form.lanes, form.occupied) for form in forms if form.occupied.bit_count() == pieces})
        lanes, occupied = np.array(of_level, np.uint64).reshape(-1, 2).T.copy()
        size, level, games = len(lanes), build_level(rules, pieces), Games.allocate(len(lanes))  # piece 0 is given
        games.plies[:] = 16
        keys, boards = np.empty(size, np.uint64), GameBoards(lanes, occupied.astype(np.uint16))
        fill_keys_and_wins(games, level, boards, rules.tables, keys, np.empty(size, np.bool_), (0, size))
        assert len(set(keys.tolist())) == len(of_level)
        assert (keys >> np.uint64(62) == 0).all()
        back = decode_lanes_and_occupied(keys, level)
        assert back[0].view(np.uint64).tolist() == lanes.tolist()
        assert back[1].tolist() == occupied.tolist()
    assert len(forms) > 200


@pytest.mark.parametrize(("fallback", "unknown"), [("semi_random", -1.0), ("random", 0.1)])
def test_turns_by_afterstates_are_those_of_the_slow_twin(
    rules: Rules, dataset: Dataset, fallback: str, unknown: float
) -> None:
    policy = McAfterstate(1).derive(dataset, 1)
    means = naive_afterstates.mc_afterstate(games_of(rules), rules, 1)
    twin = naive_afterstates.Afterstates({key: mean for key, (_, mean) in means.items()}, fallback, unknown)
    agent = PolicyAgent(policy, fallback, unknown)
    assert assert_same_turns(agent, twin, rules, list_positions(rules, 3)) > 30
    assert_same_games(agent, twin, rules, 1)


def test_turns_by_risk_are_those_of_the_slow_twin(rules: Rules, dataset: Dataset) -> None:
    policy = Gift().derive(dataset, 1)
    risks = {features: risk for features, (_, _, risk) in naive_gifts.gift(games_of(rules), rules, 1.0).items()}
    agent, twin = Gifts(policy), naive_gifts.Gifts(risks)
    assert assert_same_turns(agent, twin, rules, list_positions(rules, 5)) > 50
    assert_same_games(agent, twin, rules, 1)


def test_an_agent_that_did_not_play_is_refused(dataset: Dataset) -> None:
    with pytest.raises(RequestError, match="agent=rule_base played none of the games; did you mean 'rule_based'"):
        EncodedQ(agent="rule_base").derive(dataset, 1)
