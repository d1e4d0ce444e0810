"""A policy from a table that was learned elsewhere: positions, turns and their values.

The file has a row for each turn, with the columns ``position`` (a text; or ``plies``, the plies and the piece in hand),
``cell``, ``gift`` and ``value``. A turn leads to one afterstate, and symmetric afterstates are the same: rows of the
same afterstate with different values contradict each other.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, NamedTuple, cast

import numpy as np
import polars as pl
from numpy.typing import NDArray

from agents.learning.policy import Policy, mark_group_starts
from agents.policy import FITTED_Q, MC_AFTERSTATE, VALUE_COLUMNS
from analytics.store.files.local_files import LOCAL
from analytics.store.parquet.metadata import THIRD_PARTY_STORAGE, read_footer
from analytics.store.texts import format_count_with_noun
from quarto.batch import Batch
from quarto.canonical import canonical_forms
from quarto.errors import RequestError, suggest_valid_names
from quarto.notation import (
    CLASSIC_NAME,
    format_cell,
    format_piece,
    format_position,
    parse_cell,
    parse_game,
    parse_piece,
    parse_position,
)
from quarto.position import PackedPosition, position_from_plies
from quarto.rules import ATTRIBUTES, CELLS, NONE, PIECES, Rules
from quarto.symmetry import build_symmetries
from quarto.views import BatchView

POSITION, PLIES, CELL, GIFT, VALUE = "position", "plies", "cell", "gift", "value"
KINDS_WITH_COUNTS = (MC_AFTERSTATE, FITTED_Q)  # kinds whose rows say how many games or rows met the afterstate
CONFLICTS = ("refuse", "mean", "first")
TOLERANCE = 1e-9  # values that differ by less are one value, computed twice
EMPTY_TEXTS = ("", "-", "-1", "none", "null")  # texts that stand for no cell or no piece


@dataclass(frozen=True)
class ImportOptions:
    """The options for turning a table into a policy."""

    kind: str
    rules: Rules
    scale: float = 1.0  # factor that brings the values between -1 and 1
    conflicts: str = CONFLICTS[0]  # if a turn has different values: refuse, take their mean, or take the first row's


class ImportedPolicy(NamedTuple):
    """A policy that was read from a table, with counts of the table's rows and of its conflicts."""

    policy: Policy
    rows: int  # rows of the file
    skipped_rows: int  # rows left out: they finish a line, or place the last piece, where no value is read
    conflicts: int  # afterstates with different values
    example: str  # a sentence about the worst conflict


def read_policy_table(path: Path) -> pl.DataFrame:
    """Read the columns that make up a policy from a Parquet or CSV file.

    Raises ``RequestError`` for a file that cannot be read, has no rows, or lacks a column.
    """
    if path.suffix.lower() not in (".parquet", ".csv"):
        raise RequestError(f"{path} is neither a .parquet nor a .csv file")
    try:
        with LOCAL.open(path) as file:
            if path.suffix.lower() == ".parquet":
                read_footer(file, THIRD_PARTY_STORAGE)
                frame = pl.read_parquet(cast(IO[bytes], file))
            else:
                frame = pl.read_csv(cast(IO[bytes], file))
    except (OSError, ValueError, pl.exceptions.PolarsError) as error:
        reason = getattr(error, "strerror", None) or str(error).partition("\n")[0]
        raise RequestError(f"{path} cannot be read: {reason}") from error
    position_columns = [name for name in (POSITION, PLIES) if name in frame.columns]
    if len(position_columns) != 1:
        raise RequestError(
            f"{path} needs a column '{POSITION}' (...F/.3../..../.... 7) or '{PLIES}' (F@b1 3@c2 7), and has "
            f"{'both' if position_columns else 'neither'}; its columns: {', '.join(frame.columns)}"
        )
    for name in (CELL, GIFT, VALUE):
        if name not in frame.columns:
            raise RequestError(f"{path} has no column '{name}'{suggest_valid_names(name, frame.columns)}")
    if not len(frame):
        raise RequestError(f"{path} has no rows")
    return frame.select(*position_columns, CELL, GIFT, VALUE)


