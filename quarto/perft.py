"""Exact counts of games and boards, ply by ply, and what they say about random play.

Method: forward expansion of canonical live boards, each with the number of game prefixes that lead to its orbit. The
mask of a child follows from its parent's mask and the cell alone, so the children are made one canonical mask at a
time. Each mask has a small exact table of its own, and no child is merged twice. (Chess programs prove their move
generation by node counts and call the test perft.)

In random play the piece and the cell of every ply are uniform over those that are left, whichever player chooses them.
So all sequences of plies are equally likely, and a share of games is a share of sequences, which ``perft`` counts. The
counts for the ten lines of the classic rules come from inclusion and exclusion over sets of lines. Tests count again
the plies that ``perft`` can reach, and check the other counts against each other.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from quarto.bits import piece_to_lanes
from quarto.canonical import board_key, canonical_lanes_and_occupied, decode_board_key
from quarto.errors import RequestError
from quarto.jit import inline_function, int64, kernel, uint64
from quarto.position import ALL_PIECES, board_piece_mask
from quarto.rules import CELLS, CLASSIC, NONE, PIECES, Rules, has_finished_line_at
from quarto.symmetry import Symmetries, build_symmetries

MAX_PLIES = 7
SMALLEST_TABLE = 1 << 10  # entries; a power of two, as all tables
HASH_MULTIPLIER = uint64(0x9E37_79B9_7F4A_7C15)  # odd, near 2^64 / golden ratio (Knuth's multiplicative hashing)


class PerftLayer(NamedTuple):
    """The counts of games and boards after ``ply`` plies, as Python integers."""

    ply: int
    live_prefixes: int  # sequences of ``ply`` plies without a finished line
    games_won: int  # games that ply number ``ply`` wins
    canonical_boards: int  # boards up to symmetry that play reaches, with or without a finished line
    canonical_live_boards: int  # the canonical boards that have no finished line


class CanonicalBoards(NamedTuple):
    """The ``N`` canonical boards without a finished line after a given number of plies.

    Boards with the same canonical mask are adjacent.
    """

    lanes: NDArray[np.uint64]  # [N]
    ways: NDArray[np.uint64]  # [N] live prefixes that lead to the orbit of the board
    slices: dict[int, tuple[int, int]]  # canonical mask -> (first board, end) of its boards


def perft(rules: Rules, plies: int) -> list[PerftLayer]:
    """Count games and boards after each number of plies from 0 to ``plies``, and return a layer for each number.

    On one thread, under classic rules, 6 plies take two seconds and 7 plies take half a minute. Raises ``RequestError``
    if ``plies`` is negative or greater than ``MAX_PLIES``.
    """
    if plies < 0:
        raise RequestError(f"plies={plies} is negative: ask for 0 to {MAX_PLIES} plies")
    if plies > MAX_PLIES:
        raise RequestError(
            f"plies={plies} is too many: ask for {MAX_PLIES} at most, because the live boards after {MAX_PLIES} plies "
            "(51 million up to symmetry under classic rules) would not fit in 1 GiB of memory to go on from"
        )
    boards, layers = build_empty_layer(), [PerftLayer(0, 1, 0, 1, 1)]
    for ply in range(1, plies + 1):
        layer, boards = count_next_layer(rules, boards, ply, is_last=ply == plies)
        layers.append(layer)
    return layers


def build_empty_layer() -> CanonicalBoards:
    """Build the layer of 0 plies, which has only the empty board."""
    return CanonicalBoards(np.zeros(1, np.uint64), np.ones(1, np.uint64), {0: (0, 1)})


class CountedLayer(NamedTuple):
    """The counts after a given number of plies, and the canonical boards without a finished line."""

    counts: PerftLayer
    boards: CanonicalBoards


def count_next_layer(rules: Rules, parents: CanonicalBoards, ply: int, is_last: bool) -> CountedLayer:
    """Count the games and boards after ``ply`` plies, and build the boards without a finished line.

    ``parents`` are the boards one ply earlier. If ``is_last``, no boards are built: no later layer needs them, and they
    might not fit into memory.
    """
    lanes, ways, slices = [np.empty(0, np.uint64)], [np.empty(0, np.uint64)], {}
    live_prefixes = games_won = won_boards = live_boards = 0
    tables = build_symmetries(rules)
    for mask, sources in _group_parent_ranges_by_child_mask(parents, tables).items():
        child_lanes, child_ways, won, won_ways = _generate_children(
            parents.lanes, parents.ways, sources, rules.tables, tables
        )
        if not is_last:
            slices[mask] = (live_boards, live_boards + len(child_lanes))
            lanes.append(child_lanes)
            ways.append(child_ways)
        live_boards += len(child_lanes)
        won_boards += won
        live_prefixes += int(child_ways.sum())
        games_won += int(won_ways)
    layer = PerftLayer(ply, live_prefixes, games_won, live_boards + won_boards, live_boards)
    return CountedLayer(layer, CanonicalBoards(np.concatenate(lanes), np.concatenate(ways), slices))


def _group_parent_ranges_by_child_mask(parents: CanonicalBoards, tables: Symmetries) -> dict[int, NDArray[np.int64]]:
    """Group ranges of parent boards by the canonical mask that their children have after a placement on one cell.

    Returns an array [R, 4] for each canonical mask of children. Each row describes a range of parents with the same
    canonical mask: the index of its first parent, the index after its last parent, that mask, and the cell of the
    placement.
    """
    sources: dict[int, list[tuple[int, int, int, int]]] = {}
    for mask, (first, end) in parents.slices.items():
        for cell in range(CELLS):
            if not mask >> cell & 1:
                sources.setdefault(int(tables.minimal[mask | 1 << cell]), []).append((first, end, mask, cell))
    return {mask: np.array(rows, np.int64) for mask, rows in sorted(sources.items())}


class ChildBoards(NamedTuple):
    """Child boards, one for each class of symmetric boards, with the number of ways to reach each.

    A way is a sequence of plies. Of the boards with a finished line, only the totals are kept.
    """

    live_lanes: NDArray[np.uint64]  # [L] boards without a finished line
    live_ways: NDArray[np.uint64]  # [L]
    won_count: int
    won_ways: int


@kernel()
def _generate_children(
    lanes: NDArray[np.uint64], ways: NDArray[np.uint64], sources: NDArray[np.int64], rules: Any, tables: Symmetries
) -> ChildBoards:
    """Generate the children of the parents in ``sources``, and merge children that are equal up to symmetry.

    ``lanes`` and ``ways`` have one entry for each parent: see ``CanonicalBoards``. ``sources`` is one of the arrays
    that ``_group_parent_ranges_by_child_mask`` returns.
    """
    live = np.empty(SMALLEST_TABLE, np.uint64), np.zeros(SMALLEST_TABLE, np.uint64)
    won = np.empty(SMALLEST_TABLE, np.uint64), np.zeros(SMALLEST_TABLE, np.uint64)
    live_count = won_count = 0
    for source in range(sources.shape[0]):
        first, end, mask, cell = sources[source]
        occupied = mask | int64(1) << cell
        for parent in range(first, end):
            unused = ALL_PIECES & ~board_piece_mask(lanes[parent], mask)
            for piece in range(PIECES):
                if not unused >> piece & 1:
                    continue
                child = lanes[parent] | piece_to_lanes(piece) << uint64(cell)
                least, _ = canonical_lanes_and_occupied(child, occupied, NONE, tables)
                if has_finished_line_at(child, occupied, piece, cell, rules):
                    won_count += _add_ways(won, least, ways[parent])
                    won = _ensure_room(won, won_count)
                else:
                    live_count += _add_ways(live, least, ways[parent])
                    live = _ensure_room(live, live_count)
    used = live[1] != 0
    return ChildBoards(live[0][used], live[1][used], won_count, won[1].sum())


@inline_function
def _add_ways(table: tuple[NDArray[np.uint64], NDArray[np.uint64]], lanes: int, ways: int) -> int:
    """Add ``ways`` to the entry of ``lanes`` in an open-addressed table; return 1 if the entry is new, else 0.

    The table is (lanes, ways), and a slot with 0 ways is free.
    """
    last = uint64(table[0].shape[0] - 1)
    word = (lanes ^ (lanes >> uint64(32))) * HASH_MULTIPLIER
    slot = (word ^ (word >> uint64(32))) & last
    while table[1][slot] != 0 and table[0][slot] != lanes:
        slot = (slot + uint64(1)) & last
    new = int64(table[1][slot] == 0)
    table[0][slot] = lanes
    table[1][slot] += ways
    return new


@inline_function
def _ensure_room(
    table: tuple[NDArray[np.uint64], NDArray[np.uint64]], count: int
) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """Return the table itself, or a table of twice the size if ``count`` entries fill more than half of it.

    The larger table has the same entries.
    """
    size = table[0].shape[0]
    if 2 * count <= size:
        return table
    larger = np.empty(2 * size, np.uint64), np.zeros(2 * size, np.uint64)
    for slot in range(size):
        if table[1][slot] != 0:
            _add_ways(larger, table[0][slot], table[1][slot])
    return larger


def generate_key_layers(rules: Rules, pieces: int) -> Iterator[NDArray[np.uint64]]:
    """Yield, for each number of pieces from 0 to ``pieces``, the keys of all canonical boards without a finished line.

    Each layer is an ascending array of keys (``board_key``), [N] uint64. As in ``perft``, the boards of a layer are
    generated from those of the layer before. Under classic rules, 6 pieces take some seconds and 150 MB.
    """
    boards = build_empty_layer()
    yield _compute_sorted_keys(rules, boards)
    for ply in range(1, pieces + 1):
        _, boards = count_next_layer(rules, boards, ply, is_last=False)
        yield _compute_sorted_keys(rules, boards)


def _compute_sorted_keys(rules: Rules, boards: CanonicalBoards) -> NDArray[np.uint64]:
    keys = np.empty(len(boards.lanes), np.uint64)
    for mask, (first, end) in boards.slices.items():
        _fill_keys(boards.lanes[first:end], mask, keys[first:end], build_symmetries(rules))
    keys.sort()
    return keys


@kernel()
def _fill_keys(lanes: NDArray[np.uint64], occupied: int, keys: NDArray[np.uint64], tables: Symmetries) -> None:
    for i in range(lanes.shape[0]):
        keys[i] = board_key(lanes[i], int64(occupied), tables)


def decode_board_keys(keys: NDArray[np.uint64], rules: Rules) -> tuple[NDArray[np.uint64], NDArray[np.uint16]]:
    """Return the boards that have these keys, as their lanes and their occupied cells, [N] each."""
    return _decode_boards(keys, build_symmetries(rules))


@kernel()
def _decode_boards(keys: NDArray[np.uint64], tables: Symmetries) -> tuple[NDArray[np.uint64], NDArray[np.uint16]]:
    lanes, occupied = np.empty(keys.shape[0], np.uint64), np.empty(keys.shape[0], np.uint16)
    for i in range(keys.shape[0]):
        lanes[i], occupied[i] = decode_board_key(keys[i], tables)
    return lanes, occupied


# Sequences of 0 to 16 plies after which no line is finished: entry k is the number of sequences of k plies.
CLASSIC_LIVE_PREFIXES = (
    1,
    256,
    57_600,
    11_289_600,
    1_904_855_040,
    272_520_806_400,
    32_437_075_968_000,
    3_136_813_961_379_840,
    239_252_459_187_732_480,
    13_864_726_403_741_122_560,
    582_039_311_690_524_262_400,
    16_637_779_212_451_813_785_600,
    298_205_956_844_805_213_388_800,
    2_991_826_538_539_144_917_811_200,
    14_287_655_705_878_169_911_296_000,
    24_838_669_974_296_232_198_144_000,
    8_668_272_956_303_674_441_728_000,
)


def undecided_probabilities(rules: Rules) -> tuple[Fraction, ...] | None:
    """Return, for each n from 0 to 16, the probability that nobody has won a random game after n plies.

    The last one is the probability of a draw. Returns None for rules whose lines are not the classic ones.
    """
    if set(rules.lines) != set(CLASSIC.lines):
        return None
    shares, sequences = [], 1
    for plies, live in enumerate(CLASSIC_LIVE_PREFIXES):
        shares.append(Fraction(live, sequences))
        sequences *= (CELLS - plies) * (PIECES - plies)
    return tuple(shares)


def length_probabilities(rules: Rules) -> tuple[Fraction, ...] | None:
    """Return the probabilities that a random game ends after exactly 0 to 16 plies: 17 fractions.

    A game ends when it is won or, after the last ply, drawn. Returns None for rules whose lines are not the classic
    ones.
    """
    live = undecided_probabilities(rules)
    if live is None:
        return None
    return (Fraction(0), *(before - after for before, after in pairwise((*live[:-1], Fraction(0)))))
