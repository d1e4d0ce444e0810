"""A solved position as a value: its turns by name, in order, as a grid, as HTML, and as a frame of Polars."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from quarto.notation import format_cell, format_piece
from quarto.rules import NONE

if TYPE_CHECKING:
    import polars as pl

MAX_NAMED_TURNS = 5  # best turns that the short form of a solution names
LEGEND = "+n wins and -n loses in n placements, = draws, · is no legal turn; best first"
SHORT_LEGEND = "+ wins, - loses, = draws, · is no legal turn; best first"  # if distances are not known
NO_TURN = "·"


class SolvedTurn(NamedTuple):
    """A turn with its value and its distance, which is the number of placements until the game is over.

    ``text`` names the cell and the gift.
    """

    cell: int  # 4 * row + column; NONE (-1) for a gift alone
    gift: int  # the piece given or, if the mover chooses, placed; NONE for a placement that ends the game
    value: int  # for the player who takes the turn: 1 won, 0 drawn, -1 lost
    distance: int | None  # placements until the game is over; None if not requested

    @property
    def text(self) -> str:
        """The turn in notation: its cell and its gift, as in ``c3 7``, or one of them if the turn lacks the other."""
        cell = "" if self.cell == NONE else format_cell(self.cell)
        gift = "" if self.gift == NONE else format_piece(self.gift)
        return f"{cell} {gift}".strip()

    def __repr__(self) -> str:
        return f"<{self.text}: {_format_value_and_distance(self.value, self.distance)}>"


class Solution(NamedTuple):
    """The solution of a position: its value, and the value of every turn.

    Printed or shown in a notebook, it is a grid of the turns; ``frame`` has a row for each turn.

    Examples:
        >>> import quarto
        >>> solution = quarto.solve("0.6F/.3A./..5./C..9 7")
        >>> solution
        <value 0, drawn in 8 placements; 5 of 56 turns are best: b4 1, b4 2, b4 4, c4 1, c4 4>
        >>> solution.best[0].text
        'b4 1'
        >>> solution.frame.columns
        ['cell', 'gift', 'value', 'distance', 'best']

    """

    value: int  # for the player to act: 1 won, 0 drawn, -1 lost
    distance: int | None  # placements until the game is over; None if not requested
    turns: tuple[SolvedTurn, ...]  # by cell, then gift; empty if not requested or the game is over

    @property
    def best(self) -> tuple[SolvedTurn, ...]:
        """The turns that keep the value of the position, in the order of ``turns``.

        If distances are known, only the turns that win soonest or lose latest are included.
        """
        first_key = min(map(_value_sort_key, self.turns), default=None)
        return tuple(turn for turn in self.turns if _value_sort_key(turn) == first_key)

    @property
    def frame(self) -> pl.DataFrame:
        """The turns as a frame of Polars, with one row for each turn in the order of ``turns``.

        Columns: ``cell`` and ``gift`` as text, such as ``c3`` and ``7``, null where the turn has none; ``value`` for
        the player who takes the turn (1 won, 0 drawn, -1 lost); ``distance``, the placements until the game is over,
        null if it was not requested; ``best``, whether the turn is among ``best``.
        """
        import polars as pl  # the solver itself needs NumPy and numba only

        best = {*self.best}
        rows = [
            (
                None if turn.cell == NONE else format_cell(turn.cell),
                None if turn.gift == NONE else format_piece(turn.gift),
                turn.value,
                turn.distance,
                turn in best,
            )
            for turn in self.turns
        ]
        columns = {"cell": pl.String, "gift": pl.String, "value": pl.Int64, "distance": pl.Int64, "best": pl.Boolean}
        return pl.DataFrame(rows, columns, orient="row")

    def __repr__(self) -> str:
        text = _format_value_and_distance(self.value, self.distance)
        if not self.turns:
            return f"<{text}>"
        best = self.best
        names = [turn.text for turn in best[:MAX_NAMED_TURNS]] + ["…"] * (len(best) > MAX_NAMED_TURNS)
        verb = "is" if len(best) == 1 else "are"
        return f"<{text}; {len(best)} of {len(self.turns)} turns {verb} best: {', '.join(names)}>"

    def __str__(self) -> str:
        rows = self._build_grid_of_cells_by_gifts() if self.turns else []
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ["  ".join(text.rjust(width) for text, width in zip(row, widths, strict=True)) for row in rows]
        return "\n".join([repr(self)[1:-1], *lines, *self._list_legends()])

    def _repr_html_(self) -> str:
        if not self.turns:
            return f"<p>{repr(self)[1:-1]}</p>"
        heading, *rows = self._build_grid_of_cells_by_gifts()
        best = {turn.text for turn in self.best}
        head = "".join(f"<th>{text}</th>" for text in heading)
        body = "".join(
            f"<tr><th>{cell}</th>"
            + "".join(
                _render_bold_if_best(mark, f"{cell} {gift}".strip() in best)
                for gift, mark in zip(heading[1:], marks, strict=True)
            )
            + "</tr>"
            for cell, *marks in rows
        )
        table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        return "".join([f"<p>{repr(self)[1:-1]}</p>", table, *(f"<p>{line}</p>" for line in self._list_legends())])

    def _build_grid_of_cells_by_gifts(self) -> list[list[str]]:
        """Build a grid of marks (see ``format_mark``) with a row for each cell and a column for each gift.

        The first row is the heading; the rows of the cells follow, beginning with the best cell.
        """
        turns_by_cell = group_turns_by_cell_best_first(self.turns)
        gifts = sorted({turn.gift for turn in self.turns})  # NONE first: a placement that ends the game
        heading = ["", *("" if gift == NONE else format_piece(gift) for gift in gifts)]
        rows = [
            [
                "" if cell == NONE else format_cell(cell),
                *(format_mark(turns[gift]) if gift in turns else NO_TURN for gift in gifts),
            ]
            for cell, turns in turns_by_cell.items()
        ]
        return [heading, *rows]

    def _list_legends(self) -> list[str]:
        if not self.turns:
            return []
        marks = SHORT_LEGEND if self.distance is None else LEGEND
        return [f"rows: cells; columns: gifts, or pieces to place if the mover chooses; {marks}"]


def turn_sort_key(turn: SolvedTurn) -> tuple[int, int, int, int]:
    """Return a sort key that puts wins first (the soonest first), then draws, then losses (the soonest last).

    Turns that are equally good are sorted by cell and then by gift.
    """
    return *_value_sort_key(turn), turn.cell, turn.gift


def _value_sort_key(turn: SolvedTurn) -> tuple[int, int]:
    sign = turn.value or 1
    return -turn.value, sign * (turn.distance or 0)


def group_turns_by_cell_best_first(turns: Iterable[SolvedTurn]) -> Mapping[int, Mapping[int, SolvedTurn]]:
    """Group turns by cell and then by gift, with the best cell first and the best gift of each cell first.

    Cells are sorted by their best value, then by the soonest win or the latest loss. If two cells are still equal and
    that value is a win or a draw, the cell with more turns of that value comes first. Finally, cells are sorted by
    their number.
    """
    by_cell: dict[int, dict[int, SolvedTurn]] = {}
    for turn in sorted(turns, key=turn_sort_key):
        by_cell.setdefault(turn.cell, {})[turn.gift] = turn
    return dict(sorted(by_cell.items(), key=lambda item: _cell_sort_key([*item[1].values()])))


def _cell_sort_key(turns: Sequence[SolvedTurn]) -> tuple[int, ...]:
    best_value = max(turn.value for turn in turns)
    distances = [turn.distance or 0 for turn in turns if turn.value == best_value]
    soonest = min(distances) if best_value > 0 else -max(distances)
    return -best_value, soonest, -len(distances) if best_value >= 0 else 0, turns[0].cell


def format_mark(turn: SolvedTurn) -> str:
    """Format the value and the distance of a turn in at most three characters, as ``LEGEND`` explains."""
    if turn.value == 0:
        return "="
    return ("+" if turn.value > 0 else "-") + ("" if turn.distance is None else str(turn.distance))


def _format_value_and_distance(value: int, distance: int | None) -> str:
    text = f"value {value}, {_VALUE_NAMES[value]}"
    if distance is None:
        return text
    return f"{text} in {distance} placement{'' if distance == 1 else 's'}"


_VALUE_NAMES = {1: "won", 0: "drawn", -1: "lost"}


def _render_bold_if_best(mark: str, is_best: bool) -> str:
    return f"<td><strong>{mark}</strong></td>" if is_best else f"<td>{mark}</td>"
