"""The model of Python's sets is compared with Python's sets, slot by slot where their order shows it."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from agents.study_a import sets
from agents.study_a.sets import MASK, SMALLEST, TABLE_WORDS
from quarto.jit import int64, kernel
from quarto.rules import PIECES

ADDED, REMOVED = range(2)  # what is done with a number


@kernel()
def orders(masks: Any, found: Any) -> None:
    for i in range(len(masks)):
        order, mask, place = sets.walking_order(int64(masks[i])), masks[i], 0
        while mask != 0:
            found[i, place] = sets.walked(order, place)
            place += 1
            mask &= mask - 1


@kernel()
def changed(table: Any, numbers: Any, deeds: Any) -> None:
    for i in range(len(numbers)):
        if deeds[i] == ADDED:
            sets.add(table, int64(numbers[i]))
        else:
            sets.remove(table, int64(numbers[i]))


@kernel()
def emptied(table: Any) -> None:
    sets.clear(table, int64(SMALLEST))


@kernel()
def subtracted(table: Any, others: int) -> None:
    sets.subtract_from_all(table, int64(others))


@kernel()
def walk(table: Any, touched: int, found: Any) -> int:
    """The numbers of a walk, each removed and added again if ``touched``; returns how many."""
    count, slot = 0, sets.next_slot(table, int64(0))
    while slot <= int64(table[MASK]):
        found[count] = sets.number_in(table, slot)
        if touched:
            sets.remove(table, int64(found[count]))
            sets.add(table, int64(found[count]))
        count += 1
        slot = sets.next_slot(table, slot + 1)
    return count


def walked(table: np.ndarray, touched: bool = False) -> list[int]:
    found = np.zeros(1000, np.int64)
    return [*map(int, found[: walk(table, int(touched), found)])]


def walked_set(numbers: set[int]) -> list[int]:
    """The numbers of a walk, each removed and added again."""
    found = []
    for number in numbers:
        found.append(number)
        numbers.remove(number)
        numbers.add(number)
    return found


def members(mask: int) -> list[int]:
    return [number for number in range(PIECES) if mask >> number & 1]


def all_but(mask: int) -> set[int]:
    return {number for number in range(PIECES)} - {*members(mask)}  # noqa: C416  (as the program makes it)


def test_sixteen_numbers_less_others_are_walked_in_pythons_order() -> None:
    masks = np.arange(1 << PIECES)
    found = np.full((len(masks), PIECES), -1)
    orders(masks, found)
    for mask in masks.tolist():
        assert found[mask, : mask.bit_count()].tolist() == list(all_but(~mask)), mask


def test_some_orders_are_not_ascending() -> None:
    found = np.full((3, PIECES), -1)
    orders(np.array([0b1_0000_0001, 0b1_1000_0000, 0b1111_0000_0000_0000]), found)
    assert [row[row >= 0].tolist() for row in found] == [[0, 8], [8, 7], [12, 13, 14, 15]]


@pytest.mark.slow
def test_a_walk_that_removes_and_adds_is_pythons() -> None:
    table = np.zeros(TABLE_WORDS, np.uint64)
    for mask in range(0, 1 << PIECES, 97):
        subtracted(table, mask)
        assert walked(table) == list(all_but(mask)), mask
        subtracted(table, mask)
        assert walked(table, touched=True) == walked_set(all_but(mask)), mask


@pytest.mark.parametrize("seed", range(5))
def test_a_set_with_a_history_is_walked_in_pythons_order(seed: int) -> None:
    choices, table = random.Random(seed), np.zeros(TABLE_WORDS, np.uint64)
    emptied(table)
    real: set[int] = set()
    for _ in range(300):
        number = choices.randrange(PIECES)
        deed = REMOVED if number in real else ADDED
        changed(table, np.array([number]), np.array([deed]))
        (real.remove if deed == REMOVED else real.add)(number)
        assert walked(table) == list(real)