def parse_policy_table(frame: pl.DataFrame, options: ImportOptions) -> ImportedPolicy:
    """Parse a table into a policy; its values are multiplied by ``options.scale``.

    Raises ``RequestError`` for the first row with an impossible position, turn or value and, if ``options.conflicts``
    is ``refuse``, for rows that contradict each other. The message names the row, counted from 1.
    """
    values = _parse_and_multiply_values(frame, options.scale)
    batch = _parse_positions(frame, options.rules)
    cells = _parse_cells_or_pieces(frame[CELL], CELLS, parse_cell)
    gifts = _parse_cells_or_pieces(frame[GIFT], PIECES, parse_piece)
    winning = BatchView(batch, options.rules).winning_cells()
    wins = np.take_along_axis(winning, np.maximum(cells, 0)[:, None], axis=1)[:, 0] & (cells != NONE)
    _check_turns(batch, cells, gifts, wins, options.rules)
    is_read = ~wins & (gifts != NONE)
    read = np.flatnonzero(is_read)
    if not len(read):
        raise RequestError("every row finishes a line or places the last piece: no value is read there")
    chosen = BatchView(batch.select(is_read), options.rules)
    after = chosen.with_turns(cells[read], gifts[read]).packed
    forms = canonical_forms(after.lanes, after.occupied, after.hand, build_symmetries(options.rules))
    groups = _AfterstateGroups(*forms, values[read])
    example = _describe_worst_conflict(groups, read, frame, cells, gifts)
    if example and options.conflicts == "refuse":
        raise RequestError(
            f"different values, up to symmetry, of {format_count_with_noun(groups.conflicts, 'turn')}; "
            f"{example}: conflicts=mean takes their "
            "mean, conflicts=first the value of the first row"
        )
    return ImportedPolicy(_build_policy(groups, options), len(frame), len(frame) - len(read), groups.conflicts, example)


class _AfterstateGroups:
    """The rows of a table, grouped by afterstate.

    The groups are sorted by ``lanes`` and then by ``occupied``, like the rows of a policy.
    """

    def __init__(self, lanes: NDArray[np.uint64], occupied: NDArray[np.uint16], values: NDArray[np.float64]) -> None:
        signed, masks = lanes.view(np.int64), occupied.astype(np.int32)
        self.order = np.lexsort((np.arange(len(values)), masks, signed))  # rows of one afterstate in the file's order
        sorted_lanes, sorted_masks = signed[self.order], masks[self.order]
        self.starts = np.flatnonzero(mark_group_starts(sorted_lanes, sorted_masks))
        self.lanes, self.occupied = sorted_lanes[self.starts], sorted_masks[self.starts]
        self.values = values[self.order]
        self.counts = np.diff(np.append(self.starts, len(values)))
        self.spread = np.maximum.reduceat(self.values, self.starts) - np.minimum.reduceat(self.values, self.starts)

    @property
    def conflicts(self) -> int:
        """The number of afterstates whose rows have different values."""
        return int((self.spread > TOLERANCE).sum())

    def resolve_values_to_mean_or_first(self, conflicts: str) -> NDArray[np.float64]:
        """Return a value for each afterstate.

        It is the mean of the afterstate's rows if ``conflicts`` is ``mean``, and otherwise the value of its first row.
        """
        firsts = self.values[self.starts]
        if conflicts != "mean":
            return firsts
        means = np.add.reduceat(self.values, self.starts) / self.counts
        return np.where(self.spread > TOLERANCE, means, firsts)


def _build_policy(groups: _AfterstateGroups, options: ImportOptions) -> Policy:
    """Build the policy with a row for each afterstate.

    For the kinds in ``KINDS_WITH_COUNTS``, the column ``count`` has the number of table rows with the afterstate.
    """
    columns: dict[str, NDArray[Any]] = {"lanes": groups.lanes, "occupied": groups.occupied}
    if options.kind in KINDS_WITH_COUNTS:
        columns["count"] = groups.counts.astype(np.int64)
    columns[VALUE_COLUMNS[options.kind]] = groups.resolve_values_to_mean_or_first(options.conflicts)
    return Policy(options.kind, table=columns)


