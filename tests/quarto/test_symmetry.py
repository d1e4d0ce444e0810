from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from numba import types
from numpy.typing import NDArray

from quarto.canonical import (
    LARGEST_KEY_BOARD,
    PIECE_SYMMETRIES,
    Transform,
    board_key,
    canonical_forms,
    canonical_position,
    canonical_transform,
    decode_board_key,
    map_cell,
    map_piece,
    orbit_size,
)
from quarto.jit import kernel, uint64
from quarto.position import ALL_PIECES, PackedPosition, board, board_piece_mask, position_from_plies
from quarto.rules import CLASSIC, DIAGONALS, SQUARES, Rules
from quarto.symmetry import MAX_SYMMETRIES, SYMMETRIES_TYPE, Symmetries, build_symmetries
from tests.marks import seldom
from tests.naive import NONE, PRESETS, Board, lines
from tests.naive_quarto import (
    ATTRIBUTE_ORDERS,
    ORACLES,
    automorphisms,
    build_lanes,
    change_piece,
    images,
    least_image,
    positions,
    preset_rules,
    sharing_sets,
)

OTHER_RULES = [
    Rules("other", straight, diagonals, squares)
    for straight, diagonals, squares in product((True, False), DIAGONALS, SQUARES)
    if straight or diagonals != "none" or squares != "none"
]


# Rules with so many symmetries that those of the torus are used.
WITHOUT_STRAIGHT = [
    Rules("two lines", rows_and_columns=False),
    Rules("eight", rows_and_columns=False, diagonals="broken"),
]


def permutations_of(rules: Rules) -> list[list[int]]:
    permutations: list[list[int]] = build_symmetries(rules).cells.tolist()
    return permutations


def position_of(pieces: Board, hand: int) -> PackedPosition:
    return position_from_plies(((piece, cell) for cell, piece in enumerate(pieces) if piece != NONE), hand)


@kernel(types.NamedUniTuple(types.int64, 3, Transform)(types.uint64, types.int64, types.int64, SYMMETRIES_TYPE))
def typed_transform(lanes: int, occupied: int, hand: int, tables: Symmetries) -> Transform:
    return canonical_transform(lanes, occupied, hand, tables)


def transform_of(position: PackedPosition, rules: Rules) -> Transform:
    transform = typed_transform(uint64(position.lanes), position.occupied, position.hand, build_symmetries(rules))
    return Transform(*map(int, transform))


# The group


def test_group_sizes_of_the_presets() -> None:
    oracle = ORACLES["symmetries"]
    sizes = {name: len(build_symmetries(rules).cells) for name, rules in PRESETS.items()}
    assert sizes == {
        "classic": oracle["cells"],
        "square": oracle["cells_square_rules"],
        "torus": oracle["cells_torus_rules"],
        "torus_square": 128,
        "own_piece": oracle["cells"],
    }
    assert oracle["cells"] * PIECE_SYMMETRIES == oracle["all"]
    assert [len(build_symmetries(rules).cells) for rules in WITHOUT_STRAIGHT] == [16, 128]


@pytest.mark.slow
def test_pieces_have_no_symmetry_beyond_xor_and_exchange_of_attributes() -> None:
    family = {sum(1 << piece for piece in four) for four in sharing_sets()}
    changes = {tuple(change_piece(p, xor, order) for p in range(16)) for xor in range(16) for order in ATTRIBUTE_ORDERS}
    assert len(changes) == PIECE_SYMMETRIES == ORACLES["symmetries"]["pieces"] == 16 * automorphisms(family, range(16))
    for change in changes:
        assert {sum(1 << change[piece] for piece in four) for four in sharing_sets()} == family


@pytest.mark.parametrize("rules", [*OTHER_RULES[::4], *WITHOUT_STRAIGHT, *seldom(*OTHER_RULES)], ids=str)
def test_cell_symmetries_of_any_rules_are_a_group_that_keeps_the_lines(rules: Rules) -> None:
    group = permutations_of(rules)
    line_sets = {frozenset(line) for line in lines(rules)}
    assert group[0] == list(range(16))
    assert 8 <= len(group) <= MAX_SYMMETRIES
    everything = {tuple(cells) for cells in group}
    assert len(everything) == len(group)
    for cells in group:
        assert {frozenset(cells[cell] for cell in line) for line in line_sets} == line_sets
    for first, second in zip(group, reversed(group), strict=True):
        assert tuple(first[second[cell]] for cell in range(16)) in everything
        assert tuple(first[first[cell]] for cell in range(16)) in everything


# Canonical forms


@settings(max_examples=30)
@given(positions(16), preset_rules)
def test_the_canonical_form_is_the_least_of_all_images(position: PackedPosition, rules: Rules) -> None:
    form = canonical_position(position, rules)
    assert (form.occupied, form.lanes) == least_image(board(position), position.hand, permutations_of(rules))


