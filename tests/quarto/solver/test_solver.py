"""Perfect play, held against playing out every game."""

from __future__ import annotations

import random
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from quarto.batch import Batch
from quarto.canonical import canonical_forms
from quarto.jit import kernel, uint64
from quarto.notation import parse_position
from quarto.observations import encode_pieces_and_legal_turns
from quarto.perft import decode_board_keys, generate_key_layers, perft
from quarto.position import EMPTY, PackedPosition, board, position_from_plies
from quarto.rules import CELLS, CLASSIC, NONE, Rules
from quarto.solver.endgame import ENDGAME_CELLS, can_giver_achieve_with_six_cells, can_placer_achieve_in_endgame
from quarto.solver.solver import ILLEGAL, Solver
from quarto.solver.table import (
    BUCKET_WORDS,
    DRAW,
    DRAWN,
    LOST,
    MAX_LOAD,
    PROOF_BITS,
    WIN,
    WON,
    build_tablebase_index,
    find_base_proof,
    tablebase_index_bytes,
)
from quarto.symmetry import build_symmetries
from tests.marks import seldom
from tests.naive import PRESETS, has_line, winning_cells
from tests.naive_solver import list_turns, solve_position

MEGABYTES = 4.0


def live_positions(rules: Rules, pieces: int, count: int, seed: int) -> list[PackedPosition]:
    """Return random positions without a line, with a hand where there is one, every fourth one before the gift."""
    dice = random.Random(f"{seed} {pieces}")
    positions: list[PackedPosition] = []
    while len(positions) < count:
        order, cells = dice.sample(range(16), 16), dice.sample(range(16), pieces)
        plies = list(zip(order, cells, strict=False))
        if not has_line(board(position_from_plies(plies)), rules):
            before_gift = rules.mover_chooses or pieces == 16 or len(positions) % 4 == 0
            positions.append(position_from_plies(plies, NONE if before_gift else order[pieces]))
    return positions


