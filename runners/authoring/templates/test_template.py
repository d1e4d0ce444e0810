"""Tests of the agent template: it keeps to the rules of the arena and takes a win. Run ``python -m pytest``."""

from __future__ import annotations

from pathlib import Path

from runners.authoring.agent_check import choose_turn, find_faults, load_own_agent

FOLDER = Path(__file__).parent


def test_it_keeps_to_the_rules_of_the_arena() -> None:
    """Check that turns are legal, that nothing is raised or printed, and that a game played again is the same."""
    assert find_faults(FOLDER, "template") == []


def test_it_takes_a_win() -> None:
    """Expect the agent to place piece 3 on d1 (cell 3), where this piece completes a row of low pieces."""
    cell, _ = choose_turn(load_own_agent(FOLDER, "template"), "012./..../..../.... 3")
    assert cell == 3


def test_it_gives_no_win_away() -> None:
    """Expect the agent to place C, the piece in hand, on d1, or to give a piece that cannot win on d1.

    On d1 every low or uncoloured piece wins, so only D, E and F are safe gifts.
    """
    agent = load_own_agent(FOLDER, "template")
    for seed in range(10):
        cell, gift = choose_turn(agent, "012./..../..../.... C", seed)
        assert cell == 3 or gift in {13, 14, 15}
