"""A parameter that makes no sense is refused in one line, which names it, its value and what it may be."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from agents.alpha_beta import AlphaBeta
from agents.best_mixed import BestMixed
from agents.ga2 import Ga2
from agents.ga5 import Ga5
from agents.ga_minimax import GaMinimax
from agents.genetic_minimax import GeneticMinimax
from agents.mcts import Mcts
from agents.minimax import Minimax
from agents.mixed import Mixed
from agents.mixed_rl import MixedRl
from agents.oracle import Oracle
from agents.own_piece_alpha_beta import OwnPieceAlphaBeta
from agents.policy import PolicyAgent
from agents.q_placement import QPlacementLearner
from agents.q_table import QTableLearner
from agents.rl_encoded import EncodedLearner
from agents.rl_tabular import RlTabular, TabularLearner
from agents.rule_based import RuleBased

NAN = float("nan")
PROBABILITY = "is not a probability from 0 to 1"
FINITE = "is not a finite number"
FLAG = "is neither true nor false"
DEPTH = "is not a whole number from 1 to 16"
EARLIER = "is a version of the study's code: it needs faithful=true"

WRONG: dict[Any, list[tuple[dict[str, Any], str]]] = {
    AlphaBeta: [({"depth": depth}, DEPTH) for depth in (0, 17, 1.5, True, "2")],
    Minimax: [({"depth": 0}, DEPTH), ({"depth": 1.0}, DEPTH), ({"faithful": None}, FLAG)],
    OwnPieceAlphaBeta: [
        ({"depth": 0}, "is not a whole number from 1 to 9"),
        ({"depth": 10}, "is not a whole number from 1 to 9"),
        ({"faithful": 0}, FLAG),
    ],
    GaMinimax: [({"alpha": 2}, PROBABILITY), ({"depth": 0}, DEPTH), ({"faithful": "yes"}, FLAG)],
    Ga2: [
        *(({"alpha": gene}, PROBABILITY) for gene in (-0.1, NAN)),
        *(({"beta": gene}, PROBABILITY) for gene in (1.1, "0.3")),
    ],
    Ga5: [({"alpha": NAN}, FINITE), ({"epsilon": "1"}, FINITE), ({"gamma": None}, FINITE), ({"faithful": 1}, FLAG)],
    GeneticMinimax: [
        ({"population": 0}, "is not a whole number from 1 to 100000"),
        ({"population": 99_000, "offspring": 2_000}, "with all offspring is 101000, above 100000"),
    ],
    Mixed: [
        ({"few_unused": 17}, "is not a whole number from 0 to 16"),
        ({"depth": 0}, DEPTH),
        ({"version": "earlier"}, EARLIER),
        ({"version": "first", "faithful": True}, "is not one of last, earlier"),
    ],
    BestMixed: [({"few_unused": 17}, "is not a whole number from 0 to 16"), ({"depth": 0}, DEPTH)],
    MixedRl: [
        ({"few_unused": -1}, "is not a whole number from 0 to 16"),
        ({"above": 0.6}, "is not a whole number from 0 to 100"),
    ],
    RuleBased: [
        ({"faithful": "yes"}, FLAG),
        ({"version": "earlier"}, EARLIER),
        ({"version": "oldest", "faithful": True}, "is not one of last, earlier"),
    ],
    Oracle: [
        ({"ties": "luck"}, "is not one of distance, trap"),
        ({"horizon": 17}, "is not a whole number from 0 to 16"),
    ],
    Mcts: [
        ({"iterations": 0}, "is not a whole number from 2 to 1000000"),
        ({"c": -1}, "is below 0"),
        ({"c": NAN}, FINITE),
        ({"draw_reward": 1.5}, PROBABILITY),
        ({"final": "best"}, "is neither null nor one of visits, value"),
        ({"reuse": True, "faithful": True}, "needs faithful=false"),
        ({"solver": True, "faithful": True}, "needs faithful=false"),
    ],
    PolicyAgent: [({"fallback": "dumb"}, "is not one of random, semi_random"), ({"unknown": NAN}, FINITE)],
    RlTabular: [({"faithful": "yes"}, FLAG)],
    TabularLearner: [({"exploration": -0.1}, PROBABILITY), ({"exploration_step": 2}, PROBABILITY)],
    QTableLearner: [({"learning_rate": 1.5}, ""), ({"discount": -0.1}, ""), ({"fallback": "dumb"}, "")],
    QPlacementLearner: [
        ({"alpha": 2}, PROBABILITY),
        ({"decay": 1.01}, PROBABILITY),
        ({"reward": NAN}, FINITE),
    ],
    EncodedLearner: [
        ({"gift_rule": "most"}, "is not one of mean, min_max"),
        ({"values_seed": -1}, "is not a whole number from 0 to 9223372036854775807"),
        ({"exploration": 1.5}, PROBABILITY),
    ],
}


@pytest.mark.parametrize(
    ("agent", "parameters", "message"),
    [
        pytest.param(agent, parameters, message, id=f"{agent.__name__} {parameters}")
        for agent, cases in WRONG.items()
        for parameters, message in cases
    ],
)
def test_a_parameter_that_makes_no_sense_is_refused(agent: Any, parameters: dict[str, Any], message: str) -> None:
    name, value = next(iter(parameters.items()))
    written = str(value).lower() if isinstance(value, bool) and len(parameters) > 1 else repr(value)
    with pytest.raises(ValueError, match=f"^{name}={written} {re.escape(message)}"):
        agent(**parameters)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: EncodedLearner(rewards=[5, -5]),
            "rewards=[5, -5] are not four numbers: of a win, a loss, a draw",
        ),
        (lambda: EncodedLearner(rewards=[5, -5, float("inf"), 0]), "rewards=inf is not a finite number"),
    ],
)
def test_rewards_that_do_not_fit_are_refused(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        make()
