"""Rows by position are a dictionary of lists, however many there are."""

from __future__ import annotations

import random

import numpy as np
import pytest

from agents.learning.position_rows import (
    build_empty_row_knowledge,
    build_row_knowledge,
    enlarge_rows,
    find_or_add_nan_row_start,
    find_row_start,
    has_room_for_game,
    list_position_rows,
)
from quarto.jit import uint64

Key = tuple[int, int, int]


def some_positions(count: int) -> list[Key]:
    """Build keys (lanes, occupied, hand). Some differ in one word only, and some occur twice."""
    dice = random.Random(5)
    lanes = [dice.getrandbits(64) for _ in range(20)]
    return [(dice.choice(lanes), dice.getrandbits(16), dice.randrange(-1, 16)) for _ in range(count)]


def to_signed_key(key: Key) -> Key:
    return (key[0] - (key[0] >> 63 << 64), key[1], key[2])


def test_rows_are_found_as_in_a_dictionary_while_they_grow() -> None:
    knowledge, rows, grown = build_empty_row_knowledge(np.array([0.5])), dict[Key, list[float]](), 0
    for number, key in enumerate(some_positions(10_000)):
        width = 1 + key[1] % 16
        first = find_or_add_nan_row_start((uint64(key[0]), key[1], key[2]), width, knowledge.keys, knowledge.table)
        row = knowledge.table[first : first + width]
        if key not in rows:
            assert np.isnan(row).all()
            row[:] = rows[key] = [float(number)] * width
        assert row.tolist() == rows[key]
        if not has_room_for_game(knowledge.keys, knowledge.table):
            knowledge, grown = enlarge_rows(knowledge), grown + 1
    assert len(rows) < 10_000
    assert grown > 2
    assert knowledge.params.tolist() == [0.5]
    for key, values in rows.items():
        first = find_row_start(uint64(key[0]), key[1], key[2], knowledge.keys)
        assert knowledge.table[first : first + len(values)].tolist() == values
        other = (key[0] ^ 1, key[1], key[2])
        assert other in rows or find_row_start(uint64(other[0]), other[1], other[2], knowledge.keys) == -1
    listed_rows = list(zip(*(column.tolist() for column in list_position_rows(knowledge)), strict=True))
    assert [tuple(row[:3]) for row in listed_rows] == sorted(map(to_signed_key, rows))
    assert [knowledge.table[row[3]] for row in listed_rows] == [rows[key][0] for key in sorted(rows, key=to_signed_key)]


@pytest.mark.parametrize("size", [0, 1, 2, 1000, 1023, 1024])
def test_rows_for_a_player_are_those_of_a_learner(size: int) -> None:
    keys = sorted({to_signed_key(key) for key in some_positions(2 * size)})[:size]
    columns = tuple(np.array(column, np.int64) for column in (zip(*keys, strict=True) if keys else ([], [], [])))
    widths = np.array([1 + key[1] % 16 for key in keys], np.int64)
    knowledge, first = build_row_knowledge(np.zeros(2), columns, widths)
    assert first.tolist() == (np.cumsum(widths) - widths).tolist()
    assert [tuple(row) for row in np.array(list_position_rows(knowledge)).T.tolist()] == [
        (*key, place) for key, place in zip(keys, first.tolist(), strict=True)
    ]
    assert find_row_start(uint64(1), 1, 1, knowledge.keys) == -1
