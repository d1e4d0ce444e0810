from __future__ import annotations

import copy
import random

import pytest

from quarto.observations import ACTIONS, StepwiseGame
from quarto.rules import CLASSIC, NONE, Rules
from runners.play.game import Game, NextDecision

RULES = (
    CLASSIC,
    Rules("square", squares="plain"),
    Rules("torus_square", diagonals="broken", squares="wrapped"),
    Rules("own_piece", chooser="mover"),
)


def legal_in(game: Game, hand: int) -> list[int]:
    """The legal actions of the twin, which takes piece and cell at once where the mover chooses both."""
    if game.asked is NextDecision.NOTHING:
        return []
    placing = hand != NONE if game.asked is NextDecision.PLY else game.asked is NextDecision.PLACEMENT
    return game.empty_cells if placing else [piece for piece in game.left if piece != hand]


def followed(game: Game, hand: int, action: int) -> tuple[Game, int]:
    """The twin and the piece that its mover has chosen, after an action."""
    if game.asked is NextDecision.PLY:
        return (game, action) if hand == NONE else (game.play(hand, action), NONE)
    return (game.place(action) if game.asked is NextDecision.PLACEMENT else game.give(action)), NONE


@pytest.mark.parametrize("rules", RULES, ids=lambda rules: rules.name)
def test_it_is_the_game_that_people_play(rules: Rules) -> None:
    chance = random.Random(1)
    winners = set()
    for _ in range(40):
        stepwise, game, hand = StepwiseGame(rules), Game(rules), NONE
        while True:
            assert [action for action in range(ACTIONS) if stepwise.legal >> action & 1] == legal_in(game, hand)
            assert stepwise.over == (game.asked is NextDecision.NOTHING)
            assert stepwise.winner == game.winner
            assert tuple(stepwise.plies) == game.plies
            if stepwise.over:
                break
            assert stepwise.seat == game.seat
            if rules.mover_chooses:
                assert stepwise.pieces[:16] == game.board
            else:
                assert stepwise.position == game.position
            if not game.halfway:
                assert stepwise.turn == game.turn
            action = chance.choice(legal_in(game, hand))
            stepwise.act(action)
            game, hand = followed(game, hand, action)
        winners.add(stepwise.winner)
    assert {0, 1} <= winners


def test_a_copy_goes_on_by_itself() -> None:
    game = StepwiseGame()
    for action in (15, 1, 3):
        game.act(action)
    other = copy.deepcopy(game)
    other.act(6)
    assert other.plies == [(15, 1), (3, 6)]
    assert game.plies == [(15, 1)]
    assert game.hand == 3
    assert game.pieces != other.pieces
    assert other.rules is game.rules


def test_an_illegal_action_is_refused_with_the_legal_ones() -> None:
    game = StepwiseGame()
    game.act(7)
    game.act(0)
    for action, message in ((7, r"action 7 is not legal: a piece is chosen, legal: \[0, 1, 2"), (-1, "-1"), (16, "16")):
        with pytest.raises(ValueError, match=message):
            game.act(action)
    game.act(8)
    with pytest.raises(ValueError, match=r"action 0 is not legal: a cell is chosen, legal: \[1, 2"):
        game.act(0)
