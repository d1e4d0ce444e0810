"""A session plays like the engine (randomness, forfeits), and the same turn after undo gets the same answer."""

from __future__ import annotations

import random
import re

import numpy as np
import pytest

from agents.base.agent import Agent
from quarto.batch import ENDINGS, FORFEIT_RESIGNED
from quarto.errors import RequestError
from quarto.game import Game, NextDecision, Ply
from quarto.rules import CLASSIC, NONE, Rules
from quarto.views import Position
from runners.arena.batch_engine import BatchEngine, PairRange
from runners.bench.warm_up import choose_rules_name
from runners.config.yaml_options import list_options
from runners.play.dialogue import Dialogue, parse_and_play_decision
from runners.play.session import Session
from tests import naive
from tests.marks import seldom
from tests.naive import PRESETS
from tests.runners.play.people import SEED, Notes, build_session, draw_line, load_agent_once
from tests.runners.players import Dice, Misbehaving


class Repeating:
    """A player that repeats the turns of a game."""

    def __init__(self, game: Game) -> None:
        self.plies: list[Ply] = [*game.plies, (game.hand, NONE)]  # the last gift may have come to nothing
        self.rules = game.rules

    def choose(self, position: Position, rng: np.random.Generator) -> tuple[int, int]:
        ply_count = position.packed.occupied.bit_count()
        if self.rules.mover_chooses:
            return self.plies[ply_count][1], self.plies[ply_count][0]
        first = position.hand == NONE
        return NONE if first else self.plies[ply_count][1], self.plies[ply_count if first else ply_count + 1][0]


def play_by_engine(game: Game, seat: int, agent: Agent, number: int) -> tuple[list[Ply], int, str]:
    """Let the engine play ``agent`` against one who repeats the person's turns; return plies, winner and ending."""
    person = Repeating(game)
    pairing = (0, 1) if seat == 0 else (1, 0)
    engine = BatchEngine(game.rules, [person, agent], ["person", "agent"], [pairing], seed=0, run=SEED, swapped=False)
    games = engine.play_block(PairRange(0, number, 1)).games
    plies = int(games.plies[0])
    gifts_and_cells = zip(games.pieces[:plies, 0].tolist(), games.cells[:plies, 0].tolist(), strict=True)
    return list(gifts_and_cells), int(games.winner[0]), ENDINGS[games.ending[0]]


def play_session(rules: Rules, seat: int, agent: Agent | str, number: int = 0) -> Session:
    """Play a session with random input to its end."""
    playing = build_session(rules, seat, agent, number=number)
    assert Dialogue(playing, Notes(random.Random(number))).play_to_end()
    return playing


@pytest.mark.parametrize("seat", [0, 1])
@pytest.mark.parametrize("preset", PRESETS)
def test_the_same_turns_are_the_engines_game(preset: str, seat: int) -> None:
    rules = PRESETS[preset]
    for number in (0, 12345):
        game = play_session(rules, seat, "random", number).game
        expected = play_by_engine(game, seat, load_agent_once("random").build(), number)
        assert (list(game.plies), game.winner, ENDINGS[game.ending or 0]) == expected


@pytest.mark.parametrize("seat", [0, 1])
@pytest.mark.parametrize("what", ["raise", "cheat"])
@pytest.mark.parametrize("after", [0, 3])
def test_forfeits_are_the_engines(what: str, after: int, seat: int) -> None:
    for rules in (CLASSIC, PRESETS["own_piece"]):
        playing = play_session(rules, seat, Misbehaving(what, after))
        game = playing.game
        expected = play_by_engine(game, seat, Misbehaving(what, after), 0)
        assert (list(game.plies), game.winner, ENDINGS[game.ending or 0]) == expected
        assert game.winner == seat
        if what == "raise":
            assert playing.reason == "it raised RuntimeError: lost my nerve"
        else:
            assert playing.reason.startswith("its turn was illegal: ")


