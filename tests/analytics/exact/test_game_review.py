"""The review of one game: the values of its decisions, the better choices, and the time limit."""

from __future__ import annotations

import random
import time

import pytest

from analytics.exact.game_review import GameReview, JudgedDecision, review_game
from quarto.notation import parse_game
from quarto.position import board, position_from_plies
from quarto.rules import CLASSIC, NONE, Rules, find_finished_lines
from tests.naive import PRESETS
from tests.naive_solver import list_turns, solve_position

UNKNOWN = Rules("unknown", diagonals="none", squares="plain")  # no tablebase ships for them

OPENING = 11  # plies: positions after them take the slow twin milliseconds
Kept = dict[tuple[int, int], int]


def random_game(rules: Rules, seed: int) -> list[tuple[int, int]]:
    """Play a game by random choices and return its plies."""
    rng, pieces, cells = random.Random(seed), list(range(16)), list(range(16))
    rng.shuffle(pieces)
    rng.shuffle(cells)
    for plies in range(17):
        played = list(zip(pieces, cells, strict=True))[:plies]
        if find_finished_lines(board(position_from_plies(played)), rules):
            return played
    return played


WON = next(plies for seed in range(60) if 12 < len(plies := random_game(CLASSIC, seed)) < 16)  # by a line


def naive_values(plies: list[tuple[int, int]], ply: int, kind: str, rules: Rules) -> Kept:
    """Return the value of every choice in place of a decision, for the player who took it, by the slow twin."""
    if rules.mover_chooses:
        turns = list_turns(position_from_plies(plies[:ply]), rules)
        return {(piece, cell): solved.value for (cell, piece), solved in turns.items()}
    if kind == "gift":
        turns = list_turns(position_from_plies(plies[:ply]), rules)
        return {(gift, NONE): solved.value for (_, gift), solved in turns.items()}
    best: Kept = {}
    piece = plies[ply][0]
    for (cell, _), solved in list_turns(position_from_plies(plies[:ply], piece), rules).items():
        best[piece, cell] = max(best.get((piece, cell), -1), solved.value)
    return best


@pytest.mark.parametrize("name", PRESETS)
def test_values_and_better_choices_are_those_of_playing_every_game_out(name: str) -> None:
    rules, mistakes = PRESETS[name], 0
    games = [plies for seed in range(60) if len(plies := random_game(rules, seed)) > OPENING][:4]
    assert games
    for plies in games:
        review = review_game(rules, plies, opening=OPENING)
        assert (review.unjudged_count, len(review.decisions)) == (0, (2 - rules.mover_chooses) * (len(plies) - OPENING))
        for index, decision in enumerate(review.decisions):
            values = naive_values(plies, decision.ply, decision.kind, rules)
            assert decision.seat == (decision.ply + (decision.kind == "placement")) % 2
            assert decision.piece == plies[decision.ply][0]
            assert (decision.before, decision.after) == (max(values.values()), values[decision.piece, decision.cell])
            kept = tuple(sorted(choice for choice, value in values.items() if value == decision.before))
            assert review.better_choices.get(index, kept) == kept
            assert (index in review.better_choices) == (decision.regret > 0)
        mistakes += len(review.mistakes)
    assert mistakes > 0


def test_the_gift_in_hand_of_an_unfinished_game_is_judged_too() -> None:
    plies, (hand, _) = WON[:-1], WON[-1]
    judged = review_game(CLASSIC, plies, hand, opening=OPENING).decisions[-1]
    before = solve_position(position_from_plies(plies), CLASSIC).value
    assert judged == JudgedDecision(len(plies), "gift", len(plies) % 2, hand, NONE, before, -1)
    assert review_game(CLASSIC, [], opening=0) == GameReview((), 0, {})


def test_a_whole_game_is_judged_from_the_first_gift() -> None:
    review = review_game(CLASSIC, WON)
    assert review.unjudged_count == 0
    assert [(decision.ply, decision.kind) for decision in review.decisions[:3]] == [
        (0, "gift"),
        (0, "placement"),
        (1, "gift"),
    ]
    assert review.decisions[0].before == 0  # the game is a draw
    assert review.decisions[-1].after == 1


def test_what_the_time_does_not_suffice_for_is_the_beginning() -> None:
    rules, plies = UNKNOWN, parse_game("0@a1 7@b2 9@d3 F@c1 1@b4 5@d1")
    started = time.monotonic()
    review = review_game(rules, plies, seconds=0)
    assert time.monotonic() - started < 5
    assert review.unjudged_count >= 4
    assert review.unjudged_count + len(review.decisions) == 12
    assert all(
        decision.ply * 2 + (decision.kind == "placement") >= review.unjudged_count for decision in review.decisions
    )


def test_an_exception_while_waiting_ends_the_search_and_is_passed_on() -> None:
    def press() -> None:
        raise KeyboardInterrupt

    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        review_game(UNKNOWN, parse_game("0@a1 7@b2"), seconds=600, on_wait=press)
    assert time.monotonic() - started < 5
