"""The dialogue: every command, and that a wrong line changes nothing."""

from __future__ import annotations

import random
import re
import sys
import threading
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analytics.exact.game_review import GameReview, JudgedDecision
from quarto.batch import FORFEIT_RESIGNED
from quarto.errors import RequestError
from quarto.game import Game, NextDecision, Participants, describe_line
from quarto.notation import format_cell, format_piece, parse_cell, parse_game, parse_piece
from quarto.rules import CLASSIC, NONE, Rules
from quarto.views import Position
from runners.play.dialogue import HELP, Dialogue, DialogueCommand, parse_and_play_decision, parse_command
from runners.play.hints import find_hint, render_review
from runners.play.session import Session
from tests import naive
from tests.marks import seldom
from tests.naive import PRESETS
from tests.runners.play.people import Notes, build_session, draw_line
from tests.runners.players import OneByOne


def play_lines(*lines: str, rules: Rules = CLASSIC, seat: int = 1) -> tuple[Session, Notes, bool | None]:
    """Play lines against ``dumb``; the last value is whether the game is over, or None if the lines were used up."""
    playing, screen = build_session(rules, seat, "dumb"), Notes(lines)
    try:
        return playing, screen, Dialogue(playing, screen).play_to_end()
    except EOFError:
        return playing, screen, None


def test_whole_and_half_turns_lead_to_the_same_game() -> None:
    session_of_turns, _, _ = play_lines("d4 F", "d3 E")
    session_of_halves, screen, _ = play_lines("d4", "F", "d3", "E")
    assert session_of_turns.game == session_of_halves.game
    assert screen.requests == ["place 0", "give a piece", "place 1", "give a piece", "place 2"]
    assert screen.news[:4] == [
        "dumb gives you 0.",
        "You place 0 on d4.",
        "You give F.",
        "dumb places F on a1 and gives you 1.",
    ]


@pytest.mark.parametrize("wrong", ["", "foo", "a1 9", "c9", "d4 0", "d4 d3", "\N{GRINNING FACE}", "x" * 10_000])
def test_a_wrong_line_is_explained_and_asked_again(wrong: str) -> None:
    right, _, _ = play_lines("a1 5", "d4 F")
    playing, screen, _ = play_lines("a1 5", wrong, wrong, "d4 F")
    assert playing.game == right.game
    assert screen.requests[1:4] == ["place 1"] * 3
    assert len(screen.written) == 2
    assert all(text.endswith(".") for text in screen.written)


def test_undo_takes_back_a_turn_and_its_answer() -> None:
    once, _, _ = play_lines("d4 F")
    again, screen, _ = play_lines("d4 F", "d3 E", "undo")
    assert again.game == once.game
    assert screen.news[-1] == "Taken back: 2 plies. It is your turn again."
    halfway, screen, _ = play_lines("d4 F", "d3", "UNDO")
    assert halfway.game == once.game
    assert screen.news[-1] == "Taken back: 1 ply. It is your turn again."
    start, screen, _ = play_lines("undo")
    assert start.game == Game(CLASSIC, hand=0)
    assert screen.written == ["There is nothing to undo: you have not played yet."]
    gift, screen, _ = play_lines("7", "undo", seat=0)
    assert gift.game == Game(CLASSIC)
    assert screen.news[-1] == "Taken back: 1 ply. It is your turn again."


def test_resigning_ends_the_game_wherever_the_person_stands() -> None:
    for lines, plies in (([], 0), (["d4"], 1), (["d4 F"], 2), (["d4 F", "d3"], 3)):
        playing, screen, over = play_lines(*lines, "resign")
        assert over
        assert (len(playing.game.plies), playing.game.ending, playing.game.winner) == (plies, FORFEIT_RESIGNED, 0)
        assert screen.news[-1] == "You resign, and dumb wins."
        assert screen.game == playing.game


@pytest.mark.parametrize("rules", [PRESETS["classic"], PRESETS["own_piece"]], ids=lambda rules: rules.name)
def test_help_hint_and_board_change_nothing(rules: Rules) -> None:
    playing, screen, _ = play_lines("help", "hint", "board", "?", rules=rules, seat=1)
    assert len(playing.game.plies) == 0
    assert screen.written[1 : 1 + len(HELP)] == list(HELP)
    assert screen.written[0].endswith(("such as a1 1.", "such as 0@a1."))
    assert "finishes" in screen.written[1 + len(HELP)]
    assert screen.boards == 2


class Slow(OneByOne):
    """An opponent that thinks until the test stops it."""

    def __init__(self) -> None:
        self.thinking = threading.Event()
        self.stop = threading.Event()

    def choose(self, position: Position, rng: np.random.Generator) -> tuple[int, int]:
        self.thinking.set()
        self.stop.wait(60)
        return super().choose(position, rng)


