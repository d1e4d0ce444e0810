"""The agent template keeps to the rules of the arena, and plays what it should: ``python -m pytest`` runs this."""

from __future__ import annotations

from pathlib import Path

from runners.authoring.agent_check import choose_turn, find_faults, load_own_agent

FOLDER = Path(__file__).parent


def test_it_keeps_to_the_rules_of_the_arena() -> None:
    """Its turns are legal, it raises and prints nothing, and the same game is the same game again."""
    assert find_faults(FOLDER, "template") == []


def test_it_takes_a_win() -> None:
    """Three low pieces are in row 1, and 3 is low too: it belongs on d1, which is cell 3."""
    cell, _ = choose_turn(load_own_agent(FOLDER, "template"), "012./..../..../.... 3")
    assert cell == 3


def test_it_gives_no_win_away() -> None:
    """The pieces in row 1 are low and without colour; a piece that is either would win on d1, unless C stands there."""
    agent = load_own_agent(FOLDER, "template")
    for seed in range(10):
        cell, gift = choose_turn(agent, "012./..../..../.... C", seed)
        assert cell == 3 or gift in {13, 14, 15}
