"""The slow twins against facts from outside: if these hold, what agrees with the twins is right."""

from __future__ import annotations

import pytest

from quarto.rules import Rules
from tests import naive
from tests.naive import NONE, PRESETS, Player, View, play_game

CLASSIC = PRESETS["classic"]
DIAGONAL = (0, 5, 10, 15)
ALMOST_A_LINE = [(8, 0), (9, 5), (10, 10)]  # of high pieces and of pieces that are not coloured


def view(plies: list[tuple[int, int]], hand: int, rules: Rules = CLASSIC) -> View:
    """Return the position after (piece, cell) plies."""
    placed = {piece for piece, _ in plies}
    available = [piece for piece in range(16) if piece not in placed | {hand}]
    return View(naive.board_after(plies), available, hand, plies[-1][1] if plies else NONE, rules)


class Fixed:
    """Plays like ``dumb`` until its own ``turn``-th turn (from 0), then gives the answer, or raises it."""

    def __init__(self, turn: int, answer: tuple[int, int] | Exception) -> None:
        self.turns_left = turn
        self.answer = answer

    def turn(self, view: View, seed: int) -> tuple[int, int]:
        self.turns_left -= 1
        if self.turns_left >= 0:
            return naive.Dumb().turn(view, seed)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_has_its_number_of_lines(name: str) -> None:
    assert len(naive.lines(PRESETS[name])) == naive.LINE_COUNTS[name]


def test_a_line_needs_four_pieces_that_share_a_value() -> None:
    for pieces, expected in (((8, 9, 10, 15), True), ((0, 1, 2, 4), True), ((0, 15, 3, 12), False)):
        board = naive.board_after(list(zip(pieces, DIAGONAL, strict=True)))
        assert naive.has_line(board, CLASSIC) is expected
        assert naive.has_line(naive.with_piece(board, NONE, 5), CLASSIC) is False


@pytest.mark.parametrize("player", [naive.SemiRandom(), naive.RuleBased()])
def test_tactical_players_take_the_first_winning_cell(player: Player) -> None:
    high = [*ALMOST_A_LINE, (12, 1), (11, 2)]
    assert naive.winning_cells(naive.board_after(high), 15, CLASSIC) == [3, 15]
    assert player.turn(view(high, 15), seed=1)[0] == 3


def test_semi_random_gives_every_safe_piece_and_no_other() -> None:
    gifts = {naive.SemiRandom().turn(view(ALMOST_A_LINE, NONE), seed)[1] for seed in range(200)}
    assert gifts == {4, 5, 6, 7}


def test_semi_random_gives_any_piece_when_none_is_safe() -> None:
    nothing_safe = view([*ALMOST_A_LINE, (4, 3), (5, 6), (6, 9)], NONE)
    gifts = {naive.SemiRandom().turn(nothing_safe, seed)[1] for seed in range(400)}
    assert gifts == set(nothing_safe.available)


def test_semi_random_that_chooses_its_piece_takes_the_lowest_that_wins() -> None:
    assert naive.SemiRandom().turn(view(ALMOST_A_LINE, NONE, PRESETS["own_piece"]), seed=1) == (15, 0)


@pytest.mark.parametrize(
    ("plies", "cell"),
    [
        ([(0, 1)], 14),  # the point reflection of b1
        ([(0, 14), (15, 1)], 15),  # taken: d4 is farthest, five steps away
        ([(0, 15), (15, 0)], 11),  # d3 and c4 are equally far: the first
    ],
)
def test_rule_based_mirrors_the_last_cell(plies: list[tuple[int, int]], cell: int) -> None:
    assert naive.RuleBased().turn(view(plies, 6), seed=1)[0] == cell


def test_rule_based_gives_the_opposite_piece_unless_one_or_two_are_safe() -> None:
    assert naive.RuleBased().turn(view([(0, 1)], 6), seed=1)[1] == 9
    few_safe = [(8, 0), (9, 5), (4, 1), (10, 10)]  # and 6 goes to d1, which leaves 5 and 7
    assert naive.RuleBased().turn(view(few_safe, 6), seed=1) == (3, 5)


@pytest.mark.parametrize(
    ("turn", "answer", "plies", "ending"),
    [
        (0, (NONE, 16), 0, "forfeit_illegal"),  # the first gift
        (0, KeyError("x"), 0, "forfeit_error"),
        (1, (0, 9), 1, "forfeit_illegal"),  # a taken cell: the ply does not count
        (1, (16, 9), 1, "forfeit_illegal"),
        (1, (9, 0), 2, "forfeit_illegal"),  # a gift that is on the board: the placement counts
        (1, (9, NONE), 2, "forfeit_illegal"),
        (1, KeyError("x"), 1, "forfeit_error"),
    ],
)
def test_a_forfeit_keeps_the_plies_that_were_legal(
    turn: int, answer: tuple[int, int] | Exception, plies: int, ending: str
) -> None:
    game = play_game(CLASSIC, (Fixed(turn, answer), naive.Dumb()), 1, 0, 0)
    assert (game.plies, game.winner, game.ending) == (plies, 1, ending)


@pytest.mark.parametrize("answer", [(0, 9), (9, 0), (9, NONE), KeyError("x")])
def test_a_mover_who_forfeits_places_nothing(answer: tuple[int, int] | Exception) -> None:
    game = play_game(PRESETS["own_piece"], (Fixed(0, answer), naive.Dumb()), 1, 0, 0)
    assert (game.plies, game.winner) == (1, 1)


def test_a_gift_after_the_last_ply_is_not_looked_at() -> None:
    class Careless:
        def turn(self, view: View, seed: int) -> tuple[int, int]:
            cell, gift = naive.Random().turn(view, seed)
            finished = view.hand != NONE and naive.finishes_line(view.board, view.hand, cell, view.rules)
            return cell, 99 if finished else gift

    games = [play_game(CLASSIC, (Careless(), Careless()), 2, pair, 0) for pair in range(20)]
    assert games == [play_game(CLASSIC, (naive.Random(), naive.Random()), 2, pair, 0) for pair in range(20)]
