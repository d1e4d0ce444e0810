"""Tests of the agent template: it keeps to the rules of the arena and takes a win. Run ``python -m pytest``."""

from __future__ import annotations

from pathlib import Path

from runners.authoring.agent_check import choose_turn, find_faults, load_own_agent

FOLDER = Path(__file__).parent


def test_it_keeps_to_the_rules_of_the_arena() -> None:
    """Check that turns are legal, that nothing is raised or printed, and that games can be repeated."""
    assert find_faults(FOLDER, "template") == []


def test_it_takes_a_win() -> None:
    """Expect piece 3 on d1, which is cell 3, because it completes a row of low pieces there."""
    cell, _ = choose_turn(load_own_agent(FOLDER, "template"), "012./..../..../.... 3")
    assert cell == 3


def test_it_gives_no_win_away() -> None:
    """Expect no gift that wins on d1, that is, no low or uncoloured piece, unless the agent has blocked d1 with C."""
    agent = load_own_agent(FOLDER, "template")
    for seed in range(10):
        cell, gift = choose_turn(agent, "012./..../..../.... C", seed)
        assert cell == 3 or gift in {13, 14, 15}