def test_ctrl_c_is_heard_while_the_agent_thinks(monkeypatch: pytest.MonkeyPatch) -> None:
    agent = Slow()
    playing, screen = build_session(CLASSIC, 1, agent), Notes([])

    def press(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(screen, "show_waiting", press)
    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        Dialogue(playing, screen).play_to_end()
    assert agent.thinking.is_set()
    assert time.monotonic() - started < 30
    agent.stop.set()


START = Game(CLASSIC)
PLACING = Game(CLASSIC, ((15, 1), (3, 14)), hand=12)
GIVING = Game(CLASSIC, ((15, 1), (3, 14), (12, 2)))
OWN_PIECE = Game(PRESETS["own_piece"], ((15, 1), (3, 14)))
DRAWN = "A@d3 C@b4 8@c2 7@b1 1@d4 5@c3 B@a3 6@b2 E@a4 F@d2 4@c4 3@a2 2@c1 0@b3 D@d1 9@a1"
WINNING = Game(CLASSIC, ((0, 0), (1, 1), (2, 2)), hand=3)
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
        ("d1 0", WINNING, WINNING.place(3)),  # a gift after a finished line does not matter
        ("a1", LAST, LAST.place(0)),
        ("a1 7", LAST, LAST.place(0)),  # there is nothing left to give, and the game is over
    ],
)
def test_turns_are_read(line: str, game: Game, expected: Game) -> None:
    assert parse_and_play_decision(line, game) == expected


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
    assert parse_command(line) is None
    with pytest.raises(RequestError) as refused:
        parse_and_play_decision(line, game)
    assert message in str(refused.value)
    assert len(str(refused.value)) < 250


# Any characters, as numbers: for text, Hypothesis lists those of Unicode first, which takes it seconds.
ANY_TEXT = st.lists(st.integers(0, sys.maxunicode)).map(lambda codes: "".join(map(chr, codes)))


@given(ANY_TEXT | st.text("abcd1234@ 0F\n,"), st.sampled_from([START, PLACING, GIVING, OWN_PIECE, LAST]))
def test_whatever_is_typed_is_a_turn_or_explained_in_one_printable_line(line: str, game: Game) -> None:
    try:
        after = parse_and_play_decision(line, game)
    except RequestError as error:
        message = str(error)
    else:
        assert after != game
        assert len(after.plies) - len(game.plies) in (0, 1)
        return
    assert message.isprintable()  # so it is one line


def test_commands_are_read_in_any_case_and_nothing_else_is_one() -> None:
    for command in DialogueCommand:
        assert parse_command(f"  {command.upper()} ") is command
    assert parse_command("?") is DialogueCommand.HELP
    assert parse_command("exit") is DialogueCommand.QUIT
    for line in ("", "hin", "hint hint", "b1", "undo 2"):
        assert parse_command(line) is None


# Hints.


UNSOLVED = ["Not solved within 0 s: a safe gift may still give up exact value."]


def list_games_in_progress(rules: Rules, games: int = 30) -> list[Game]:
    """List every moment of some random games at which somebody could ask for a hint."""
    games_in_progress = []
    for seed in range(games):
        game, dice = Game(rules), random.Random(seed)
        while game.next_decision is not NextDecision.NOTHING:
            games_in_progress.append(game)
            game = parse_and_play_decision(draw_line(game, dice).split()[0], game)
    return games_in_progress


def cells(text: str) -> list[int]:
    return [parse_cell(word) for word in text.split()]


@pytest.mark.parametrize("preset", ["classic", "torus_square"])
def test_hints_about_gifts_name_the_safe_ones(preset: str) -> None:
    rules, seen = PRESETS[preset], set()
    for game in list_games_in_progress(rules):
        if game.next_decision is not NextDecision.GIFT:
            continue
        line, *more = find_hint(game, seconds=0).lines
        safe = naive.safe_pieces(game.board, game.pieces_left, rules)
        if len(safe) == len(game.pieces_left):
            expected = "Every gift is safe: none finishes a line now."
        elif safe:
            named = " ".join(format_piece(piece) for piece in safe)
            expected = f"Safe gifts: {named}. Any other finishes a line."
        else:
            expected = "No gift is safe: every piece left finishes a line somewhere."
        assert line == expected
        assert more == (UNSOLVED if safe else [])
        seen.add(expected[:4])
    assert seen == {"Ever", "Safe", "No g"}


