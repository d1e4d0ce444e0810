"""Pictures are drawn only on terminals that can show them; they are complete, and fit the screen."""

from __future__ import annotations

import io
import itertools
from pathlib import Path

import pytest
from rich.console import ConsoleDimensions

from quarto.errors import RequestError
from quarto.game import Game, Participants, describe_ending, list_attribute_words
from quarto.notation import format_piece, parse_game
from quarto.rules import CLASSIC, NONE
from runners.arena.spec import AgentSpec
from runners.play import plain_boards
from runners.play.screens import (
    PIECE_COLOUR,
    PictureScreen,
    Screen,
    build_screen,
    render_board,
    render_game,
    render_piece,
)
from runners.play.session import HUMAN
from tests.naive import PRESETS


class Stream(io.TextIOWrapper):
    """Standard input or output, at a terminal or not."""

    def __init__(self, terminal: bool, encoding: str = "utf-8") -> None:
        super().__init__(io.BytesIO(), encoding=encoding, errors="replace")
        self.terminal = terminal

    def isatty(self) -> bool:
        return self.terminal


@pytest.mark.parametrize(
    ("typed_at", "shown_at", "plain", "term", "expected"),
    [
        (Stream(True), Stream(True), False, "xterm", PictureScreen),
        (Stream(True), Stream(True), True, "xterm", Screen),
        (Stream(True), Stream(True), False, "dumb", Screen),
        (Stream(False), Stream(True), False, "xterm", Screen),
        (Stream(True), Stream(False), False, "xterm", Screen),
        (Stream(True), Stream(True, "ascii"), False, "xterm", Screen),
        (Stream(True), Stream(True, "latin-1"), False, "xterm", Screen),
    ],
)
def test_pictures_need_a_terminal_that_can_draw_them(
    typed_at: Stream, shown_at: Stream, plain: bool, term: str, expected: type[Screen], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", typed_at)
    monkeypatch.setattr("sys.stdout", shown_at)
    monkeypatch.setenv("TERM", term)
    assert type(build_screen(plain)) is expected


def test_a_person_cannot_be_made_by_a_run(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match=r"does not vouch for \(class runners\.play\.Human\)"):
        AgentSpec("human:ada", HUMAN, {}).build()


PLAYED = Game(CLASSIC, tuple(parse_game("F@b1 3@b2 7@c4 0@a1 9@d4 6@d2")), hand=10)
GIVEN = PLAYED.place(2).give(1)
WON = Game(CLASSIC, tuple(parse_game("F@b1 3@b2 7@b4 0@a1 9@d4 6@d2 B@b3")))
FULL = "A@d3 C@b4 8@c2 7@b1 1@d4 5@c3 B@a3 6@b2 E@a4 F@d2 4@c4 3@a2 2@c1 0@b3 D@d1 9@a1"
DRAWN = Game(CLASSIC, tuple(parse_game(FULL)))
YOU = Participants(seat=1, agent="rule_based")

BOARD = """\
      a        b        c        d       pieces left:
1   ( 0 )   [[*F#]]     .        .                 [ 1 ]    ( 2#)
2     .      [ 3#]      .    > (*6#) <    (*4 )    [*5 ]
3     .        .        .        .       (( 8 ))                    [[ B#]]
4     .        .      [*7#]   [[ 9 ]]    ((*C ))  [[*D ]]  ((*E#))
in hand: (( A#)) high, uncoloured, solid, round"""

NARROW = """\
      a        b        c        d
1   ( 0 )  =[[*F#]]=    .        .
2     .    = [ 3#] =    .      (*6#)
3     .    =[[ B#]]=    .        .
4     .    = [*7#] =    .     [[ 9 ]]

pieces left:
          [ 1 ]    ( 2#)
 (*4 )    [*5 ]
(( 8 ))           (( A#))
((*C ))  [[*D ]]  ((*E#))"""


def test_the_plain_board_reads_well() -> None:
    assert plain_boards.render_game(PLAYED, 80) == BOARD
    assert plain_boards.render_game(WON, 40) == NARROW


@pytest.mark.parametrize(
    "draw", [plain_boards.render_token, lambda piece: "\n".join(row.plain for row in render_piece(piece))]
)
def test_every_attribute_can_be_seen_without_colours(draw: object) -> None:
    assert callable(draw)
    drawn = [draw(piece).replace(format_piece(piece), "?") for piece in range(16)]
    assert len(set(drawn)) == 16
    sizes = {tuple(len(row) for row in text.splitlines()) for text in drawn}
    assert sizes in ({(7,)}, {(5, 5, 5)})


def test_pictures_say_the_same_of_a_piece_as_its_attributes() -> None:
    for piece in range(16):
        rows, words = [row.plain for row in render_piece(piece)], list_attribute_words(piece)
        assert ("high" in words) == bool(rows[0].strip())
        assert ("coloured" in words) == ("•" in "".join(rows))
        assert ("solid" in words) == ("█" in "".join(rows))
        assert ("round" in words) == any(row.startswith(("▞", "▟", "▚", "▜")) for row in rows)
        styles = {str(span.style) for row in render_piece(piece) for span in row.spans}
        assert ("coloured" in words) == any(PIECE_COLOUR in style for style in styles)


SIZES = [ConsoleDimensions(*size) for size in [(200, 60), (80, 24), (64, 24), (40, 40), (40, 24), (80, 12)]]


@pytest.mark.parametrize("game", [Game(CLASSIC), PLAYED, WON, Game(PRESETS["own_piece"], PLAYED.plies)])
@pytest.mark.parametrize("size", SIZES)
def test_a_game_fits_the_terminal_and_nothing_is_left_out(game: Game, size: ConsoleDimensions) -> None:
    rows = [row.plain for row in render_game(game, size)]
    assert max(map(len, rows)) <= size.width
    assert len(rows) <= size.height - 4
    text = "\n".join(rows)
    pieces = [format_piece(piece) for piece in range(16)]
    assert all(any(f"{before}{piece}{after}" in text for before, after in AROUND) for piece in pieces)
    assert ("in hand" in text) == (game.hand != NONE)
    assert "pieces left" in text


AROUND = [*itertools.product(" •▄", repeat=2), *itertools.product(" *", " #")]


def test_the_last_piece_is_pointed_at_and_a_finished_line_is_framed() -> None:
    played = [row.plain for row in render_board(PLAYED)]
    assert [row.count("▸") for row in played].index(1) == 7  # row 2 of the board, in the middle
    assert played[7].rstrip().endswith("▸▟███▙◂│")
    won = [row.plain for row in render_board(WON)]
    framed = [row[row.index("│", 5) + 1 :][:7] for row in won if "▌" in row]
    assert len(framed) == 4 * 3
    assert all(cell.startswith("▌") and cell.endswith("▐") for cell in framed)
    assert not any("▸" in row for row in won)


@pytest.mark.parametrize(
    ("game", "reason", "expected"),
    [
        (WON, "", "You win: b1 b2 b3 b4, all solid and square."),
        (
            Game(CLASSIC, tuple(parse_game("8@a1 9@a2 A@a3 C@b4 D@c4 F@a4 B@d4"))),
            "",
            "You win: a4 b4 c4 d4, all high; a1 a2 a3 a4, all high.",
        ),
        (DRAWN, "", "A draw: the board is full and no line is finished."),
        (PLAYED.with_forfeit(4), "", "You resign, and rule_based wins."),
        (GIVEN.with_forfeit(2), "it did", "rule_based forfeits the game, and you win: it did."),
    ],
)
def test_results_in_words(game: Game, reason: str, expected: str) -> None:
    assert describe_ending(game, YOU, reason) == expected
    assert describe_ending(WON, Participants(0, "rule_based")) == "rule_based wins: b1 b2 b3 b4, all solid and square."
