"""A logged game as one picture in SVG: the board after each ply."""

from __future__ import annotations

from xml.sax.saxutils import escape

from analytics.report.pieces import piece_symbols
from quarto.notation import format_cell, format_piece
from quarto.rules import NONE, SIDE
from runners.browse import replay
from runners.browse.games import ArchivedGame

CELL, MARGIN, HEAD, ACROSS = 54, 14, 20, 4  # lengths in units of the picture; boards in a row
EMPTY, LAST, FINISHED = "#f6f4ef", "#ffe9a8", "#bfe3c0"  # of cells


def game_svg(game: ArchivedGame, title: str) -> str:
    """The picture. The last piece has a yellow cell, the pieces of a finished line green ones."""
    count, side = len(game.plies), SIDE * CELL
    across, down = side + MARGIN, side + MARGIN + HEAD
    boards = "".join(
        f'<g transform="translate({MARGIN + ply % ACROSS * across} {MARGIN + ply // ACROSS * down})">'
        f"{_board(game, ply)}</g>"
        for ply in range(count)
    )
    width, height = MARGIN + min(count, ACROSS) * across, MARGIN + -(-count // ACROSS) * down
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        f'font-family="sans-serif" font-size="14"><title>{escape(title)}</title>'
        f'<rect width="100%" height="100%" fill="#fff"/>{piece_symbols()}{boards}</svg>\n'
    )


def _board(game: ArchivedGame, ply: int) -> str:
    """The board after a ply, under the ply."""
    now = replay.moment(game, ply + 1)
    piece, cell = game.plies[ply]
    drawn = [f'<text y="{HEAD - 6}">ply {ply}: {format_piece(piece)} on {format_cell(cell)}</text>']
    for number, placed in enumerate(now.pieces):
        x, y = number % SIDE * CELL, HEAD + number // SIDE * CELL
        fill = FINISHED if number in now.lines else LAST if number == now.last else EMPTY
        place = f'x="{x}" y="{y}" width="{CELL}" height="{CELL}"'
        drawn.append(f'<rect {place} fill="{fill}" stroke="#8a8578"/>')
        if placed != NONE:
            drawn.append(f'<use href="#piece-{placed}" {place}/>')
    return "".join(drawn)
