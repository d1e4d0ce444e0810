"""Hints without search: placements that win at once, and gifts that let the opponent win at once."""

from __future__ import annotations

from typing import NamedTuple

from quarto.notation import format_cell, format_piece
from quarto.views import PositionView
from runners.play.game import Game, NextDecision, cells_text, pieces_text

MAX_TURNS = 6  # that a hint lists


class Hint(NamedTuple):
    """A hint: its lines, and the decisions that it recommends, as they are typed."""

    lines: list[str]
    best: list[str]


def hint(game: Game) -> Hint:
    """The hint for the next decision."""
    return {NextDecision.GIFT: _gift, NextDecision.PLACEMENT: _placement, NextDecision.PLY: _ply}[game.asked](game)


def _gift(game: Game) -> Hint:
    safe = [*PositionView(game.position, game.rules).safe_gifts()]
    if not safe:
        return Hint(["No gift is safe: every piece left finishes a line somewhere."], [])
    if len(safe) == len(game.left):
        return Hint(["Every gift is safe: none finishes a line now."], [])
    return Hint([f"Safe gifts: {pieces_text(safe)}. Any other finishes a line."], pieces_text(safe).split())


def _placement(game: Game) -> Hint:
    hand, view = format_piece(game.hand), PositionView(game.position, game.rules)
    wins = cells_text([*view.winning_cells()])
    if wins:
        return Hint([f"{hand} finishes a line on {wins}."], wins.split())
    lines = [f"{hand} finishes no line now."]
    if not game.left:
        return Hint(lines, [])
    safe = {cell: view.safe_gifts(cell) for cell in game.empty_cells}
    best = max(safe, key=lambda cell: len(safe[cell]))
    if not safe[best]:
        return Hint([*lines, "Wherever it goes, every gift then lets your opponent finish one."], [])
    lines.append(f"Safe gifts: {_grouped({cell: len(gifts) for cell, gifts in safe.items()})}.")
    lines.append(f"Suggestion: place it on {format_cell(best)} and give {format_piece(safe[best][0])}.")
    return Hint(lines, [format_cell(best)])


def _grouped(counts: dict[int, int]) -> str:
    """The number of safe gifts after each cell, greatest first."""
    groups: dict[int, list[int]] = {count: [] for count in sorted(counts.values(), reverse=True)}
    for cell, count in counts.items():
        groups[count].append(cell)
    if len(groups) == 1:
        return f"{next(iter(groups))} wherever it goes"
    return "; ".join(f"{count} after {cells_text(cells)}" for count, cells in groups.items())


def _ply(game: Game) -> Hint:
    wins: list[str] = []
    safe: list[str] = []
    view = PositionView(game.position, game.rules)
    for piece in game.left:
        wins += [f"{format_piece(piece)}@{format_cell(cell)}" for cell in view.winning_cells(piece)]
        after = {cell: view.after(cell, piece) for cell in game.empty_cells}
        quiet = [cell for cell, left in after.items() if left.safe_gifts() == left.available]
        safe += [f"{format_piece(piece)}@{format_cell(cell)}" for cell in quiet]
    if wins:
        return Hint([f"This finishes a line: {_some(wins)}."], wins)
    if not safe:
        return Hint(["Nothing finishes a line now, and after each of your plies your opponent can finish one."], [])
    quietly = f"After these your opponent cannot finish one either: {_some(safe)}."
    return Hint(["Nothing finishes a line now.", quietly], safe)


def _some(turns: list[str]) -> str:
    more = len(turns) - MAX_TURNS
    return " ".join(turns[:MAX_TURNS]) + (f" and {more} more" if more > 0 else "")