@given(positions(16), preset_rules)
def test_a_canonical_form_is_a_position_with_hand_0_or_a_board(position: PackedPosition, rules: Rules) -> None:
    form = canonical_position(position, rules)
    assert form == position_of(board(form), NONE if position.hand == NONE else 0)._replace(last_cell=NONE)
    on_board = board_piece_mask(uint64(form.lanes), form.occupied)
    assert form.available == ALL_PIECES & ~(int(on_board) | int(form.hand == 0))


@given(positions(16), preset_rules)
def test_the_transform_takes_the_position_to_its_form(position: PackedPosition, rules: Rules) -> None:
    transform, tables = transform_of(position, rules), build_symmetries(rules)
    pieces, form = board(position), board(canonical_position(position, rules))
    for cell in range(16):
        mapped = map_cell(cell, transform, tables)
        if pieces[cell] == NONE:
            assert form[mapped] == NONE
        else:
            assert form[mapped] == map_piece(pieces[cell], transform)
    assert sorted(map_cell(cell, transform, tables) for cell in range(16)) == list(range(16))
    assert sorted(map_piece(piece, transform) for piece in range(16)) == list(range(16))
    if position.hand != NONE:
        assert map_piece(position.hand, transform) == 0


# Keys and orbits


@given(positions(LARGEST_KEY_BOARD), preset_rules)
def test_keys_give_the_board_back_and_fit_their_bits(position: PackedPosition, rules: Rules) -> None:
    form, tables = canonical_position(position, rules), build_symmetries(rules)
    key = board_key(uint64(form.lanes), form.occupied, tables)
    assert decode_board_key(uint64(key), tables) == (form.lanes, form.occupied)
    assert 0 <= int(key) < 1 << (14 + 4 * form.occupied.bit_count())


@pytest.mark.slow
@settings(max_examples=12, deadline=None)
@given(positions(16))
def test_orbit_size_is_the_number_of_different_images(position: PackedPosition) -> None:
    square = PRESETS["square"]
    orbit = orbit_size(uint64(position.lanes), position.occupied, position.hand, build_symmetries(square))
    different = {
        (tuple(image), hand) for image, hand in images(board(position), position.hand, permutations_of(square))
    }
    assert orbit == len(different)


# Counts


def children(lanes: NDArray[np.uint64], occupied: NDArray[np.uint16]) -> tuple[Any, Any]:
    """Place every piece that is left on every empty cell of every board."""
    all_lanes, all_occupied = [np.empty(0, np.uint64)], [np.empty(0, np.uint16)]
    for cell, piece in product(range(16), range(16)):
        spread_piece = np.uint64(build_lanes([NONE] * cell + [piece]))
        column = np.uint64(build_lanes([NONE] * cell + [15]))
        used = np.zeros(len(lanes), bool)
        for other in range(16):
            here = (lanes >> np.uint64(other)) & np.uint64(build_lanes([15])) == np.uint64(build_lanes([piece]))
            used |= here & (occupied >> np.uint16(other) & 1 == 1)
        possible = ~used & (occupied >> np.uint16(cell) & 1 == 0)
        all_lanes.append(lanes[possible] & ~column | spread_piece)
        all_occupied.append(occupied[possible] | np.uint16(1 << cell))
    return np.concatenate(all_lanes), np.concatenate(all_occupied)


def distinct(lanes: Any, occupied: Any, hand: Any) -> tuple[Any, Any]:
    """Return the different canonical forms of positions or boards under classic rules."""
    forms = np.stack(
        [part.astype(np.uint64) for part in canonical_forms(lanes, occupied, hand, build_symmetries(CLASSIC))]
    )
    different = np.unique(forms, axis=1)
    return different[0], different[1].astype(np.uint16)


def test_canonical_boards_with_and_without_a_hand_and_their_orbits_are_as_many_as_known() -> None:
    lanes, occupied, tables = np.zeros(1, np.uint64), np.zeros(1, np.uint16), build_symmetries(CLASSIC)
    for k in range(5):
        if k:
            lanes, occupied = children(lanes, occupied)
        lanes, occupied = distinct(lanes, occupied, np.full(len(lanes), NONE, np.int8))
        boards = list(zip(lanes, occupied, strict=True))
        assert len(boards) == ORACLES["canonical_boards_with_k_pieces_including_won"][k]
        orbits = sum(orbit_size(one, int(mask), NONE, tables) for one, mask in boards)
        assert orbits == ORACLES["boards_with_k_pieces"][k]
        taken = np.array([board_piece_mask(board_lanes, int(mask)) for board_lanes, mask in boards])
        rows, hands = np.nonzero((taken[:, None] >> np.arange(16)) & 1 == 0)
        with_hand = len(distinct(lanes[rows], occupied[rows], hands.astype(np.int8))[0])
        assert with_hand == ORACLES["canonical_boards_with_hand_including_won_k_0_to_5"][k]
