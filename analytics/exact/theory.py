"""The text of docs/theory.md: counts, examples and first turns, computed from tablebases."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from importlib.resources import files
from typing import Any, NamedTuple

import numpy as np
from numba import types
from numpy.typing import NDArray

from analytics.exact.tablebase import VALUES, Tablebase, read_tablebase
from quarto.bits import lowest_bit
from quarto.canonical import board_key, canonical_lanes_and_occupied, canonical_position, orbit_size
from quarto.jit import int64, kernel
from quarto.notation import format_position
from quarto.perft import decode_board_keys
from quarto.position import ALL_PIECES, EMPTY, PackedPosition, board_piece_mask, position_from_plies
from quarto.rules import NONE, PIECES, Rules
from quarto.solver.solver import Solver, solve_value
from quarto.solver.table import RULES_TYPE, SEARCH_TYPE
from quarto.symmetry import SYMMETRIES_TYPE, build_symmetries

VALUE_WORDS = {1: "won", 0: "drawn", -1: "lost"}


class ValueCounts(NamedTuple):
    """The numbers of won, drawn and lost boards or positions with the same number of pieces."""

    canonical: tuple[int, ...]
    every: tuple[int, ...]  # each canonical one counted once for each of its images


class GameProof(NamedTuple):
    """The proven value of a whole game from its start, and the effort that the proof took."""

    rules: str
    lines: int
    symmetries: int  # of the cells
    value: int  # 1, 0 or -1 for the player who acts first
    positions: int  # searched
    seconds: int  # of a processor


class TablebaseStatistics(NamedTuple):
    """Counts of boards and positions by value, with examples, from one tablebase."""

    rules: Rules
    boards: list[ValueCounts]  # by pieces
    positions: list[ValueCounts]  # by pieces on the board; none where the mover chooses
    examples: dict[str, str]  # 'board won' -> the first such board in notation
    turns: list[FirstTurns]  # first turns up to symmetry: an example, how many turns, their value


@kernel(types.void(types.uint64[::1], types.uint16[::1], types.int64[::1], SYMMETRIES_TYPE))
def _fill_orbit_sizes(lanes: Any, occupied: Any, images: Any, tables: Any) -> None:
    """Fill ``images`` [B] with the number of distinct images of each of ``B`` canonical boards under the symmetries."""
    for i in range(len(lanes)):
        images[i] = orbit_size(lanes[i], int64(occupied[i]), int64(NONE), tables)


POSITIONS_SIGNATURE = types.int64(
    *(types.uint64[::1], types.uint16[::1], types.uint64[::1], types.int8[::1], types.int64[::1]),
    *(RULES_TYPE, SEARCH_TYPE, SYMMETRIES_TYPE),
)


@kernel(POSITIONS_SIGNATURE)
def _fill_position_after_each_gift(
    lanes: Any, occupied: Any, keys: Any, values: Any, sources: Any, rules: Any, search: Any, tables: Any
) -> int:
    """For each gift on each board, fill in the key, the value and the source of the resulting position.

    Returns the number of positions. There are ``B`` boards. ``keys``, ``values`` and ``sources`` are arrays [16 B]. The
    source of a position is the index of its board. Symmetric positions are not merged.
    """
    count = int64(0)
    for i in range(len(lanes)):
        filled = int64(occupied[i])
        available = ALL_PIECES & ~board_piece_mask(lanes[i], filled)
        gifts = available
        while gifts:
            gift = lowest_bit(gifts)
            gifts &= gifts - 1
            least, minimal = canonical_lanes_and_occupied(lanes[i], filled, gift, tables)
            keys[count], sources[count] = board_key(least, minimal, tables), i
            values[count] = solve_value(lanes[i], filled, available & ~(int64(1) << gift), gift, rules, search)
            count += 1
    return count


def compute_statistics(tablebase: Tablebase, max_pieces: int | None = None) -> TablebaseStatistics:
    """Compute the counts and examples of a tablebase.

    With ``max_pieces``, only the boards with up to that many pieces are counted. Raises ``FailureError`` if the
    tablebase is damaged.
    """
    rules, card, table = tablebase.rules, tablebase.card, read_tablebase(tablebase)
    largest = card.pieces if max_pieces is None else min(max_pieces, card.pieces)
    solver = Solver(rules, 1.0, table.to_tablebase_index(largest))
    examples: dict[str, str] = {}
    boards, positions = [], []
    for pieces, part in enumerate(card.layer_slices[: largest + 1]):
        lanes, occupied = decode_board_keys(table.keys[part], rules)
        images = np.empty(len(lanes), np.int64)
        _fill_orbit_sizes(lanes, occupied, images, build_symmetries(rules))
        boards.append(_count_values(table.values[part], images))
        _add_missing_example_of_each_value(examples, "board", table.keys[part], table.values[part], rules)
        if pieces < largest and not rules.mover_chooses:
            keys, values, sources = solve_position_after_each_available_gift(solver, lanes, occupied)
            every = _count_values(values, images[sources]).every
            keys, first = np.unique(keys, return_index=True)
            positions.append(ValueCounts(_count_values(values[first], np.ones(len(keys), np.int64)).canonical, every))
            _add_missing_example_of_each_value(examples, "position", keys, values[first], rules)
    return TablebaseStatistics(
        rules, boards, positions, examples, list_first_turns_up_to_symmetry(solver) if largest > 1 else []
    )


def _count_values(values: NDArray[np.int8], images: NDArray[np.int64]) -> ValueCounts:
    canonical_ones = tuple(int((values == value).sum()) for value in VALUES)
    return ValueCounts(canonical_ones, tuple(int(images[values == value].sum()) for value in VALUES))


class SolvedPositions(NamedTuple):
    """Positions with a piece in hand, their values, and the boards that they come from; all [P]."""

    keys: NDArray[np.uint64]  # canonical
    values: NDArray[np.int8]
    board_index: NDArray[np.int64]  # of the board before the gift


def solve_position_after_each_available_gift(
    solver: Solver, lanes: NDArray[np.uint64], occupied: NDArray[np.uint16]
) -> SolvedPositions:
    """Solve the position after each gift on each of ``B`` boards; symmetric positions are not merged."""
    keys = np.empty(PIECES * len(lanes), np.uint64)
    values, sources = np.empty(len(keys), np.int8), np.empty(len(keys), np.int64)
    count = _fill_position_after_each_gift(
        lanes, occupied, keys, values, sources, *solver.state, build_symmetries(solver.rules)
    )
    return SolvedPositions(keys[:count], values[:count], sources[:count])


def _add_missing_example_of_each_value(
    examples: dict[str, str], kind: str, keys: NDArray[np.uint64], values: NDArray[np.int8], rules: Rules
) -> None:
    """Add to ``examples`` the first board or position of each value that has no example yet.

    ``kind`` is ``board`` or ``position``.
    """
    for value, word in VALUE_WORDS.items():
        rows = np.flatnonzero(values == value)[:1]
        if len(rows) and f"{kind} {word}" not in examples:
            lanes, occupied = decode_board_keys(keys[rows], rules)
            hand = NONE if kind == "board" else 0
            position = EMPTY._replace(
                lanes=int(lanes[0]), occupied=int(occupied[0]), hand=hand
            )  # all that its text shows
            examples[f"{kind} {word}"] = format_position(position, rules.name)


class FirstTurns(NamedTuple):
    """A group of first turns that are equivalent under the symmetries of the rules."""

    example: str  # position after one of them, in notation
    turn_count: int
    value: int  # for the mover


def list_first_turns_up_to_symmetry(solver: Solver) -> list[FirstTurns]:
    """List the groups of equivalent first turns, the best for the mover first.

    The first gift is always piece 0, and a first turn places it and gives another piece. If the mover chooses the
    piece, there is no first gift: a first turn chooses a piece and places it on the empty board.
    """
    rules = solver.rules
    start = EMPTY if rules.mover_chooses else position_from_plies([], 0)
    by_form: dict[PackedPosition, FirstTurns] = {}
    for turn in solver.turns(start, distance=False):
        piece, hand = (turn.gift, NONE) if rules.mover_chooses else (0, turn.gift)
        after = position_from_plies([(piece, turn.cell)], hand)
        form = canonical_position(after, rules)
        turns = by_form.get(form, FirstTurns(format_position(after, rules.name), 0, turn.value))
        by_form[form] = turns._replace(turn_count=turns.turn_count + 1)
    return sorted(by_form.values(), key=lambda turns: -turns.value)


def render_theory_page(tablebases: Sequence[Tablebase]) -> str:
    """Render the Markdown page of theoretical results from these tablebases, one for each rule set."""
    page = (files("analytics.exact") / "theory_page.md").read_text(encoding="utf-8")
    games, sections = (
        map(_render_proof_row, read_proofs()),
        ("\n".join(_render_section(compute_statistics(tablebase))) for tablebase in tablebases),
    )
    return page.format(games="\n".join(games), sections="\n".join(sections))


def read_proofs() -> list[GameProof]:
    """Read the proven values of whole games from ``proofs.csv``."""
    text = (files("analytics.exact") / "proofs.csv").read_text(encoding="utf-8")
    rows = csv.DictReader(text.splitlines())
    return [GameProof(row.pop("rules"), **{name: int(value) for name, value in row.items()}) for row in rows]


def _render_proof_row(proof: GameProof) -> str:
    counts = f"{proof.lines} | {proof.symmetries} | {VALUE_WORDS[proof.value]} | {proof.positions:,} | {proof.seconds}"
    return f"| {proof.rules} | {counts} |"


def _render_section(statistics: TablebaseStatistics) -> Iterator[str]:
    start = VALUES[statistics.boards[0].canonical.index(1)]
    first = "player who moves first" if statistics.rules.mover_chooses else "first giver"
    yield f"## {statistics.rules.name}\n"
    yield f"The game is {VALUE_WORDS[start]} for the {first}.\n"
    yield from _render_counts("Boards", statistics.boards)
    if statistics.positions:
        yield from _render_counts("Positions", statistics.positions)
    yield from _render_first_turns(statistics)
    yield "Examples with the fewest pieces:\n"
    for kind, example in statistics.examples.items():
        yield f"- {kind}: `{example}`"
    yield ""


def _render_counts(title: str, counts: Sequence[ValueCounts]) -> Iterator[str]:
    yield f"| {title} with pieces | canonical | won | drawn | lost | all | won % | drawn % | lost % |"
    yield "|---|" + "---:|" * 8
    for pieces, count in enumerate(counts):
        canonical_ones = " | ".join(f"{number:,}" for number in (sum(count.canonical), *count.canonical))
        shares = " | ".join(f"{100 * number / sum(count.every):.3f}" for number in count.every)
        yield f"| {pieces} | {canonical_ones} | {sum(count.every):,} | {shares} |"
    yield ""


def _render_first_turns(statistics: TablebaseStatistics) -> Iterator[str]:
    if not statistics.turns:
        return
    turns = "The first turns" if statistics.rules.mover_chooses else "The first turns after the gift of piece 0"
    yield f"{turns}, up to symmetry:\n"
    yield "| position after the turn | turns | value for the mover |"
    yield "|---|---:|---|"
    for example, times, value in statistics.turns:
        yield f"| `{example}` | {times} | {VALUE_WORDS[value]} |"
    yield ""