@pytest.mark.parametrize(
    "agent",
    ["random", "mcts(reuse=true)", Dice(), *seldom(*sorted(list_options("agent")))],
    ids=lambda agent: str(agent).split()[0],
)
def test_a_turn_taken_back_and_made_again_is_answered_the_same(agent: Agent | str) -> None:
    rules = PRESETS[choose_rules_name(load_agent_once(agent)) if isinstance(agent, str) else "classic"]
    playing = build_session(rules, 1, agent)
    for turn in range(3):
        while playing.is_agent_to_act:
            playing.play_agent_turn()
        before, own_turn = playing.game, draw_turn(playing.game, seed=turn)
        if own_turn.next_decision is NextDecision.NOTHING:
            return
        answers = []
        for _ in range(2):
            assert playing.game == before
            playing.advance_to(own_turn)
            playing.play_agent_turn()
            answers.append(playing.game)
            assert playing.undo()
        assert own_turn != answers[0] == answers[1]
        playing.advance_to(draw_turn(before, seed=turn + 100))


def draw_turn(game: Game, seed: int) -> Game:
    """Draw a random turn, the same for the same seed."""
    dice = random.Random(seed)
    while game.next_decision is not NextDecision.NOTHING:
        after = parse_and_play_decision(draw_line(game, dice), game)
        if not after.is_gift_due:
            return after
        game = after
    return game


# A game as a value.


@pytest.mark.parametrize("rules", PRESETS.values(), ids=list(PRESETS))
def test_a_game_asks_the_seats_in_turn_and_ends_as_the_naive_twin_does(rules: Rules) -> None:
    for pair in range(40):
        twin = naive.play_game(rules, (naive.Random(), naive.Random()), 5, pair, 0)
        game = Game(rules)
        for ply, (piece, cell) in enumerate(zip(twin.pieces, twin.cells, strict=True)):
            assert game.ending is None
            if rules.mover_chooses:
                assert (game.next_decision, game.seat, game.turn) == (NextDecision.PLY, (ply + 1) % 2, ply + 1)
                game = game.play(piece, cell)
                continue
            assert (game.next_decision, game.seat, game.turn) == (NextDecision.GIFT, ply % 2, ply)
            assert game.is_gift_due == (ply > 0)
            game = game.give(piece)
            assert (game.next_decision, game.seat, game.turn) == (NextDecision.PLACEMENT, (ply + 1) % 2, ply + 1)
            assert not game.is_gift_due
            assert piece not in game.pieces_left
            game = game.place(cell)
        assert game.next_decision is NextDecision.NOTHING
        assert (ENDINGS[game.ending or 0], game.winner) == (twin.ending, twin.winner)
        assert game.board == naive.board_after(game.plies)


PLAYED = Game(CLASSIC, ((15, 1), (3, 5)))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: PLAYED.give(15), "piece F is already on b1; left: 0 1 2 4 5 6 7 8 9 A B C D E"),
        (lambda: PLAYED.give(16), "16 is not the number of a piece"),
        (lambda: PLAYED.give(NONE), "-1 is not the number of a piece"),
        (lambda: PLAYED.give(7).place(5), "b2 is taken by piece 3; free: a1 c1 d1 a2 c2 d2 a3 b3 c3 d3 a4 b4 c4 d4"),
        (lambda: PLAYED.give(7).place(-2), "-2 is not the number of a cell"),
        (lambda: PLAYED.give(7).give(8), "the game expects placement now, not gift"),
        (lambda: PLAYED.place(0), "the game expects gift now, not placement"),
        (lambda: PLAYED.play(7, 0), "the game expects gift now, not ply"),
        (lambda: PLAYED.with_forfeit(FORFEIT_RESIGNED).give(7), "the game expects nothing now, not gift"),
    ],
)
def test_what_the_rules_forbid_is_refused_and_what_is_legal_said(wrong: object, message: str) -> None:
    assert callable(wrong)
    with pytest.raises(RequestError, match=re.escape(message)):
        wrong()