def _describe_worst_conflict(
    groups: _AfterstateGroups,
    row_numbers: NDArray[np.int64],
    frame: pl.DataFrame,
    cells: NDArray[np.int64],
    gifts: NDArray[np.int64],
) -> str:
    """Describe the two rows of one afterstate whose values differ most; return "" if no rows contradict each other.

    ``row_numbers`` maps each row of ``groups`` to the index of the same row in ``frame``, ``cells`` and ``gifts``.
    """
    if not groups.conflicts:
        return ""
    group = int(np.argmax(groups.spread))
    start = groups.starts[group]
    rows = slice(start, start + groups.counts[group])
    extremes = sorted((int(np.argmax(groups.values[rows])), int(np.argmin(groups.values[rows]))))
    texts = []
    for extreme in extremes:
        row = int(row_numbers[groups.order[rows][extreme]])
        cell = "" if cells[row] == NONE else f" {format_cell(int(cells[row]))}"
        turn = f"{frame.item(row, 0)}:{cell} {format_piece(int(gifts[row]))}"
        texts.append(f"row {row + 1} ({turn}) has {groups.values[rows][extreme]:g}")
    return f"the furthest apart: {texts[0]}, {texts[1]}"


def _parse_and_multiply_values(frame: pl.DataFrame, factor: float) -> NDArray[np.float64]:
    """Return the values, multiplied by ``factor``: [rows] float64.

    Raises ``RequestError`` if the column is not numeric, and for the first row whose product is not from -1 to 1.
    """
    column = frame[VALUE]
    if not column.dtype.is_numeric():
        raise RequestError(f"column '{VALUE}' holds {column.dtype}, not numbers")
    values = column.cast(pl.Float64).fill_null(np.nan).to_numpy() * factor
    _refuse_first_wrong_row(~np.isfinite(values), lambda row: f"value {column[row]} is not a finite number")
    largest = float(np.abs(values).max())
    _refuse_first_wrong_row(
        np.abs(values) > 1.0,
        lambda row: (
            f"value {values[row]:g} is not from -1 (a loss for the player who makes the turn) to 1 (a win); "
            f"scale={factor / largest:.4g} multiplies all values so that they are"
        ),
    )
    return np.asarray(values, np.float64)


def _parse_positions(frame: pl.DataFrame, rules: Rules) -> Batch:
    """Parse the position of each row; a text that occurs in several rows is parsed only once.

    Raises ``RequestError`` for the first row whose position is missing or wrong, or has a finished line.
    """
    name = frame.columns[0]
    column = frame[name]
    if column.dtype != pl.String:
        raise RequestError(f"column '{name}' holds {column.dtype}, not texts")
    if name == PLIES:
        column = column.fill_null("")  # how a CSV file writes that nothing was played
    _refuse_first_wrong_row(column.is_null().to_numpy(), lambda _row: "the position is missing")
    texts = column.unique(maintain_order=True)
    numbers = column.replace_strict(texts, np.arange(len(texts))).to_numpy()
    positions = list[PackedPosition]()
    for number, text in enumerate(texts.to_list()):
        try:
            positions.append(_parse_plies(text) if name == PLIES else _parse_position_text(text, rules.name))
        except RequestError as error:
            raise RequestError(f"row {int(np.argmax(numbers == number)) + 1}: {error}") from error
    batch = Batch.from_positions(positions)
    _check_no_finished_line(batch, rules, lambda number: int(np.argmax(numbers == number)))
    return Batch(*(field[numbers] for field in batch))


def _parse_position_text(text: str, rules_name: str) -> PackedPosition:
    """Parse a position from its text; the text may name its rules.

    Raises ``RequestError`` if the text names rules other than ``rules_name``.
    """
    position, name = parse_position(text)
    if name not in (rules_name, CLASSIC_NAME):
        raise RequestError(f"position {text!r} is one of rules '{name}', not of rules '{rules_name}': rules={name}")
    return position


def _parse_plies(text: str) -> PackedPosition:
    """Parse a list of plies to the position after them.

    If the last item of the text has no cell, as the ``7`` in ``F@b1 3@c2 7``, it is the piece in hand.
    """
    words, hand = text.split(), NONE
    if words and "@" not in words[-1]:
        hand = parse_piece(words.pop())
    plies = parse_game(" ".join(words))
    if any(piece == hand for piece, _ in plies):
        raise RequestError(f"the piece in hand, {format_piece(hand)}, was placed before (plies {text!r})")
    return position_from_plies(plies, hand)