@pytest.mark.parametrize("part", [4, *seldom(1)])  # to play games out takes seconds
@pytest.mark.parametrize("name", ["classic", *seldom(*sorted({*PRESETS} - {"classic"}))])
def test_values_distances_and_turns_are_those_of_playing_every_game_out(name: str, part: int) -> None:
    rules, solver = PRESETS[name], Solver(PRESETS[name], MEGABYTES)
    for pieces, count in ((16, 8), (15, 40), (14, 60), (13, 60), (12, 60), (11, 30), (10, 8)):
        for position in live_positions(rules, pieces, count // part, 1):
            expected = solve_position(position, rules)
            solution = solver.solve(position)
            assert (solution.value, solution.distance) == expected, position
            assert {(turn.cell, turn.gift): (turn.value, turn.distance) for turn in solution.turns} == list_turns(
                position, rules
            ), position
            assert solver.solve(position, turns=False, distance=False) == (expected.value, None, ())


@pytest.mark.parametrize("name", ["classic", "own_piece"])
def test_the_values_of_all_turns_of_a_batch_are_those_one_by_one(name: str) -> None:
    rules, solver = PRESETS[name], Solver(PRESETS[name], MEGABYTES)
    positions = [position for pieces in (9, 12, 15) for position in live_positions(rules, pieces, 12, 3)]
    batch = Batch.from_positions(positions)
    values = solver.turn_values(batch)
    assert np.array_equal(values != ILLEGAL, encode_pieces_and_legal_turns(batch, rules)[1])
    for position, row in zip(positions, values, strict=True):
        for turn in solver.turns(position, distance=False):
            cell, gift = (16 if number == NONE else number for number in (turn.cell, turn.gift))
            assert row[17 * cell + gift] == turn.value


def images(position: PackedPosition, rules: Rules, dice: random.Random) -> PackedPosition:
    """Return the position under a random symmetry of cells and pieces."""
    cells = build_symmetries(rules).cells
    permutation, order, constant = cells[dice.randrange(len(cells))], dice.sample(range(4), 4), dice.randrange(16)

    def map_piece(piece: int) -> int:
        return sum(((piece ^ constant) >> a & 1) << order[a] for a in range(4))

    pieces = enumerate(board(position))
    plies = [(map_piece(piece), int(permutation[cell])) for cell, piece in pieces if piece != NONE]
    return position_from_plies(plies, NONE if position.hand == NONE else map_piece(position.hand))


@pytest.mark.parametrize("name", PRESETS)
def test_a_symmetry_changes_neither_value_nor_distance(name: str) -> None:
    rules, dice = PRESETS[name], random.Random(3)
    for position in live_positions(rules, 9, 20, 4) + live_positions(rules, 8, 5, 4):
        fresh = Solver(rules, MEGABYTES)  # nothing may come from the other position's proof
        expected = Solver(rules, MEGABYTES).solve(position, turns=False)
        assert fresh.solve(images(position, rules, dice), turns=False) == expected


@pytest.mark.parametrize("name", PRESETS)
def test_neither_the_size_of_the_table_nor_what_is_in_it_changes_a_value(name: str) -> None:
    rules = PRESETS[name]
    positions = live_positions(rules, 9, 30, 5) + live_positions(rules, 8, 20, 5) + live_positions(rules, 7, 3, 5)
    tiny, warm = Solver(rules, 0.001), Solver(rules, MEGABYTES)
    for position in positions:
        expected = Solver(rules, MEGABYTES).solve(position, turns=False)
        assert tiny.solve(position, turns=False) == warm.solve(position, turns=False) == expected
    assert warm.solve(positions[0], turns=False) == Solver(rules, MEGABYTES).solve(positions[0], turns=False)


def test_threads_that_share_a_table_find_the_same_values() -> None:
    positions = live_positions(CLASSIC, 8, 60, 6) + live_positions(CLASSIC, 7, 30, 6)
    one = Solver(CLASSIC, MEGABYTES)
    expected = [one.value(position) for position in positions]
    shared, local = Solver(CLASSIC, 0.1), threading.local()  # small: its places are fought over

    def value(position: PackedPosition) -> int:
        if not hasattr(local, "solver"):
            local.solver = shared.fork()
        value: int = local.solver.value(position)
        return value

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(value, positions)) == expected
        assert list(pool.map(value, positions[::-1])) == expected[::-1]


def test_a_search_that_is_told_to_stop_ends() -> None:
    solver = Solver(CLASSIC, MEGABYTES)
    timer = threading.Timer(0.2, solver.stop)
    timer.start()
    solver.value(EMPTY)  # half a minute if nobody stopped it
    timer.join()
    assert solver.stopped
    assert 0 < solver.nodes < 10**8


def test_a_fork_with_a_stop_of_its_own_is_stopped_alone() -> None:
    solver = Solver(CLASSIC, MEGABYTES)
    stoppable, other = solver.fork(own_stop=True), solver.fork()
    position = parse_position("...F/.3../.8../C... 7")[0]
    stoppable.stop()
    stoppable.value(position)
    assert other.value(position) == solver.value(position)
    assert (stoppable.stopped, other.stopped, solver.stopped) == (True, False, False)
    solver.stop()
    again = solver.fork(own_stop=True)
    again.value(position)
    assert not again.stopped


@pytest.mark.slow
def test_the_classic_game_is_a_draw() -> None:
    solver = Solver(CLASSIC)
    assert solver.value(EMPTY) == 0
    assert solver.distance(EMPTY, 0) == 16


# The end of the game without boards.


NAMES = ("classic", *seldom("square", "torus"))  # with 32 lines hardly any random board has a safe gift so late


