"""Kernels that pack integers into the pages of a Parquet file.

Source of all three encodings: apache/parquet-format, Encodings.md (RLE_DICTIONARY = 8, DELTA_BINARY_PACKED = 5).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import types
from numpy.typing import NDArray

from quarto.jit import inline_function, int64, kernel, uint64

PLAIN, DELTA_BINARY_PACKED, RLE_DICTIONARY = 0, 5, 8  # encodings, by their numbers in the format
LARGEST_DICTIONARY = 1 << 16
BLOCK, MINIBLOCK = 128, 32  # values of a block and of each of its four parts, in DELTA_BINARY_PACKED


class ColumnFacts(NamedTuple):
    """The facts about packed columns that are needed to describe the columns in the file."""

    least: NDArray[np.int64]  # [columns]
    largest: NDArray[np.int64]  # [columns]
    encoding: NDArray[np.int64]  # [columns]
    end: NDArray[np.int64]  # [columns] index after the last byte


COLUMN_FACTS_TYPE = types.NamedUniTuple(types.int64[::1], 4, ColumnFacts)
READONLY_BYTES = types.Array(types.uint8, 1, "C", readonly=True)  # whether or not they may be written
READONLY_INT64 = types.Array(types.int64, 1, "C", readonly=True)


# One compiled function for all small columns and labels, over bytes: each type of array would be compiled anew.
@kernel(
    types.int64(READONLY_BYTES, types.int64, types.int64, types.uint8[::1], types.int64, COLUMN_FACTS_TYPE, types.int64)
)
def pack_int8_or_int32(
    value_bytes: NDArray[np.uint8],
    bytes_per_integer: int,
    max_dictionary_span: int,
    out: NDArray[np.uint8],
    start: int,
    facts: ColumnFacts,
    column: int,
) -> int:
    """Pack R > 0 integers of ``bytes_per_integer`` bytes (1 or 4) into ``out`` from ``start``; return the end index.

    ``value_bytes`` holds the integers as bytes. Each integer is stored as its index in the range from the least to the
    largest of them. If the largest exceeds the least by ``max_dictionary_span`` or more, the integers are stored as
    they are. ``out`` needs ``9 R + 2048`` bytes after ``start``. The facts about the column are written to ``facts`` at
    the index ``column``.
    """
    narrow, wide = (
        value_bytes.view(np.int8),
        value_bytes[: value_bytes.shape[0] // 4 * 4].view(np.int32),
    )  # ``size`` says which it is
    if _is_constant(value_bytes, bytes_per_integer):
        least = largest = int64(narrow[0]) if bytes_per_integer == 1 else int64(wide[0])
        runs = int64(1)
    elif bytes_per_integer == 1:
        least, largest, runs = _find_bounds_and_runs(narrow)
    else:
        least, largest, runs = _find_bounds_and_runs(wide)
    room, rows, width = out[start:], value_bytes.shape[0] // bytes_per_integer, _bit_length(np.uint64(largest - least))
    encoding = RLE_DICTIONARY
    if largest - least >= max_dictionary_span:
        encoding, used = PLAIN, int(value_bytes.shape[0])
        for at in range(used):  # the lowest byte first, as they are in memory
            room[at] = value_bytes[at]
    elif runs == 1:  # one run of an index of no bits
        room[0] = 0
        used = put_varint(room, 1, np.uint64(rows << 1))
    elif 8 * runs < rows * width // 8:
        used = (
            _pack_runs(narrow, least, width, room) if bytes_per_integer == 1 else _pack_runs(wide, least, width, room)
        )
    else:
        room[0] = width  # one bit-packed run
        used = put_varint(room, 1, np.uint64((rows + 7) // 8 << 1 | 1))
        if bytes_per_integer == 1:
            used = _pack_bytes(narrow, least, width, room, used)
        else:
            used = _pack_one_by_one(wide, least, width, room, used)
    _set_facts(facts, column, least, largest, encoding, start + used)
    return start + used


@kernel(types.int64(READONLY_INT64, types.uint8[::1], types.int64, COLUMN_FACTS_TYPE, types.int64))
def pack_int64_as_deltas(
    values: NDArray[np.int64], out: NDArray[np.uint8], start: int, facts: ColumnFacts, column: int
) -> int:
    """Pack 64-bit integers as the differences between neighbours, and return the end index.

    Each difference must fit into 63 bits. See ``pack_int8_or_int32`` for the parameters.
    """
    least, largest, _runs = _find_bounds_and_runs(values)
    end = start + _pack_deltas(values, out[start:])
    _set_facts(facts, column, least, largest, DELTA_BINARY_PACKED, end)
    return end


@inline_function
def _set_facts(facts: Any, column: int, least: int, largest: int, encoding: int, end: int) -> None:
    facts.least[column], facts.largest[column] = least, largest
    facts.encoding[column], facts.end[column] = encoding, end


@inline_function
def put_varint(out: Any, at: int, number: Any) -> int:
    """Write an unsigned number (uint64) at index ``at``, seven bits in each byte; return the index after it."""
    while number > np.uint64(0x7F):
        out[at] = (number & np.uint64(0x7F)) | np.uint64(0x80)
        number >>= np.uint64(7)
        at += 1
    out[at] = number
    return at + 1


@inline_function
def put_zigzag(out: Any, at: int, number: Any) -> int:
    """Write a signed number (int64) at index ``at``, with 0, -1, 1, ... written as 0, 1, 2, ...; return the end."""
    return put_varint(out, at, np.uint64((number << 1) ^ (number >> 63)))


@inline_function
def _bit_length(number: Any) -> int:
    """Return the number of bits that an unsigned (uint64) number needs."""
    width = 0
    while number != np.uint64(0):
        number >>= np.uint64(1)
        width += 1
    return width


@inline_function
def _is_constant(value_bytes: NDArray[np.uint8], bytes_per_integer: int) -> bool:
    """Return whether all integers in ``value_bytes`` are equal, which is usual and quickly seen."""
    words = value_bytes[: value_bytes.shape[0] // 8 * 8].view(np.uint64)
    different = uint64(0)
    for index in range(1, words.shape[0]):
        different |= words[index] ^ words[0]
    for index in range(bytes_per_integer, min(8, value_bytes.shape[0])):  # the first word repeats its first integer
        different |= uint64(value_bytes[index] ^ value_bytes[index - bytes_per_integer])
    for index in range(8 * words.shape[0], value_bytes.shape[0]):
        different |= uint64(value_bytes[index] ^ value_bytes[index % bytes_per_integer])
    return different == uint64(0)


@inline_function
def _find_bounds_and_runs(values: Any) -> tuple[int, int, int]:
    """Return the least value, the largest value and the number of runs of equal values.

    ``values`` is [R] with R > 0.
    """
    least = largest = np.int64(values[0])
    runs = np.int64(1)
    for row in range(1, values.shape[0]):
        value = np.int64(values[row])
        least = min(least, value)
        largest = max(largest, value)
        runs += np.int64(values[row] != values[row - 1])
    return int(least), int(largest), int(runs)


@inline_function
def _pack_bytes(values: NDArray[np.int8], least: int, width: int, out: NDArray[np.uint8], at: int) -> int:
    """Subtract ``least`` from ``values`` [R], and pack the results with ``width`` bits each (1 to 8).

    The packed bytes are written to ``out``, beginning at index ``at``; the end index is returned. There must be room
    for ``width`` bytes for every eight values, rounded up, and for 8 more bytes.
    """
    first = 0
    if width in (1, 2, 4):
        first = values.shape[0] // 8 * 8
        words = values[:first].view(np.uint64)
        if width == 4:  # as constants, so that the compiler makes a loop for each
            at = _pack_eights(words, least, 4, out, at)
        elif width == 2:
            at = _pack_eights(words, least, 2, out, at)
        else:
            at = _pack_eights(words, least, 1, out, at)
    return _pack_one_by_one(values[first:], least, width, out, at)


@inline_function
def _pack_one_by_one(values: Any, least: int, width: int, out: NDArray[np.uint8], at: int) -> int:
    """Pack ``values`` minus ``least`` with ``width`` bits each, one value at a time; return the end index."""
    end: int = at + (values.shape[0] + 7) // 8 * width
    waiting, bits = np.uint64(0), np.uint64(0)
    for row in range(values.shape[0]):
        waiting |= np.uint64(np.int64(values[row]) - least) << bits
        bits += np.uint64(width)
        if bits >= np.uint64(32):
            for _ in range(4):
                out[at] = waiting & np.uint64(0xFF)
                waiting >>= np.uint64(8)
                at += 1
            bits -= np.uint64(32)
    while at < end:
        out[at] = waiting & np.uint64(0xFF)
        waiting >>= np.uint64(8)
        at += 1
    return end


@inline_function
def _pack_eights(words: Any, least: int, width: int, out: Any, at: int) -> int:
    """Pack bytes minus ``least`` with 1, 2 or 4 bits each, eight bytes (one word) at a time; return the end index.

    The fields of a word are shifted together in three steps, which join pairs, then fours, then all eight. This is four
    times as fast as packing one value at a time.
    """
    low, high = np.uint64(0x7F7F_7F7F_7F7F_7F7F), np.uint64(0x8080_8080_8080_8080)
    offset = np.uint64(-least & 0xFF) * np.uint64(0x0101_0101_0101_0101)
    step = np.uint64(8 - width)
    pairs = np.uint64((1 << 2 * width) - 1) * np.uint64(0x0001_0001_0001_0001)
    quads = np.uint64((1 << 4 * width) - 1) * np.uint64(0x0000_0001_0000_0001)
    for number in range(words.shape[0]):
        word = ((words[number] & low) + (offset & low)) ^ ((words[number] ^ offset) & high)  # each byte on its own
        word = (word | word >> step) & pairs
        word = (word | word >> (step << np.uint64(1))) & quads
        word |= word >> (step << np.uint64(2))
        for byte in range(width):
            out[at + byte] = (word >> np.uint64(8 * byte)) & np.uint64(0xFF)
        at += width
    return at


@inline_function
def _pack_runs(values: Any, least: int, width: int, out: NDArray[np.uint8]) -> int:
    """Pack ``values`` [R] minus ``least`` as RLE_DICTIONARY runs of equal values, with ``width`` bits each (0 to 32).

    ``out`` needs nine bytes for each run, and one more byte. Returns the number of bytes used.
    """
    out[0] = width
    at, start = 1, 0
    for row in range(1, values.shape[0] + 1):
        if row == values.shape[0] or values[row] != values[start]:
            at = put_varint(out, at, np.uint64((row - start) << 1))
            value = np.int64(values[start]) - least
            for byte in range((width + 7) // 8):
                out[at] = (value >> (8 * byte)) & 0xFF
                at += 1
            start = row
    return at


@inline_function
def _pack_deltas(values: NDArray[Any], out: NDArray[np.uint8]) -> int:
    """Pack ``values`` [R], R > 0, as DELTA_BINARY_PACKED; differences must fit into 63 bits.

    ``out`` needs ``9 R + 2048`` bytes. Returns the number of bytes used.
    """
    count = values.shape[0]
    at = put_varint(out, 0, np.uint64(BLOCK))
    at = put_varint(out, at, np.uint64(BLOCK // MINIBLOCK))
    at = put_varint(out, at, np.uint64(count))
    at = put_zigzag(out, at, values[0])
    above = np.zeros(BLOCK, np.uint64)  # differences of a block, above their least
    for block in range(1, count, BLOCK):
        size = min(BLOCK, count - block)
        least = _fill_differences_above_least(values[block - 1 : block + size], above)
        at = put_zigzag(out, at, least)
        widths = at
        at += BLOCK // MINIBLOCK
        for part in range(BLOCK // MINIBLOCK):
            numbers = above[part * MINIBLOCK : (part + 1) * MINIBLOCK]
            width = _bit_length(_unite_bits(numbers))
            out[widths + part] = width
            if width == 0:  # consecutive ids: all differences are equal
                continue
            if width <= 8:
                _pack_narrow(numbers, width, out, at)
            else:
                _pack_wide(numbers, width, out, at)
            at += width * (MINIBLOCK // 8) if part * MINIBLOCK < size else 0
    return at


@inline_function
def _fill_differences_above_least(values: Any, above: Any) -> int:
    """Compute the differences of neighbours, and fill ``above`` [128] with how far each exceeds the least of them.

    Returns the least difference. ``values`` has 2 to 129 integers. The rest of ``above`` is filled with zeros.
    """
    size = np.uint64(values.shape[0] - 1)
    least = values[1] - values[0]
    for row in range(size):
        least = min(least, values[row + np.uint64(1)] - values[row])
    for row in range(size):
        above[row] = np.uint64(values[row + np.uint64(1)] - values[row] - least)
    above[size:] = 0
    return least  # type: ignore[no-any-return]


@inline_function
def _unite_bits(numbers: Any) -> Any:
    union = np.uint64(0)
    for number in numbers:
        union |= number
    return union


@inline_function
def _pack_narrow(numbers: Any, width: int, out: Any, at: int) -> None:
    """Pack a miniblock of numbers that have at most 8 bits each: eight numbers take ``width`` bytes."""
    offset, step = np.uint64(at), np.uint64(width)
    for eight in range(MINIBLOCK // 8):
        word = np.uint64(0)
        for k in range(8):
            word |= numbers[8 * eight + k] << (np.uint64(k) * step)
        for byte in range(8):  # a fixed number: what follows is overwritten
            out[offset + np.uint64(byte)] = (word >> np.uint64(8 * byte)) & np.uint64(0xFF)
        offset += step


@inline_function
def _pack_wide(numbers: Any, width: int, out: Any, at: int) -> None:
    """Pack a miniblock of numbers in pieces, because a number may be wider than the free part of a 64-bit word."""
    waiting, bits = np.uint64(0), 0
    for wide_number in numbers:
        number, bits_left = wide_number, width
        while bits_left > 0:
            taken = min(bits_left, 56 - bits)
            waiting |= (number & ((np.uint64(1) << np.uint64(taken)) - np.uint64(1))) << np.uint64(bits)
            number >>= np.uint64(taken)
            bits += taken
            bits_left -= taken
            while bits >= 8:
                out[at] = waiting & np.uint64(0xFF)
                waiting >>= np.uint64(8)
                bits -= 8
                at += 1
