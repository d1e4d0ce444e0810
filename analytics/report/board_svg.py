"""Boards as SVG: the stroke through a finished line, boards in rows, and an animated game."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from xml.sax.saxutils import escape

from analytics.report.pieces import piece_symbols
from analytics.report.style import INK, SvgPicture
from quarto.game import Game
from quarto.notation import format_cell, format_piece
from quarto.rules import NONE, SIDE, Line

CELL_SIZE, MARGIN, HEADING_HEIGHT = 54, 14, 20  # in units of the picture
BOARDS_PER_ROW = 4
EMPTY_COLOUR, LAST_COLOUR = "#f6f4ef", "#ffe9a8"  # colours of cells
FINISHED_COLOUR, STROKE_COLOUR = "#bfe3c0", "#14693b"  # colours of a finished line's cells and of its stroke
BOARD_SIZE = SIDE * CELL_SIZE
BOARD_PITCH, ROW_PITCH = (
    BOARD_SIZE + MARGIN,
    BOARD_SIZE + MARGIN + HEADING_HEIGHT,
)  # from one board, or row, to the next
STROKE_OVERHANG = 0.375  # length of a stroke beyond the last centre, in cell widths
DECISION_SECONDS = 1.0  # duration of a decision in an animation
END_DECISIONS = 4.0  # length of the end of an animation, in decisions


def render_stroke_path(line: Line) -> str:
    """Render the path through the centres of a line's cells, as SVG path data in units of one cell.

    The path extends a little beyond the centres of the first and the last cell. If the line wraps around the board,
    each part is drawn up to the edge. A line whose cells form a square is drawn as a closed path.
    """
    cells = [divmod(cell, SIDE) for cell in line]
    is_square = len({row for row, _ in cells}) == 2
    if is_square:
        cells = [cells[0], cells[1], cells[3], cells[2], cells[0]]
    points = [(column + 0.5, row + 0.5) for row, column in cells]
    steps = [
        tuple((new - old + 1) % SIDE - 1 for old, new in zip(*neighbours, strict=True))
        for neighbours in pairwise(points)
    ]
    beyond = 0 if is_square else STROKE_OVERHANG
    path = "M{} {}".format(*(at - beyond * step for at, step in zip(points[0], steps[0], strict=True)))
    for (x, y), (to_x, to_y), (right, down) in zip(points, points[1:], steps, strict=False):
        if (x + right, y + down) != (to_x, to_y):
            path += f"L{x + right / 2} {y + down / 2}M{to_x - right / 2} {to_y - down / 2}"
        path += f"L{to_x} {to_y}"
    return path + "l{} {}".format(*(beyond * step for step in steps[-1]))


def render_boards_svg(games: Sequence[Game], title: str) -> str:
    """Render the boards of games, arranged in rows, as the text of an SVG file."""
    picture = build_boards_picture(games)
    return _render_svg(picture.width, picture.height, title, picture.shapes)


def build_boards_picture(games: Sequence[Game]) -> SvgPicture:
    """Build a picture of the boards of games, arranged in rows.

    The cell of the last piece is yellow. The cells of a finished line are green, and a stroke runs through them.
    """
    boards = "".join(_render_board_in_row(number, game) for number, game in enumerate(games))
    width = MARGIN + min(len(games), BOARDS_PER_ROW) * BOARD_PITCH
    height = MARGIN + -(-len(games) // BOARDS_PER_ROW) * ROW_PITCH
    return SvgPicture(boards, width, height)


def _render_board_in_row(index: int, game: Game) -> str:
    """Render the board of a game, with its heading, at place ``index`` of a picture that is filled row by row."""
    row, column = divmod(index, BOARDS_PER_ROW)
    return (
        f'<g transform="translate({MARGIN + column * BOARD_PITCH} {MARGIN + row * ROW_PITCH})">'
        f'<text y="{HEADING_HEIGHT - 6}" font-size="14px" fill="{INK}">{_format_last_ply_and_hand(game)}</text>'
        f"{_render_cells(game, _find_cell_colours(game))}"
        f"{_render_strokes(game)}{_render_placed_pieces(game)}</g>"
    )


def _render_svg(width: float, height: float, title: str, content: str, scale: float = 1) -> str:
    """Render an SVG file that has a title and shows ``content``, an area of ``width`` by ``height`` units.

    Each unit is ``scale`` pixels.
    """
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{scale * width:g}" height="{scale * height:g}" '
        f'viewBox="0 0 {width:g} {height:g}" font-family="sans-serif" font-size="14"><title>{escape(title)}</title>'
        f'<rect width="100%" height="100%" fill="#fff"/>{piece_symbols()}{content}</svg>\n'
    )


def _format_last_ply_and_hand(game: Game) -> str:
    """Format the heading of a board: the last ply, if any, and the piece in hand, if any."""
    texts = []
    if game.plies:
        piece, cell = game.plies[-1]
        texts.append(f"ply {len(game.plies) - 1}: {format_piece(piece)} on {format_cell(cell)}")
    return "; ".join([*texts, *([f"in hand: {format_piece(game.hand)}"] if game.hand != NONE else [])])


def _find_cell_colours(game: Game) -> dict[int, str]:
    """Return the colours of the cell that was filled last and of the cells of finished lines, by cell."""
    last = {game.plies[-1][1]: LAST_COLOUR} if game.plies else {}
    return last | dict.fromkeys((cell for line in game.lines for cell in line), FINISHED_COLOUR)


def _format_cell_attributes(cell: int) -> str:
    row, column = divmod(cell, SIDE)
    place = f'x="{column * CELL_SIZE}" y="{HEADING_HEIGHT + row * CELL_SIZE}"'
    return f'{place} width="{CELL_SIZE}" height="{CELL_SIZE}"'


def _render_cells(game: Game, colours: dict[int, str]) -> str:
    return "".join(
        f'<rect {_format_cell_attributes(cell)} fill="{colours.get(cell, EMPTY_COLOUR)}" stroke="#8a8578"/>'
        for cell in range(len(game.board))
    )


def _render_placed_pieces(game: Game) -> str:
    """Render the pieces on the board of a game."""
    return "".join(
        f"<use {_format_piece_attributes(piece, cell)}/>" for cell, piece in enumerate(game.board) if piece != NONE
    )


def _format_piece_attributes(piece: int, cell: int) -> str:
    return f'href="#piece-{piece}" {_format_cell_attributes(cell)}'


def _render_strokes(game: Game) -> str:
    """Render the strokes through the finished lines of a game; return "" if it has none."""
    paths = "".join(f'<path d="{render_stroke_path(line)}"/>' for line in game.lines)
    drawn = f'fill="none" stroke="{STROKE_COLOUR}" stroke-width=".2" stroke-linecap="round" stroke-linejoin="round"'
    return (
        f'<g transform="translate(0 {HEADING_HEIGHT}) scale({CELL_SIZE})" {drawn} opacity=".7">{paths}</g>'
        if paths
        else ""
    )


# Animated games.

HIDDEN_STYLE, SHOWN_STYLE = "opacity:0", "opacity:1"
LINE_HEIGHT, MAX_NAME_LETTERS = 18, 18  # height of a line in a caption, and longest name


def render_animated_game_svg(game: Game, names: Sequence[str], title: str, setup_plies: int = 0) -> str:
    """Render a game as an animated SVG, in which each piece is given and then placed.

    The SVG contains CSS, but no script. The first ``setup_plies`` plies are on the board from the beginning. ``names``
    has the players' names by seat. Readers who prefer reduced motion see only the end of the game.
    """
    plies = range(setup_plies, len(game.plies))
    end = 2 * len(plies)  # number of decisions before the end
    moves = {"stroke": [(end - 0.5, HIDDEN_STYLE), (end - 0.2, SHOWN_STYLE)]}
    for number, ply in enumerate(plies):
        moves |= _build_ply_keyframes(game, ply, 2 * number)
    motion = "".join(_render_animation_style(name, stops, end + END_DECISIONS) for name, stops in moves.items())
    motion = f".moves{{animation:{DECISION_SECONDS * (end + END_DECISIONS):.1f}s infinite}}{motion}"
    texts = "".join(_render_caption(game, names, ply) for ply in plies)
    pieces = "".join(
        f'<use id="piece{ply}" class="moves" {_format_piece_attributes(*game.plies[ply])}/>' for ply in plies
    )
    content = (
        f"<style>@media (prefers-reduced-motion:no-preference){{{motion}}}</style>"
        f'<g transform="translate({MARGIN} {MARGIN + LINE_HEIGHT})">{texts}{_render_cells(game, {})}'
        f'<g id="stroke" class="moves">{_render_strokes(game)}</g>'
        f"{_render_placed_pieces(Game(game.rules, game.plies[:setup_plies]))}{pieces}</g>"
    )
    return _render_svg(
        BOARD_SIZE + 2 * MARGIN,
        LINE_HEIGHT + BOARD_SIZE + HEADING_HEIGHT + CELL_SIZE + 2 * MARGIN,
        title,
        content,
        scale=2,
    )


Keyframes = list[tuple[float, str]]  # time in decisions, and style of the element


def _build_ply_keyframes(game: Game, ply: int, start: int) -> dict[str, Keyframes]:
    """Build the keyframes of a ply's piece and caption, by element id; the ply begins after ``start`` decisions.

    The piece waits below the board before it is placed.
    """
    row, column = divmod(game.plies[ply][1], SIDE)
    right, down = (BOARD_SIZE - CELL_SIZE) / 2 - column * CELL_SIZE, BOARD_SIZE + 7 - row * CELL_SIZE
    waits = f"transform:translate({right}px,{down}px)"
    waiting_style, placed_style = f"{SHOWN_STYLE};{waits}", f"{SHOWN_STYLE};transform:none"
    fade_out = [(start + 1.9, SHOWN_STYLE), (start + 2, HIDDEN_STYLE)] if ply < len(game.plies) - 1 else []
    return {
        f"piece{ply}": [
            (start, f"{HIDDEN_STYLE};{waits}"),
            (start + 0.2, waiting_style),
            (start + 1, waiting_style),
            (start + 1.4, placed_style),
        ],
        f"text{ply}": [(start, HIDDEN_STYLE), (start + 0.1, SHOWN_STYLE), *fade_out],
    }


def _render_animation_style(element_id: str, keyframes: Keyframes, length: float) -> str:
    """Render the style that animates an element.

    ``length`` is the length of the animation. Like the times of the keyframes, it is a number of decisions, each of
    which lasts ``DECISION_SECONDS``. Before the first keyframe, the element already has that keyframe's style. It keeps
    the style of the last keyframe until the animation ends.
    """
    states = [(0, keyframes[0][1]), *keyframes, (length, keyframes[-1][1])]
    frames = "".join(f"{100 * at / length:.2f}%{{{state}}}" for at, state in states)
    return f"@keyframes {element_id}{{{frames}}}#{element_id}{{animation-name:{element_id}}}"


def _render_caption(game: Game, names: Sequence[str], ply: int) -> str:
    """Render the caption of a ply: one line about the gift and one line about the placement.

    Without animation, only the caption of the last ply is visible.
    """
    (piece, cell), short = (
        game.plies[ply],
        [name if len(name) <= MAX_NAME_LETTERS else f"{name[:MAX_NAME_LETTERS]}…" for name in names],
    )
    giver, mover = short[ply % 2], short[(ply + 1) % 2]
    chosen = f"{mover} chooses" if game.rules.mover_chooses else f"{giver} gives"
    lines = f"{ply}: {chosen} {format_piece(piece)}", f"{mover} places it on {format_cell(cell)}"
    spans = "".join(f'<tspan x="0" dy="{LINE_HEIGHT}">{escape(line)}</tspan>' for line in lines)
    opacity = int(ply == len(game.plies) - 1)
    return f'<text id="text{ply}" class="moves" y="{-LINE_HEIGHT - 6}" opacity="{opacity}">{spans}</text>'