@pytest.mark.parametrize("name", NAMES)
def test_positions_with_at_most_six_empty_cells(name: str) -> None:
    rules, checked_count = PRESETS[name], 0
    for pieces, count in ((10, 8), (11, 20), (12, 40), (13, 60), (14, 60), (15, 20)):
        for position in live_positions(rules, pieces, count, 7):
            if position.hand == NONE or wins_at_once(position, position.hand, rules):
                continue
            value, checked_count = solve_position(position, rules).value, checked_count + 1
            words = uint64(position.lanes), position.occupied, position.available, position.hand
            assert can_placer_achieve_in_endgame(*words, WIN, rules.tables) == (value == 1), position
            assert can_placer_achieve_in_endgame(*words, DRAW, rules.tables) == (value >= 0), position
    assert checked_count > 5


def gifts(position: PackedPosition) -> set[int]:
    return {piece for piece in range(16) if position.available >> piece & 1}


def wins_at_once(position: PackedPosition, piece: int, rules: Rules) -> bool:
    return winning_cells(board(position), piece, rules) != []


@pytest.mark.parametrize("boards", [6, *seldom(16)])
@pytest.mark.parametrize("name", NAMES)
def test_boards_before_a_gift_with_six_empty_cells(name: str, boards: int) -> None:
    rules, checked_count = PRESETS[name], 0
    for position in live_positions(rules, CELLS - ENDGAME_CELLS, boards, 8):
        if position.hand != NONE:
            position = position._replace(hand=NONE, available=position.available | 1 << position.hand)  # noqa: PLW2901
        safe = [piece for piece in gifts(position) if not wins_at_once(position, piece, rules)]
        if not safe:
            continue
        value, checked_count = solve_position(position, rules).value, checked_count + 1
        words = uint64(position.lanes), position.occupied, position.available, sum(1 << piece for piece in safe)
        assert can_giver_achieve_with_six_cells(*words, WIN, rules.tables) == (value == 1), position
        assert can_giver_achieve_with_six_cells(*words, DRAW, rules.tables) == (value >= 0), position
    assert checked_count >= boards // 5


# The table that searches look boards up in, and the order that boards are stored in.


@kernel()
def proofs_of(keys: NDArray[np.uint64], search: Any) -> list[int]:
    return [find_base_proof(key << uint64(PROOF_BITS), search) for key in keys]


def test_every_board_is_found_though_many_buckets_are_full_and_no_other_one_is() -> None:
    dice = np.random.default_rng(1)
    keys = dice.choice(1 << 38, 6500, replace=False).astype(np.uint64)
    inside, outside, values = keys[:3250], keys[3250:], dice.integers(-1, 2, 3250).astype(np.int8)
    base = build_tablebase_index(inside, values, 6)
    assert (base.pieces, base.words.nbytes) == (6, tablebase_index_bytes(3250))
    assert 0.7 < len(inside) / len(base.words) <= MAX_LOAD
    assert (base.words.reshape(-1, BUCKET_WORDS) != 0).all(axis=1).sum() > 100
    solver = Solver(CLASSIC, 0.0, base)
    _, search = solver.state
    assert proofs_of(inside, search) == [{1: WON, 0: DRAWN, -1: LOST}[value] for value in values.tolist()]
    assert set(proofs_of(outside, search)) == {0}


def test_layers_hold_every_canonical_live_board_once_in_order() -> None:
    for rules in PRESETS.values():
        layers = list(generate_key_layers(rules, 4))
        assert [len(keys) for keys in layers] == [layer.canonical_live_boards for layer in perft(rules, 4)]
        for pieces, keys in enumerate(layers):
            assert (np.diff(keys.astype(np.int64)) > 0).all()
            lanes, occupied = decode_board_keys(keys, rules)
            assert set(np.bitwise_count(occupied).tolist()) == {pieces}
            forms = canonical_forms(lanes, occupied, np.full(len(keys), NONE, np.int8), build_symmetries(rules))
            assert np.array_equal(forms[0], lanes)
            assert np.array_equal(forms[1], occupied)
