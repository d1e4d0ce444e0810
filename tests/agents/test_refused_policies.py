"""A policy that nobody can play by is refused in one line, which names the row, its value and what it may be."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest

from agents.base.player import build_player
from agents.gifts import Gifts
from agents.learning.policy import Policy
from agents.line_values import LINE_VALUES, LineValues
from agents.mixed_rl import MixedRl
from agents.network import NETWORK, UNIT, Layers, Network
from agents.network import to_policy as of_layers
from agents.policy import PolicyAgent
from agents.q_placement import QPlacement
from agents.rl_encoded import CODES, RlEncoded
from agents.rl_tabular import RlTabular, TabularLearner
from agents.rule_based import RuleBased
from quarto.errors import RequestError
from quarto.rules import CLASSIC
from runners.hosting.guarded_agent import GuardedAgent
from tests.agents.test_learners import policy_of as of_values
from tests.agents.test_line_values import random_policy
from tests.agents.test_network import layers
from tests.agents.test_policy import means, risks
from tests.naive import PRESETS
from tests.naive_players.agreement import train
from tests.naive_players.q_placement import policy_of as of_placements
from tests.naive_players.rl_tabular import policy_of as of_counters


@cache
def sound(agent: Any) -> Policy:
    """Return a policy that an agent can play by."""
    builders: dict[Any, Callable[[], Policy]] = {
        PolicyAgent: lambda: means([1], [1], [0.5]),
        Gifts: lambda: risks([0], [0], [0.5]),
        QPlacement: lambda: of_placements([((15, *[-1] * 15), 3, cell, float(cell)) for cell in (1, 5, 7)]),
        RlEncoded: lambda: of_values({}),
        # Of the canonical form of all boards with a piece on an outer cell.
        RlTabular: lambda: of_counters({(1, 0): {("cell", 1): 2, ("cell", 5): -1, ("gift", 1): 7}}),
        Network: lambda: of_layers(layers()),
        LineValues: lambda: random_policy(CLASSIC, 0)[0],
    }
    return builders[agent]()


CODE = np.arange(CODES, dtype=np.int32)
WRONG: dict[Any, list[tuple[str, Any, Any, str]]] = {  # the column and row of another value, what is said
    PolicyAgent: [
        ("mean", 0, 1.5, "mean 1.5 in row 0 of a policy is not from -1 to 1"),
        ("lanes", 0, 0, "lanes 0 in row 0 of a policy has the piece in hand on the board"),
    ],
    Gifts: [
        ("wins", 0, 17, "wins 17 in row 0 of a policy is not from 0 to 16"),
        ("risk", 0, 1.5, "risk 1.5 in row 0 of a policy is not from 0 to 1"),
    ],
    QPlacement: [
        ("hand", 2, 15, "hand 15 in row 2 of a policy is on the board"),
        ("cell", 0, 0, "cell 0 in row 0 of a policy is occupied"),
    ],
    RlEncoded: [
        ("value", 9, np.nan, "column 'value' of a policy is nan in row 9, where a finite number belongs"),
        ("code", CODE, CODE - 1, "code -1 of a policy of kind 'encoded_values' is not from 0 to 390624"),
        ("code", 0, 1, "code 0 is in a policy of kind 'encoded_values' 0 times, not once"),
        ("code", 5, 7, "code 5 is in a policy of kind 'encoded_values' 0 times, not once"),
    ],
    RlTabular: [
        ("lanes", 1, 4, "lanes 4 in row 1 of a policy has a piece where no cell is occupied"),
        ("occupied", 1, 3, "lanes 0 in row 1 of a policy has a piece twice"),
        ("cell", 2, 16, "cell 16 in row 2 of a policy is not from -1 to 15"),
        ("gift", 0, -2, "gift -2 in row 0 of a policy is not from -1 to 15"),
        ("gift", 1, 4, "cell 1 in row 1 of a policy contradicts the gift: one of them is -1, the other is not"),
        ("gift", 0, -1, "cell -1 in row 0 of a policy contradicts the gift: one of them is -1, the other is not"),
        ("cell", 1, 0, "cell 0 in row 1 of a policy is occupied"),
        ("gift", 0, 0, "gift 0 in row 0 of a policy is on the board"),
        ("cell", 2, 1, "row 2 of a policy has the same lanes, occupied, cell, gift as the row before"),
        ("cell", 1, 6, "row 2 of a policy comes too late: rows ascend by lanes, occupied, cell, gift"),
    ],
    Network: [
        ("weight", 0, 65.0, "weight 65.0 in row 0 of a policy is not from -64.0 to 64.0"),
        ("weight", 1, UNIT / 2, "is no multiple of 2^-16"),
    ],
    LineValues: [
        ("weight", 5, 0.3, "weight 0.3 in row 5 of a policy is no multiple of 2^-11"),
        ("weight", 5, 16.0, "weight 16.0 in row 5 of a policy is not from -15.0 to 15.0"),
        ("part", 0, 122, "part 122 in row 0 of a policy is not from 0 to 121"),
    ],
}


@pytest.mark.parametrize("agent", WRONG)
def test_a_row_that_cannot_be_is_named(agent: Any) -> None:
    policy = sound(agent)
    for column, row, value, message in WRONG[agent]:
        values = policy.table[column].copy()
        values[row] = value
        with pytest.raises(ValueError, match=re.escape(message)):
            agent(Policy(policy.kind, policy.parameters, {**policy.table, column: values}))


def test_a_table_of_another_shape_is_refused() -> None:
    counters, network = sound(RlTabular), sound(Network)
    lacking = {name: np.delete(column, 5) for name, column in network.table.items()}
    first = {name: column[network.table["layer"] == 0] for name, column in network.table.items()}
    agent: Any
    for agent, policy, message in (
        (
            RlTabular,
            Policy("counters", table={**counters.table, "count": np.zeros(3)}),
            r"is float64 \(3,\), not one row",
        ),
        (Network, Policy(NETWORK, table=lacking), "layer 0 of a policy is not a row for each of 357 inputs and"),
        (Network, Policy(NETWORK, table=first), "the last layer of a policy has units: 3, not one for each of 289"),
        (LineValues, Policy(LINE_VALUES, {}, sound(LineValues).table), "has no parameter 'lines'"),
    ):
        with pytest.raises(ValueError, match=message):
            agent(policy)


def test_a_policy_for_other_players_is_refused() -> None:
    agents = {
        PolicyAgent: "policy reads 'mc_afterstate'",
        Gifts: "gifts reads 'gift'",
        QPlacement: "q_placement reads 'q_placement'",
        RlEncoded: "rl_encoded reads 'encoded_values'",
        RlTabular: "rl_tabular reads 'counters'",
        MixedRl: "mixed_rl reads 'counters'",
        Network: "network reads 'network'",
        LineValues: "line_values reads 'line_values'",
    }
    agent: Any
    for agent, reads in agents.items():
        with pytest.raises(ValueError, match=f"^policy of kind 'genome' is for other players; {reads}"):
            agent(Policy("genome"))
    with pytest.raises(ValueError, match=r"^policy='mine' is not a policy; rl_encoded reads one of kind 'encoded"):
        RlEncoded("mine")  # type: ignore[arg-type]


def test_a_policy_of_other_rules_is_refused_when_it_shall_play() -> None:
    inner = means([1 << 5], [1 << 5], [0.5])  # an inner cell is the image of a corner under classic rules only
    with pytest.raises(ValueError, match="is no afterstate's canonical form under rules 'classic'"):
        PolicyAgent(inner).knowledge(CLASSIC)
    agent = LineValues(sound(LineValues))
    agent.knowledge(CLASSIC)
    with pytest.raises(ValueError, match="its weights are for other lines than those of rules 'square'"):
        agent.knowledge(PRESETS["square"])
    policy, _ = train(TabularLearner(), RuleBased(), PRESETS["square"], 20)
    build_player(RlTabular(policy), PRESETS["square"], "rl_tabular")
    with pytest.raises(RequestError, match="is no board's canonical form under rules 'classic': it was learned under"):
        GuardedAgent(RlTabular(policy), "rl_tabular", CLASSIC)


@pytest.mark.parametrize(
    ("wrong_layers", "message"),
    [
        ([], "layers: 0, the last of width 357: a network has 1 to 8 layers"),
        (layers()[:1], "layers: 1, the last of width 3"),
        ([(layers()[0][0].T, layers()[0][1])], "weights of layer 0 are (3, 357), not (357, 3), of at most 512 inputs"),
        ([(layers()[0][0] * np.nan, layers()[0][1])], "a weight of layer 0 is nan in size: at most 64 is possible"),
        ([(layers()[0][0] * 1e6, layers()[0][1])], "in size: at most 64 is possible"),
    ],
    ids=str,
)
def test_layers_that_no_network_has_are_refused(wrong_layers: Layers, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        of_layers(wrong_layers)
