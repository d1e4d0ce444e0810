"""Boards as one picture in SVG: those of a whole game, or one position."""

from __future__ import annotations

from collections.abc import Sequence
from xml.sax.saxutils import escape

from analytics.report.pieces import piece_symbols
from quarto.notation import format_cell, format_piece
from quarto.rules import NONE, SIDE
from runners.play.game import Game

CELL, MARGIN, HEAD, ACROSS = 54, 14, 20, 4  # lengths in units of the picture; boards in a row
EMPTY, LAST, FINISHED = "#f6f4ef", "#ffe9a8", "#bfe3c0"  # of cells


def boards_svg(games: Sequence[Game], title: str) -> str:
    """The picture. The last piece has a yellow cell, the pieces of a finished line green ones."""
    side = SIDE * CELL
    across, down = side + MARGIN, side + MARGIN + HEAD
    boards = "".join(
        f'<g transform="translate({MARGIN + number % ACROSS * across} {MARGIN + number // ACROSS * down})">'
        f"{_board(game)}</g>"
        for number, game in enumerate(games)
    )
    width, height = MARGIN + min(len(games), ACROSS) * across, MARGIN + -(-len(games) // ACROSS) * down
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        f'font-family="sans-serif" font-size="14"><title>{escape(title)}</title>'
        f'<rect width="100%" height="100%" fill="#fff"/>{piece_symbols()}{boards}</svg>\n'
    )


def _board(game: Game) -> str:
    """The board of a game under its last ply and the piece in hand."""
    texts, last, won = [], NONE, {cell for line in game.lines for cell in line}
    if game.plies:
        piece, last = game.plies[-1]
        texts.append(f"ply {len(game.plies) - 1}: {format_piece(piece)} on {format_cell(last)}")
    texts += [f"in hand: {format_piece(game.hand)}"] if game.hand != NONE else []
    drawn = [f'<text y="{HEAD - 6}">{"; ".join(texts)}</text>']
    for cell, placed in enumerate(game.board):
        x, y = cell % SIDE * CELL, HEAD + cell // SIDE * CELL
        fill = FINISHED if cell in won else LAST if cell == last else EMPTY
        place = f'x="{x}" y="{y}" width="{CELL}" height="{CELL}"'
        drawn.append(f'<rect {place} fill="{fill}" stroke="#8a8578"/>')
        if placed != NONE:
            drawn.append(f'<use href="#piece-{placed}" {place}/>')
    return "".join(drawn)
