"""Input is parsed, or an error names the wrong value, the reason and the legal values."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quarto.errors import RequestError
from quarto.notation import parse_game
from quarto.rules import CLASSIC
from runners.play.game import Game
from runners.play.reading import Command, command_of, game_after
from tests.naive import PRESETS

START = Game(CLASSIC)
PLACING = Game(CLASSIC, ((15, 1), (3, 14)), hand=12)
GIVING = Game(CLASSIC, ((15, 1), (3, 14), (12, 2)))
OWN_PIECE = Game(PRESETS["own_piece"], ((15, 1), (3, 14)))
DRAWN = "A@d3 C@b4 8@c2 7@b1 1@d4 5@c3 B@a3 6@b2 E@a4 F@d2 4@c4 3@a2 2@c1 0@b3 D@d1 9@a1"
LAST = Game(CLASSIC, tuple(parse_game(DRAWN)[:15]), hand=9)
FREE = "a1 c1 d1 a2 b2 c2 d2 a3 b3 c3 d3 a4 b4 d4"
LEFT = "0 1 2 4 5 6 7 8 9 A B D E"
PLACE = f"place C on one of {FREE}, with the gift at once if you like, such as a1 0"


@pytest.mark.parametrize(
    ("line", "game", "expected"),
    [
        ("7", START, START.give(7)),
        (" f\t", START, START.give(15)),
        ("c1", PLACING, PLACING.place(2)),
        ("c1 b", PLACING, PLACING.place(2).give(11)),
        ("  C1 \t B  ", PLACING, PLACING.place(2).give(11)),
        ("b", GIVING, GIVING.give(11)),
        ("7@a1", OWN_PIECE, OWN_PIECE.play(7, 0)),
        ("b @ D4", OWN_PIECE, OWN_PIECE.play(11, 15)),
        ("a1", LAST, LAST.place(0)),
        ("a1 7", LAST, LAST.place(0)),  # there is nothing left to give, and the game is over
    ],
)
def test_turns_are_read(line: str, game: Game, expected: Game) -> None:
    assert game_after(line, game) == expected


def test_a_gift_with_a_finished_line_does_not_matter() -> None:
    game = Game(CLASSIC, ((0, 0), (1, 1), (2, 2)), hand=3)
    assert game_after("d1 0", game) == game.place(3)
    assert game.place(3).winner == 0


@pytest.mark.parametrize(
    ("line", "game", "message"),
    [
        ("", PLACING, f"Nothing was typed: {PLACE}"),
        ("  \t ", START, "Nothing was typed: give one of the pieces 0 1 2 3 4 5 6 7 8 9 A B C D E F"),
        (",", OWN_PIECE, "Nothing was typed: type a piece and its cell, such as 0@a1"),
        ("hnit", PLACING, f"'hnit' is not a command; did you mean hint?; {PLACE}"),
        ("xyzzy", GIVING, "'xyzzy' is not a command (hint, undo, resign, board, help, quit); give one of"),
        ("b1", PLACING, f"b1 is taken by piece F; free: {FREE}"),
        ("c1 3", PLACING, f"piece 3 is already on c4; left: {LEFT}"),
        ("e1", PLACING, f"'e1' is not a cell a1 to d4: {PLACE}"),
        ("2c", PLACING, "'2c' is not a cell a1 to d4; did you mean c2?"),
        ("C@c1", PLACING, "'C@c1': the piece is in your hand, so type its cell alone; place C"),
        ("c1 c2", PLACING, "'c2' is a second cell, where a gift is expected: place C"),
        ("c1 G", PLACING, "'G' is not a piece 0 to F: place C"),
        ("c1 0 1", PLACING, "'c1 0 1' is 3 words instead of one or two: place C"),
        ("F", GIVING, "piece F is already on b1; left: 0 1 2 4"),
        ("c2", GIVING, "'c2' is a cell (C is placed: undo takes it back): give one of"),
        ("0 1", GIVING, "'0 1' is 2 words instead of one: give one of"),
        ("c1", OWN_PIECE, "'c1' is not piece@cell: type a piece and its cell, such as 0@a1"),
        ("@c1", OWN_PIECE, "'' is not a piece 0 to F: type"),
        ("7@b1", OWN_PIECE, f"b1 is taken by piece F; free: {FREE}"),
        ("\N{FULLWIDTH LATIN SMALL LETTER C}\N{FULLWIDTH DIGIT ONE}", PLACING, "is not a cell a1 to d4"),
        ("\N{LATIN SMALL LIGATURE FF}", GIVING, "is not a piece 0 to F"),
        ("\x1b[31mc1", PLACING, r"'\x1b[31mc1' is not a cell a1 to d4"),
        ("9" * 100_000, GIVING, "99999…' is not a piece 0 to F"),
        ("c1 " * 50_000, PLACING, "…' is 50000 words instead of one or two: place C"),
    ],
)
def test_what_is_wrong_is_explained(line: str, game: Game, message: str) -> None:
    assert command_of(line) is None
    with pytest.raises(RequestError) as refused:
        game_after(line, game)
    assert message in str(refused.value)
    assert len(str(refused.value)) < 250


@given(st.text() | st.text("abcd1234@ 0F\n,"), st.sampled_from([START, PLACING, GIVING, OWN_PIECE, LAST]))
def test_whatever_is_typed_is_a_turn_or_explained_in_one_printable_line(line: str, game: Game) -> None:
    try:
        after = game_after(line, game)
    except RequestError as error:
        message = str(error)
    else:
        assert after != game
        assert len(after.plies) - len(game.plies) in (0, 1)
        return
    assert message.isprintable()  # so it is one line


def test_commands_are_read_in_any_case_and_nothing_else_is_one() -> None:
    for command in Command:
        assert command_of(f"  {command.upper()} ") is command
    assert command_of("?") is Command.HELP
    assert command_of("exit") is Command.QUIT
    for line in ("", "hin", "hint hint", "b1", "undo 2"):
        assert command_of(line) is None
