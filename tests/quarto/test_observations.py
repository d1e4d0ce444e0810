from __future__ import annotations

import copy
import random

import numpy as np
import pytest

from quarto.batch import Batch
from quarto.game import Game, NextDecision
from quarto.observations import (
    ACTIONS,
    NO_CELL,
    NO_GIFT,
    SHAPE,
    TURN_CODES,
    StepwiseGame,
    encode_board_and_hand,
    encode_observations_and_masks,
    encode_one_row_per_piece,
    encode_pieces_and_legal_turns,
    unpack_mask,
)
from quarto.position import PackedPosition
from quarto.rules import CLASSIC, NONE, Rules
from tests import naive


def games(seed: int, count: int, rules: Rules = CLASSIC) -> list[StepwiseGame]:
    """Return the states of random games."""
    chance = random.Random(seed)
    states: list[StepwiseGame] = []
    while len(states) < count:
        game = StepwiseGame(rules)
        while not game.over:
            states.append(game.copy())
            game.act(chance.choice([action for action in range(ACTIONS) if game.legal_action_mask >> action & 1]))
    return states[:count]


def twin(position: PackedPosition, places: list[int]) -> np.ndarray:
    """Build an observation value by value."""
    rows = np.zeros(SHAPE, np.int8)
    for place, piece in enumerate(places):
        for attribute in range(4):
            if piece != NONE:
                rows[place, attribute + 4 * (1 - (piece >> attribute & 1))] = 1
    return rows


def test_a_batch_is_encoded_like_its_positions_one_by_one() -> None:
    states = games(seed=2, count=300)
    observations, masks = encode_observations_and_masks(Batch.from_positions([state.position for state in states]))
    assert observations.dtype == masks.dtype == np.int8
    for state, seen, legal in zip(states, observations, masks, strict=True):
        expected = twin(state.position, state.pieces)
        assert np.array_equal(seen, expected)
        assert np.array_equal(encode_one_row_per_piece(state.pieces), expected)
        assert np.array_equal(encode_board_and_hand(state.position), expected)
        assert legal.tolist() == [state.legal_action_mask >> action & 1 for action in range(ACTIONS)]
        assert np.array_equal(unpack_mask(state.legal_action_mask), legal)
    apart = Batch(*(field[::2] for field in Batch.from_positions([state.position for state in states])))  # type: ignore[arg-type]
    for array, part in zip((observations, masks), encode_observations_and_masks(apart), strict=True):
        assert np.array_equal(array[::2], part)


def can_be_taken(game: StepwiseGame, cell: int, gift: int) -> bool:
    """Return whether the decisions of a turn can be taken one after the other, and are all there are."""
    other = game.copy()
    if game.rules.mover_chooses:
        if gift == NO_GIFT or not other.available >> gift & 1:
            return False
        other.act(gift)
        return cell != NO_CELL and bool(other.legal_action_mask >> cell & 1)
    if (cell == NO_CELL) != (game.hand == NONE):
        return False
    if cell != NO_CELL:
        if not other.legal_action_mask >> cell & 1:
            return False
        other.act(cell)
    return other.over if gift == NO_GIFT else bool(other.legal_action_mask >> gift & 1)


@pytest.mark.parametrize("rules", naive.PRESETS.values(), ids=naive.PRESETS)
def test_turns_are_those_whose_decisions_can_be_taken(rules: Rules) -> None:
    states = [state for state in games(4, 130, rules) if not (rules.mover_chooses and state.hand != NONE)]
    pieces, legal = encode_pieces_and_legal_turns(Batch.from_positions([state.position for state in states]), rules)
    assert pieces.dtype == np.int8
    assert legal.dtype == np.bool_
    assert pieces.tolist() == [state.pieces for state in states]
    for state, row in zip(states, legal, strict=True):
        assert row.tolist() == [can_be_taken(state, *divmod(turn, 17)) for turn in range(TURN_CODES)]


RULES = (
    CLASSIC,
    Rules("square", squares="plain"),
    Rules("torus_square", diagonals="broken", squares="wrapped"),
    Rules("own_piece", chooser="mover"),
)


def legal_in(game: Game, hand: int) -> list[int]:
    """Return the legal actions of the twin, which takes piece and cell at once where the mover chooses both."""
    if game.next_decision is NextDecision.NOTHING:
        return []
    placing = hand != NONE if game.next_decision is NextDecision.PLY else game.next_decision is NextDecision.PLACEMENT
    return game.empty_cells if placing else [piece for piece in game.pieces_left if piece != hand]


def follow_action(game: Game, hand: int, action: int) -> tuple[Game, int]:
    """Return the twin and the piece that its mover has chosen, after an action."""
    if game.next_decision is NextDecision.PLY:
        return (game, action) if hand == NONE else (game.play(hand, action), NONE)
    return (game.place(action) if game.next_decision is NextDecision.PLACEMENT else game.give(action)), NONE


@pytest.mark.parametrize("rules", RULES, ids=lambda rules: rules.name)
def test_it_is_the_game_that_people_play(rules: Rules) -> None:
    chance = random.Random(1)
    winners = set()
    for _ in range(40):
        stepwise, game, hand = StepwiseGame(rules), Game(rules), NONE
        while True:
            assert [action for action in range(ACTIONS) if stepwise.legal_action_mask >> action & 1] == legal_in(
                game, hand
            )
            assert stepwise.over == (game.next_decision is NextDecision.NOTHING)
            assert stepwise.winner == game.winner
            assert tuple(stepwise.plies) == game.plies
            if stepwise.over:
                break
            assert stepwise.seat == game.seat
            if rules.mover_chooses:
                assert stepwise.pieces[:16] == game.board
            else:
                assert stepwise.position == game.position
            if not game.is_gift_due:
                assert stepwise.turn_number == game.turn
            action = chance.choice(legal_in(game, hand))
            stepwise.act(action)
            game, hand = follow_action(game, hand, action)
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