@pytest.mark.parametrize("preset", ["classic", *seldom("square")])
def test_hints_about_placements_name_winning_cells_or_count_safe_gifts(preset: str) -> None:
    rules, seen = PRESETS[preset], set()
    for game in list_games_in_progress(rules):
        if game.next_decision is not NextDecision.PLACEMENT:
            continue
        first, *more = find_hint(game, seconds=0).lines
        hand = format_piece(game.hand)
        if wins := naive.winning_cells(game.board, game.hand, rules):
            assert first == f"{hand} finishes a line on {' '.join(map(format_cell, wins))}."
            after = game.place(wins[0])
            lines = "; ".join(describe_line(after, line) for line in after.lines)
            assert more == [f"{format_cell(wins[0])} wins: {lines}."]
            seen.add("wins")
            continue
        assert first == f"{hand} finishes no line now."
        safe = {
            cell: naive.safe_pieces(naive.with_piece(game.board, game.hand, cell), game.pieces_left, rules)
            for cell in game.empty_cells
        }
        counts = {cell: len(pieces) for cell, pieces in safe.items()}
        if not game.pieces_left:
            assert more == []
            seen.add("last")
        elif not any(counts.values()):
            assert more == ["Wherever it goes, every gift then lets your opponent finish one."]
            seen.add("lost")
        else:
            listed, *unsolved, suggestion = more
            assert unsolved == UNSOLVED
            if len(set(counts.values())) == 1:
                assert listed == f"Number of safe gifts: {counts[game.empty_cells[0]]} wherever it goes."
            else:
                groups = re.findall(r"(\d+) after ([a-d1-4 ]+)", listed)
                assert {cell: int(count) for count, where in groups for cell in cells(where)} == counts
                assert [int(count) for count, _ in groups] == sorted(set(counts.values()), reverse=True)
            match = re.match(r"Suggestion: place it on (\w\w) and give (\w)\. (\w\w) leaves (\d+) safe", suggestion)
            assert match
            assert parse_piece(match[2]) in safe[parse_cell(match[1])]
            assert (match[3], int(match[4])) == (match[1], counts[parse_cell(match[1])])
            seen.add("counted")
    assert seen >= {"wins", "lost", "counted"}


@pytest.mark.slow
def test_hints_where_the_mover_chooses_name_what_wins_and_what_is_safe() -> None:
    rules, seen = PRESETS["own_piece"], set()
    late = [game for game in list_games_in_progress(rules) if len(game.plies) > 8]
    for game in [*list_games_in_progress(rules, games=2), *late]:
        lines = find_hint(game, seconds=0).lines
        wins, safe = [], []
        for piece in game.pieces_left:
            other_pieces = [other for other in game.pieces_left if other != piece]
            winning = naive.winning_cells(game.board, piece, rules)
            wins += [f"{format_piece(piece)}@{format_cell(cell)}" for cell in winning]
            for cell in game.empty_cells:
                after = naive.with_piece(game.board, piece, cell)
                if not any(naive.winning_cells(after, other, rules) for other in other_pieces):
                    safe.append(f"{format_piece(piece)}@{format_cell(cell)}")
        if wins:
            assert lines[0] == f"This finishes a line: {shorten(wins)}."
            assert lines[1].startswith(f"{wins[0]} wins: ")
        elif safe:
            expected = f"After these your opponent cannot finish one either: {shorten(safe)}."
            assert lines == ["Nothing finishes a line now.", expected, *UNSOLVED]
        else:
            assert len(lines) == 1
            assert lines[0].startswith("Nothing finishes a line now, and after each of your plies")
        seen.add((bool(wins), bool(safe)))
    assert {(True, False), (False, True), (False, False)} <= seen


def shorten(turns: list[str]) -> str:
    return " ".join(turns[:6]) + (f" and {len(turns) - 6} more" if len(turns) > 6 else "")


YOU = Participants(1, "dumb")


def test_the_mover_who_chooses_the_piece_has_one_column() -> None:
    decisions = (JudgedDecision(4, "placement", 1, 3, 0, 0, 0), JudgedDecision(5, "placement", 0, 10, 5, 1, -1))
    assert render_review(GameReview(decisions, 4, {1: ((0, 1), (2, 15))}), YOU, 10) == [
        "Each decision and its exact value, for the player who took it:",
        "ply  placement",
        "4    you 3@a1: draw",
        "5    dumb A@b2: win -> loss",
        "Mistake at ply 5 by dumb: placing A@b2 turned a win into a loss; 0@b1 or 2@d4 would have kept it.",
        "4 earlier decisions were not judged within 10 s: early positions take long under these rules.",
    ]


def test_a_review_without_mistakes_or_decisions_says_so() -> None:
    gift = JudgedDecision(0, "gift", 0, 7, NONE, 0, 0)
    assert render_review(GameReview((gift,), 0, {}), YOU, 1)[1:] == [
        "ply  gift",
        "0    dumb 7: draw",
        "Neither side erred.",
    ]
    assert render_review(GameReview((), 0, {}), YOU, 1) == ["No decision was taken, so none is judged."]