def _check_no_finished_line(batch: Batch, rules: Rules, find_row: Any) -> None:
    """Raise ``RequestError`` for the first position of a batch that has a finished line.

    ``find_row`` takes the index of a position, and returns the index of the first table row with this position.
    """
    finished = np.zeros(len(batch.lanes), np.bool_)
    for line in rules.lines:
        mask = np.uint16(sum(1 << cell for cell in line))
        full = batch.occupied & mask == mask
        for attribute in range(ATTRIBUTES):
            lane = (batch.lanes >> np.uint64(CELLS * attribute)).astype(np.uint16) & mask
            finished |= full & ((lane == mask) | (lane == 0))
    if finished.any():
        number = int(np.argmax(finished))
        raise RequestError(
            f"row {find_row(number) + 1}: a line is finished in {format_position(batch.position(number))} under rules "
            f"'{rules.name}', so there is no turn"
        )


def _parse_cells_or_pieces(column: pl.Series, count: int, parse: Any) -> NDArray[np.int64]:
    """Parse a column of cells or pieces, given as numbers below ``count`` or as texts: [rows] int64, NONE if empty.

    ``parse`` turns a text into a number. Raises ``RequestError`` if the column holds neither whole numbers nor texts,
    and for the first row whose value is neither empty nor a valid cell or piece.
    """
    if column.dtype.is_integer():
        numbers = column.cast(pl.Int64).fill_null(NONE).to_numpy()
        _refuse_first_wrong_row(
            (numbers < NONE) | (numbers >= count), lambda row: f"{column.name} {column[row]} is not in 0..{count - 1}"
        )
        return np.asarray(numbers, np.int64)
    if column.dtype == pl.Null:
        return np.full(len(column), NONE, np.int64)
    if column.dtype != pl.String:
        raise RequestError(f"column '{column.name}' holds {column.dtype}, neither whole numbers nor texts")
    by_text: dict[str | None, int] = {None: NONE}
    for text in column.unique().drop_nulls().to_list():
        try:
            by_text[text] = NONE if text.strip().lower() in EMPTY_TEXTS else parse(text)
        except RequestError as error:
            row = int((column == text).arg_max() or 0)
            raise RequestError(f"row {row + 1}: {error}") from error
    return np.fromiter((by_text[text] for text in column.to_list()), np.int64, len(column))


def _check_turns(
    batch: Batch, cells: NDArray[np.int64], gifts: NDArray[np.int64], wins: NDArray[np.bool_], rules: Rules
) -> None:
    """Raise ``RequestError`` for the first row whose turn is impossible.

    A turn needs a gift unless its placement finishes a line, as ``wins`` says, or no piece is left.
    """
    hand, available = batch.hand != NONE, batch.available.astype(np.int64)

    def describe_position(row: int) -> str:
        return f"in {format_position(batch.position(row), rules.name)}"

    filled = batch.occupied.astype(np.int64) >> np.maximum(cells, 0) & 1 == 1
    _refuse_first_wrong_row(
        hand & (cells == NONE), lambda row: f"no cell for the piece in hand {describe_position(row)}"
    )
    _refuse_first_wrong_row(
        ~hand & (cells != NONE),
        lambda row: f"cell {format_cell(int(cells[row]))}, and no piece in hand {describe_position(row)}",
    )
    _refuse_first_wrong_row(
        hand & filled, lambda row: f"cell {format_cell(int(cells[row]))} is not empty {describe_position(row)}"
    )
    _refuse_first_wrong_row((gifts == NONE) & (available != 0) & ~wins, lambda row: f"no gift {describe_position(row)}")
    taken = (gifts != NONE) & (available >> np.maximum(gifts, 0) & 1 == 0)
    _refuse_first_wrong_row(
        taken, lambda row: f"piece {format_piece(int(gifts[row]))} is not among those left {describe_position(row)}"
    )


def _refuse_first_wrong_row(is_wrong: NDArray[np.bool_], describe_row: Any) -> None:
    """Raise ``RequestError`` for the first row that ``is_wrong`` marks; ``describe_row`` gives the reason for it."""
    if is_wrong.any():
        row = int(np.argmax(is_wrong))
        raise RequestError(f"row {row + 1}: {describe_row(row)}")
