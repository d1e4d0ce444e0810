"""Shared parts of the slow searching players: the game as a tree of moves, each a (cell, gift)."""

from __future__ import annotations

from tests.naive import (
    NONE,
    View,
    any_cell,
    any_piece,
    draw,
    empty_cells,
    finishes_line,
    safe_pieces,
    with_piece,
)

Move = tuple[int, int]
LINE, FULL_BOARD = "line", "full board"


def gives_only(view: View) -> bool:
    return view.hand == NONE and not view.rules.mover_chooses


def placed_piece(view: View, move: Move) -> int:
    return move[1] if view.rules.mover_chooses else view.hand


def after(view: View, move: Move) -> View:
    cell, gift = move
    available = [piece for piece in view.available if piece != gift]
    if cell == NONE:
        return view._replace(available=available, hand=gift)
    board = with_piece(view.board, placed_piece(view, move), cell)
    hand = NONE if view.rules.mover_chooses else gift
    return View(board, available, hand, cell, view.rules)


def what_comes_of(view: View, move: Move) -> str | None:
    """LINE or FULL_BOARD if the move ends the game."""
    if move[0] == NONE:
        return None
    if finishes_line(view.board, placed_piece(view, move), move[0], view.rules):
        return LINE
    return FULL_BOARD if len(empty_cells(view.board)) == 1 else None


def moves(view: View, safe_gifts: bool = False) -> list[Move]:
    cells = [NONE] if gives_only(view) else empty_cells(view.board)
    return [(cell, gift) for cell in cells for gift in gifts_with(view, cell, safe_gifts) or [NONE]]


def gifts_with(view: View, cell: int, safe_gifts: bool) -> list[int]:
    """The pieces that may be given along with this placement."""
    if not safe_gifts or what_comes_of(view, (cell, NONE)) == LINE:
        return view.available
    board = view.board if cell == NONE else with_piece(view.board, view.hand, cell)
    return safe_pieces(board, view.available, view.rules) or view.available


class Words:
    """A turn's random words, one after the other."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.index = -1

    def next(self) -> int:
        self.index += 1
        return draw(self.seed, self.index)


def random_move(view: View, words: Words) -> Move:
    word = words.next()
    cell = NONE if gives_only(view) else any_cell(word, empty_cells(view.board))
    return cell, any_piece(word, view.available)
