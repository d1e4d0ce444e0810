"""The reasons why a turn is illegal, as messages give them."""

from __future__ import annotations

from quarto.notation import parse_position
from quarto.rules import CLASSIC
from runners.config.yaml_options import load_rules
from runners.hosting.illegal_turns import describe_illegal_turn, describe_turn_faults, format_turn

TURNS: dict[tuple[str, str, tuple[int, int]], str] = {
    ("0.../..../..../.... 7", "classic", (1, 5)): "",
    ("0.../..../..../.... 7", "classic", (0, 0)): "a1 is occupied and piece 0 is on the board",
    ("0.../..../..../.... 7", "classic", (-1, 7)): "'-' for the cell, but piece 7 is in hand and piece 7 is in hand",
    ("0.../..../..../.... 7", "classic", (1, -1)): "'-' for the piece, but pieces are left",
    ("..../..../..../.... -", "classic", (-1, 15)): "",
    ("0123/4567/89AB/CDE. F", "classic", (15, -1)): "",
    ("0.../..../..../.... -", "own_piece", (-1, 0)): "'-' for the cell, but a piece must be placed and piece 0 is on",
}


def test_a_turn_is_illegal_for_these_reasons() -> None:
    for (position, rules, turn), expected in TURNS.items():
        faults = describe_turn_faults(parse_position(position)[0], turn, load_rules(rules))
        assert faults.startswith(expected)
        assert bool(faults) == bool(expected)


def test_names_replace_numbers_where_turns_are_text() -> None:
    position, _ = parse_position("0.../..../..../.... 7")
    answer, report = describe_illegal_turn(position, (0, 10), CLASSIC, names_only=True)
    assert answer == f"{format_turn((0, 10))}: a1 is occupied" == "a1 A: a1 is occupied"
    assert "legal cells: b1, c1, d1, a2" in report
    numeric_answer, _ = describe_illegal_turn(position, (0, 10), CLASSIC, names_only=False)
    assert numeric_answer == "(cell, gift) = (0, 10): cell 0 (a1) is not an empty cell"
