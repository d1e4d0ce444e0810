"""`qarena puzzles play`: turns are judged, wrong input is explained, and the solver says why."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest

from analytics.exact.puzzle_themes import PuzzleFilter, number_puzzles, select_puzzles
from analytics.exact.puzzles import COLUMNS, Puzzle, load_shipped_puzzles
from quarto.errors import NotFoundError
from quarto.game import game_from_position
from quarto.notation import format_cell, format_piece, parse_cell, parse_piece
from quarto.rules import NONE
from runners.config.yaml_options import list_options, load_rules, read_option_comment
from runners.exact.puzzle_dialogue import describe_theme, run_puzzles
from tests.naive_solver import Solved, list_turns
from tests.paths import ROOT
from tests.runners.conftest import Qarena
from tests.runners.play.people import Notes


def find_late_puzzle_number() -> int:
    """Find the number of a puzzle with twelve pieces on the board or more."""
    return next(
        number for number, puzzle in enumerate(load_shipped_puzzles(), 1) if puzzle.position.occupied.bit_count() >= 12
    )


def play_lines(number: int, *lines: str) -> list[str]:
    """Type these lines, from puzzle ``number`` on; return the output."""
    notes = Notes(lines)
    run_puzzles(load_shipped_puzzles(), number, notes)
    return notes.written


def wrong_turns(puzzle: Puzzle) -> dict[str, Solved]:
    """Return the wrong turns of a puzzle with their values and distances, by the slow twin."""
    turns = list_turns(puzzle.position, load_rules(puzzle.rules))
    texts = {f"{format_cell(cell)} {format_piece(gift)}": solved for (cell, gift), solved in turns.items()}
    return {text: solved for text, solved in texts.items() if text != puzzle.turn}


def test_the_only_turn_is_right_in_one_line_or_two_and_every_other_is_wrong() -> None:
    number = find_late_puzzle_number()
    puzzle, game = (
        load_shipped_puzzles()[number - 1],
        game_from_position(load_shipped_puzzles()[number - 1].position, load_rules("classic")),
    )
    assert game.last_cell == NONE  # nobody knows which placement was the last
    cell, gift = puzzle.turn.split()
    for lines in ((puzzle.turn,), (cell, gift)):
        written = play_lines(number, *lines)
        assert written[1] == f"Right: {puzzle.turn} is the only turn that {puzzle.goal}s."
        assert written[-1] == "Solved by the first turn: 1 of 1."
        assert describe_theme(puzzle, load_rules("classic")) in written[-3]
    for turn, (value, distance) in wrong_turns(puzzle).items():
        written = play_lines(number, turn, puzzle.turn, "quit")
        assert written[1] == f"Wrong: {turn} does not {puzzle.goal}."
        at_once, later = "It loses at once: ", f"It loses in {distance} placements: the best reply is "
        assert written[2].startswith("It draws" if value == 0 else at_once if distance == 2 else later)
        assert written[-1] == "Solved by the first turn: 0 of 1."


def test_a_puzzle_explains_rules_that_are_not_the_classic_ones_and_so_does_the_page() -> None:
    puzzles = load_shipped_puzzles()
    for rules in {puzzle.rules for puzzle in puzzles}:
        number = next(number for number, puzzle in enumerate(puzzles, 1) if puzzle.rules == rules)
        heading = f"Puzzle {number} of {len(puzzles)}, level {puzzles[number - 1].level}, {rules} rules."
        about = "" if rules == "classic" else f" {read_option_comment('rules', rules)}"
        notes = Notes(["quit"])
        run_puzzles(puzzles, number, notes)
        assert notes.news[0].startswith(f"{heading}{about} You place ")
    page = (ROOT / "docs/puzzles.md").read_text()
    for rules in list_options("rules"):
        assert f"| `{rules}` | {read_option_comment('rules', rules)} |" in page


def test_rules_that_are_not_the_classic_ones_are_shown_by_a_picture_of_their_lines() -> None:
    number = next(at for at, puzzle in enumerate(load_shipped_puzzles(), 1) if puzzle.rules == "square")
    notes = Notes(["quit"])
    run_puzzles(load_shipped_puzzles(), number, notes)
    assert notes.news[2:] == [
        "8 rows and columns   2 diagonals   9 squares of 2x2",
        ". . x .              o . . x       o o . .",
        "o o * o              . o x .       o o x x",
        ". . x .              . x o .       . . x x",
        ". . x .              x . . o       . . . .",
    ]


def test_a_turn_that_draws_where_one_wins_is_refuted_by_the_replies_that_hold() -> None:
    number = next(
        at
        for at, puzzle in enumerate(load_shipped_puzzles(), 1)
        if puzzle.value and puzzle.position.occupied.bit_count() >= 11
    )
    puzzle = load_shipped_puzzles()[number - 1]
    rules, counts = load_rules(puzzle.rules), set[int]()
    for turn, (value, _) in wrong_turns(puzzle).items():
        if value == 0:
            cell, gift = turn.split()
            after = game_from_position(puzzle.position, rules).place(parse_cell(cell)).give(parse_piece(gift))
            replies = list_turns(after.position, rules)
            holding = {
                f"{format_cell(cell)} {format_piece(gift)}" for (cell, gift), (held, _) in replies.items() if not held
            }
            line = play_lines(number, turn, "quit")[2]
            sentence = re.fullmatch(r"It draws: the reply (.+?) (alone holds|holds, as do (\d+) others)\.", line)
            assert sentence
            assert sentence[1] in holding
            assert int(sentence[3] or 0) + 1 == len(holding)
            counts.add(len(holding))
    assert counts


def test_puzzles_of_a_theme_a_level_and_rules_follow_one_another() -> None:
    wanted = PuzzleFilter("quiet", 3, "square")
    rules_by_name = {name: load_rules(name) for name in ("classic", "square")}
    numbers = [
        puzzle.number for puzzle in select_puzzles(number_puzzles(load_shipped_puzzles(), rules_by_name), wanted)
    ]
    notes = Notes(["answer", "", "answer", "", "quit"])
    run_puzzles(load_shipped_puzzles(), numbers[1], notes, wanted)
    headings = [line for line in notes.news if line.startswith("Puzzle ")]
    assert [heading.partition(", ")[0] for heading in headings] == [
        f"Puzzle {number} of 300 ({place} of {len(numbers)} selected)" for place, number in enumerate(numbers, 1)
    ][1:4]
    assert " A quiet gift: " in notes.written[4]


def test_first_turns_in_a_row_are_counted_and_later_ones_are_not() -> None:
    number = find_late_puzzle_number()
    right = [puzzle.turn for puzzle in load_shipped_puzzles()[number - 1 : number + 3]]
    wrong = next(iter(wrong_turns(load_shipped_puzzles()[number + 1])))
    written = play_lines(number, right[0], "", right[1], "", wrong, right[2], "", right[3])
    assert [line for line in written if "in a row" in line] == ["2 in a row."]
    assert written[-1] == "Solved by the first turn: 3 of 4. Longest streak: 2."


def test_other_input_is_explained_and_the_answer_is_shown() -> None:
    puzzle = load_shipped_puzzles()[0]
    written = play_lines(1, "hello", "help", "a1 2 3", "", "answer", "", "quit")
    assert written[1].startswith("'hello' is not a command. Type the cell and the gift")
    assert written[2].startswith("Type the cell and the gift")
    assert "3 words instead of one or two" in written[3]
    assert "Nothing was typed" in written[4]
    assert written[5] == f"The answer is {puzzle.turn}."
    assert written[-1] == "Solved by the first turn: 0 of 1."

    last = len(load_shipped_puzzles())
    assert play_lines(last, "quit")[-1] == "Solved by the first turn: 0 of 0."
    with pytest.raises(NotFoundError, match=f"there is no puzzle {last + 1}: this set has 1 to {last}"):
        play_lines(last + 1)


def test_a_file_of_ones_own_is_played_over_a_pipe(qarena: Qarena, monkeypatch: pytest.MonkeyPatch) -> None:
    puzzle = load_shipped_puzzles()[find_late_puzzle_number() - 1]
    Path("mine.csv").write_text(f"{','.join(COLUMNS)}\n{puzzle.text},{puzzle.turn},{puzzle.goal},2,0.1,1\n")
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{puzzle.turn}\n"))
    done = qarena("puzzles", "play", "--file", "mine.csv")
    assert done.code == 0
    assert f"Right: {puzzle.turn}" in done.out
    assert "theirs.csv" in qarena("puzzles", "play", "--file", "theirs.csv").refusal
