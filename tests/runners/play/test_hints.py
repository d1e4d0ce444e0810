"""Hints agree with the exact values of the set that ships and of the slow twin, wherever they are shown."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import pytest
from numpy.typing import NDArray

from analytics.exact.position_set import find_existing_shipped_set, read_position_set
from quarto.game import Game, NextDecision
from quarto.notation import format_cell, format_piece, parse_cell, parse_piece
from quarto.position import PackedPosition, board
from quarto.rules import CLASSIC, NONE
from quarto.solver.solver import ILLEGAL
from quarto.views import Position
from runners.play import hints
from runners.play.dialogue import Dialogue, parse_and_play_decision
from runners.play.hints import find_hint
from tests import naive_solver
from tests.naive import PRESETS
from tests.runners.play.people import Notes, build_session, draw_line

if TYPE_CHECKING:
    from runners.web.play.games import GameState


def list_shipped_games(step: int) -> Iterator[tuple[Game, NDArray[np.int8]]]:
    """Yield every ``step``-th shipped position, from six pieces on, with its exact values by cell and gift."""
    shipped = read_position_set(find_existing_shipped_set("classic"))
    for number in range(0, len(shipped.piece_counts), step):
        packed = PackedPosition(*(int(field[number]) for field in shipped.batch))
        if shipped.piece_counts[number] >= 6:
            plies = tuple((piece, cell) for cell, piece in enumerate(board(packed)) if piece != NONE)
            game = Game(CLASSIC, plies, packed.hand, setup_plies=len(plies))
            yield game, shipped.values[number]


@pytest.mark.extras
def test_hints_give_up_no_value_of_the_set_that_ships() -> None:
    """Check against the exact values of the set, which come from another search, and against the browser's marks."""
    from runners.web.play.pages import build_game_view

    judged, seen = 0, set[str]()
    for game, values in list_shipped_games(step=29):
        hint, legal = find_hint(game, math.inf), values != ILLEGAL
        best, view = values[legal].max(), build_game_view(to_state(game), NONE, hint)
        marked = {tile.decision for tile in view.cells if tile.hinted}
        assert hint.is_solved
        assert (marked, view.hints) == ({*hint.best}, hint.lines)
        for cell in map(parse_cell, hint.best):
            assert values[cell].max(where=legal[cell], initial=ILLEGAL) == best
        value_match = re.search(r"Exact value: a (\w+) for you", " ".join(hint.lines))
        assert value_match is None or {"win": 1, "draw": 0, "loss": -1}[value_match[1]] == best
        suggestion = re.search(r"Suggestion: place it on (\w\w) and give (\w)\.", hint.lines[-1])
        if suggestion:
            cell, gift = parse_cell(suggestion[1]), parse_piece(suggestion[2])
            assert values[cell, gift] == best
            check_reason(hint.lines[-1], game.place(cell), int(np.sum(values[cell] == best)), best)
            after = game.place(cell)
            gifts = find_hint(after, math.inf)
            assert gifts.is_solved
            keeping = {format_piece(piece) for piece in after.pieces_left if values[cell, piece] == best}
            assert {*gifts.best} == keeping if best >= 0 else {*gifts.best} <= keeping
            tempting = re.search(r"\. ([\w ]+?) (?:is|are) safe now, but", gifts.lines[-1])
            safe = {format_piece(piece) for piece in Position(after.position, CLASSIC).safe_gifts()}
            assert {*(tempting[1].split() if tempting else ())} == (safe - keeping if best >= 0 else set())
            judged += best >= 0
        seen.add(value_match[1] if value_match else hint.lines[-1][2:])
    assert judged > 100
    assert seen >= {"win", "draw", "loss"}


def check_reason(line: str, after: Game, keeping_count: int, value: int) -> None:
    """Check the counts with which a hint says why a placement is good; ``after`` is the game after the placement."""
    safe_count = len([*Position(after.position, CLASSIC).safe_gifts()])
    cell = format_cell(after.last_cell)
    if value < 0:
        assert line.endswith(f" {cell} leaves {safe_count} safe gift{'s' * (safe_count != 1)}.")
        return
    reason = re.search(r"(\w\w) keeps the (win|draw): (\d+) safe gifts? (?:is|are) left, and (\w+)", line)
    assert reason
    assert (reason[1], reason[2], int(reason[3])) == (cell, {1: "win", 0: "draw"}[value], safe_count)
    assert reason[4] == (("it" if safe_count == 1 else "each") if keeping_count == safe_count else str(keeping_count))


def to_state(game: Game) -> GameState:
    """Build the browser's state of a game in which it is the person's turn."""
    from runners.web.play.games import GameState

    playing = build_session(CLASSIC, game.seat, "dumb")
    playing.advance_to(game)
    return GameState(playing, (), (), thinking=False)


@pytest.mark.parametrize("preset", ["own_piece", "square"])
def test_hints_keep_the_value_that_the_slow_twin_finds(preset: str) -> None:
    rules, seen = PRESETS[preset], set[int]()
    for seed in range(24):
        game, dice = Game(rules), random.Random(seed)
        while game.next_decision is not NextDecision.NOTHING:
            if len(game.plies) >= 12:
                hint = find_hint(game, math.inf)
                turns = naive_solver.list_turns(game.position, rules)
                value = max((solved.value for solved in turns.values()), default=0)
                keeping = {name_decision(game, *turn) for turn, solved in turns.items() if solved.value == value}
                assert {*hint.best} <= keeping
                if hint.lines[-1].startswith("Exact value: "):
                    assert {"win": 1, "draw": 0, "loss": -1}[hint.lines[-1].split()[3]] == value
                seen.add(value)
            steps = [parse_and_play_decision(draw_line(game, dice).split()[0], game) for _ in range(20)]
            game = next((step for step in steps if step.ending is None), steps[0])  # nobody hurries to win
    assert len(seen) > 1


def name_decision(game: Game, cell: int, gift: int) -> str:
    """Format the first decision of a turn, as it is typed."""
    if game.next_decision is NextDecision.GIFT:
        return format_piece(gift)
    return f"{format_piece(gift)}@{format_cell(cell)}" if game.rules.mover_chooses else format_cell(cell)


def test_the_terminal_prints_the_lines_of_the_hint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hints, "HINT_SECONDS", math.inf)
    game, _ = next(list_shipped_games(step=5_000))
    playing, screen = build_session(CLASSIC, game.seat, "dumb"), Notes(["hint"])
    playing.advance_to(game)
    with pytest.raises(EOFError):
        Dialogue(playing, screen).play_to_end()
    assert [line for line in find_hint(game).lines if line not in screen.written] == []
