"""CPython's sets of the numbers 0 to 15: the order in which they are walked, which study A's program depends on.

A set is a hash table whose size is a power of two, from 8 on, and a number is its own hash. It is put into the slot
that its lowest bits name or, if that one is not free, into one of the nine after it if all of them exist, then on from
slot 5 i + 1. A removed number leaves its slot deleted; if such slots were met on the way to a free one, the last of
them is filled instead. Once three fifths of the slots are full or deleted, the table is built anew, four times as large
as its numbers need. A walk goes through the slots, and through those of the new table if the old one is replaced
meanwhile. (CPython 3.10 to 3.13; the tests compare with the sets of the Python that runs them.)

``walking_order`` says in which order the program walks the pieces that are left. The other functions are such a table
in TABLE_WORDS words of scratch, for a set that is changed while it is walked.
"""

from __future__ import annotations

from typing import Any

from quarto.bits import lowest_bit, popcount
from quarto.jit import inlined, int64, uint64
from quarto.rules import PIECES

SMALLEST = 8  # slots of a table
FEW = 4  # as many numbers fit the smallest table
NEXT_SLOTS = 9  # that are tried after the first one
NUMBER_BITS = 4  # of a number in a packed order
COPIED = 4  # from a set of sixteen fewer numbers than this are removed from a copy; else the others fill a new set

MASK, FILL, USED, SLOTS = range(4)  # words: slots - 1; slots that are not free; numbers; the first slot
TABLE_WORDS = SLOTS + 128  # sixteen numbers need no larger table
FREE, DELETED, FIRST = range(3)  # what a slot holds: FIRST + its number otherwise


@inlined
def walked(order: int, place: int) -> int:
    """The number at a place of a packed order."""
    return int64((uint64(order) >> uint64(NUMBER_BITS * place)) & uint64(PIECES - 1))


@inlined
def walking_order(numbers: int) -> int:
    """The order of the set ``{0, …, 15} - others`` that has these numbers (16-bit mask), packed for ``walked``.

    Up to four numbers stay in the smallest table, by their lowest three bits; more are walked in ascending order.
    """
    rest, order, slots, taken = int64(numbers), uint64(0), uint64(0), int64(0)
    if popcount(rest) <= FEW:
        while rest != 0:
            number = lowest_bit(rest)
            slot = number & (SMALLEST - 1)
            while (taken >> slot) & 1:
                slot = (5 * slot + 1) & (SMALLEST - 1)
            taken |= int64(1) << slot
            slots |= uint64(number) << uint64(NUMBER_BITS * slot)
            rest &= rest - 1
        rest = taken
    else:
        slots = uint64(0xFEDC_BA98_7654_3210)
    place = int64(0)
    while rest != 0:
        order |= uint64(walked(slots, lowest_bit(rest))) << uint64(NUMBER_BITS * place)
        place += 1
        rest &= rest - 1
    return order


@inlined
def clear(table: Any, slots: int) -> None:
    """Make the table an empty one with so many slots."""
    table[MASK], table[FILL], table[USED] = slots - 1, 0, 0
    for slot in range(slots):
        table[SLOTS + slot] = FREE


@inlined
def number_in(table: Any, slot: int) -> int:
    """The number in a slot that holds one."""
    return int64(table[SLOTS + slot]) - FIRST


@inlined
def slot_of(table: Any, number: int, content: int) -> int:
    """The first slot with this content on the number's way through the table; the way reaches a free slot at last.

    For FREE, the last deleted slot that was met before it, if there is one.
    """
    mask, deleted = int64(table[MASK]), int64(-1)
    slot = number & mask
    while True:
        last = slot + NEXT_SLOTS if slot + NEXT_SLOTS <= mask else slot
        for tried in range(slot, last + 1):
            found = int64(table[SLOTS + tried])
            if found == content:
                return int64(tried) if content != FREE or deleted < 0 else deleted
            if found == DELETED:
                deleted = int64(tried)
        slot = (5 * slot + 1) & mask


@inlined
def put(table: Any, number: int) -> None:
    """Put a number that the table does not have into it, without more room for it."""
    slot = SLOTS + slot_of(table, number, FREE)
    table[FILL] += uint64(int64(table[slot]) == FREE)
    table[USED] += uint64(1)
    table[slot] = FIRST + number


@inlined
def enlarge(table: Any) -> None:
    """Build the table anew for its numbers."""
    order, count, slots = uint64(0), int64(0), int64(SMALLEST)
    for slot in range(int64(table[MASK]) + 1):
        if int64(table[SLOTS + slot]) >= FIRST:
            order |= uint64(number_in(table, slot)) << uint64(NUMBER_BITS * count)
            count += 1
    while slots <= 4 * count:
        slots *= 2
    clear(table, slots)
    for place in range(count):
        put(table, walked(order, place))


@inlined
def add(table: Any, number: int) -> None:
    """``set.add`` of a number that the set does not have."""
    filled = int64(table[FILL])
    put(table, number)
    if int64(table[FILL]) > filled and 5 * int64(table[FILL]) >= 3 * int64(table[MASK]):
        enlarge(table)


@inlined
def remove(table: Any, number: int) -> None:
    """``set.remove`` of a number that the set has."""
    table[SLOTS + slot_of(table, number, FIRST + number)] = DELETED
    table[USED] -= uint64(1)


@inlined
def subtract_from_all(table: Any, others: int) -> None:
    """Make the table that of ``{0, …, 15} - others`` (16-bit mask)."""
    copied = popcount(int64(others)) < COPIED
    clear(table, 64 if copied else SMALLEST)
    for number in range(PIECES):
        if copied:
            put(table, number)
        elif not (others >> number) & 1:
            add(table, number)
    if copied:
        while others != 0:
            remove(table, lowest_bit(others))
            others &= others - 1


@inlined
def next_slot(table: Any, slot: int) -> int:
    """The first slot from ``slot`` on that holds a number; one behind the last slot if there is none."""
    last = int64(table[MASK])
    while slot <= last and int64(table[SLOTS + slot]) < FIRST:
        slot += 1
    return slot
