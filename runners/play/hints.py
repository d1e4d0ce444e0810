"""Hints without search: placements that win at once, and gifts that let the opponent win at once."""

from __future__ import annotations

from quarto.notation import format_cell, format_piece
from quarto.rules import CELLS
from quarto.threats import safe_gifts, wins_and_safe_gifts
from runners.play.game import Game, NextDecision, cells_text, pieces_text

MAX_TURNS = 6  # that a hint lists


def hint(game: Game) -> list[str]:
    """The lines of a hint for the next decision."""
    return {NextDecision.GIFT: _gift, NextDecision.PLACEMENT: _placement, NextDecision.PLY: _ply}[game.asked](game)


def _gift(game: Game) -> list[str]:
    safe = _bits(safe_gifts(game.position, game.rules))
    if not safe:
        return ["No gift is safe: every piece left finishes a line somewhere."]
    if len(safe) == len(game.left):
        return ["Every gift is safe: none finishes a line now."]
    return [f"Safe gifts: {pieces_text(safe)}. Any other finishes a line."]


def _placement(game: Game) -> list[str]:
    hand = format_piece(game.hand)
    # The piece in hand is not among the pieces left, so all of these may be gifts after its placement.
    wins, safe = wins_and_safe_gifts(game.position, game.hand, game.rules)
    if wins:
        return [f"{hand} finishes a line on {cells_text(_bits(wins))}."]
    lines = [f"{hand} finishes no line now."]
    if not game.left:
        return lines
    best = max(game.empty_cells, key=lambda cell: safe[cell].bit_count())
    if not safe[best]:
        return [*lines, "Wherever it goes, every gift then lets your opponent finish one."]
    counts = {cell: safe[cell].bit_count() for cell in game.empty_cells}
    return [
        *lines,
        f"Safe gifts: {_grouped(counts)}.",
        f"Suggestion: place it on {format_cell(best)} and give {format_piece(_bits(safe[best])[0])}.",
    ]


def _grouped(counts: dict[int, int]) -> str:
    """The number of safe gifts after each cell, greatest first."""
    groups: dict[int, list[int]] = {count: [] for count in sorted(counts.values(), reverse=True)}
    for cell, count in counts.items():
        groups[count].append(cell)
    if len(groups) == 1:
        return f"{next(iter(groups))} wherever it goes"
    return "; ".join(f"{count} after {cells_text(cells)}" for count, cells in groups.items())


def _ply(game: Game) -> list[str]:
    wins: list[str] = []
    safe: list[str] = []
    for piece in game.left:
        others = game.position.available & ~(1 << piece)
        cells, harmless = wins_and_safe_gifts(game.position, piece, game.rules)
        wins += [f"{format_piece(piece)}@{format_cell(cell)}" for cell in _bits(cells)]
        quiet = [cell for cell in game.empty_cells if harmless[cell] == others]
        safe += [f"{format_piece(piece)}@{format_cell(cell)}" for cell in quiet]
    if wins:
        return [f"This finishes a line: {_some(wins)}."]
    if not safe:
        return ["Nothing finishes a line now, and after each of your plies your opponent can finish one."]
    return ["Nothing finishes a line now.", f"After these your opponent cannot finish one either: {_some(safe)}."]


def _some(turns: list[str]) -> str:
    more = len(turns) - MAX_TURNS
    return " ".join(turns[:MAX_TURNS]) + (f" and {more} more" if more > 0 else "")


def _bits(mask: int) -> list[int]:
    return [bit for bit in range(CELLS) if mask >> bit & 1]
