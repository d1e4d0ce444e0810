"""Each built-in player's jitted turn is its slow twin's, position for position, under every rule set that it plays."""

from __future__ import annotations

import numpy as np
import pytest

from agents.base import KernelAgent
from agents.dumb import Dumb
from agents.lift import lift
from agents.random import Random
from agents.rule_based import RuleBased
from agents.semi_random import SemiRandom
from quarto.batch import Batch
from quarto.rng import Streams
from quarto.rules import Rules
from tests import naive
from tests.naive import NONE, PRESETS
from tests.positions import asked, view_of

TWINS: dict[str, tuple[KernelAgent, naive.Player]] = {
    "random": (Random(), naive.Random()),
    "dumb": (Dumb(), naive.Dumb()),
    "semi_random": (SemiRandom(), naive.SemiRandom()),
    "rule_based": (RuleBased(), naive.RuleBased()),
    "dumb faithful": (Dumb(faithful=True), naive.Dumb()),
}
CASES = [
    pytest.param(name, rules, id=f"{name} {rules.name}")
    for name, (agent, _) in TWINS.items()
    for rules in PRESETS.values()
    if rules.chooser in agent.choosers
]


@pytest.mark.parametrize(("name", "rules"), CASES)
def test_jitted_turns_are_those_of_the_slow_twin(name: str, rules: Rules) -> None:
    agent, twin = TWINS[name]
    positions = asked(rules, games=40)
    seeds = [naive.mix(i) for i in range(len(positions))]
    turns = lift(agent, rules, name).play(Batch.of(positions), Streams(np.array(seeds, np.uint64)))
    for i, position in enumerate(positions):
        cell, gift = twin.turn(view_of(position, rules), seeds[i])
        gift_only = position.hand == NONE and not rules.mover_chooses
        assert turns.gifts[i] == gift, position
        assert turns.cells[i] == cell or gift_only, position
