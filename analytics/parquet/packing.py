"""Kernels that pack integers into the pages of a Parquet file.

Source of all three encodings: apache/parquet-format, Encodings.md (RLE_DICTIONARY = 8, DELTA_BINARY_PACKED = 5).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from quarto.jit import inlined, kernel

BLOCK, MINIBLOCK = 128, 32  # values of a block and of each of its four parts, in DELTA_BINARY_PACKED


@inlined
def _put_varint(out: Any, at: int, number: Any) -> int:
    """Write an unsigned (uint64) number, seven bits a byte; returns the index after it."""
    while number > np.uint64(0x7F):
        out[at] = (number & np.uint64(0x7F)) | np.uint64(0x80)
        number >>= np.uint64(7)
        at += 1
    out[at] = number
    return at + 1


@inlined
def _put_zigzag(out: Any, at: int, number: Any) -> int:
    return _put_varint(out, at, np.uint64((number << 1) ^ (number >> 63)))


@inlined
def _width(number: Any) -> int:
    """The number of bits that an unsigned (uint64) number needs."""
    width = 0
    while number != np.uint64(0):
        number >>= np.uint64(1)
        width += 1
    return width


@kernel()
def summary(values: Any) -> tuple[int, int, int]:
    """The least value, the largest, and the number of runs of equal values. ``values`` [R], R > 0."""
    least = largest = np.int64(values[0])
    runs = np.int64(1)
    for row in range(1, values.shape[0]):
        value = np.int64(values[row])
        least = min(least, value)
        largest = max(largest, value)
        runs += np.int64(values[row] != values[row - 1])
    return int(least), int(largest), int(runs)


@kernel()
def pack_bits(values: Any, least: int, width: int, out: NDArray[np.uint8]) -> int:
    """``values`` [R] minus ``least`` as one bit-packed run of RLE_DICTIONARY, ``width`` 1 to 16 bits each.

    ``out`` needs ``2 R + 16`` bytes. Returns how many were used.
    """
    groups: int = (values.shape[0] + 7) // 8
    out[0] = width
    at = _put_varint(out, 1, np.uint64(groups << 1 | 1))
    end = at + groups * width
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


@kernel()
def pack_runs(values: Any, least: int, width: int, out: NDArray[np.uint8]) -> int:
    """``values`` [R] minus ``least`` as runs of equal values of RLE_DICTIONARY, ``width`` 0 to 16 bits each.

    ``out`` needs eight bytes for each run and one more. Returns how many were used.
    """
    out[0] = width
    at = 1
    start = 0
    for row in range(1, values.shape[0] + 1):
        if row == values.shape[0] or values[row] != values[start]:
            at = _put_varint(out, at, np.uint64((row - start) << 1))
            value = np.int64(values[start]) - least
            for byte in range((width + 7) // 8):
                out[at] = (value >> (8 * byte)) & 0xFF
                at += 1
            start = row
    return at


@kernel()
def pack_deltas(values: NDArray[Any], out: NDArray[np.uint8]) -> int:
    """``values`` [R], R > 0, as DELTA_BINARY_PACKED; differences must fit into 63 bits.

    ``out`` needs ``9 R + 2048`` bytes. Returns how many were used.
    """
    count = values.shape[0]
    at = _put_varint(out, 0, np.uint64(BLOCK))
    at = _put_varint(out, at, np.uint64(BLOCK // MINIBLOCK))
    at = _put_varint(out, at, np.uint64(count))
    at = _put_zigzag(out, at, values[0])
    for block in range(1, count, BLOCK):
        end = min(block + BLOCK, count)
        least = values[block] - values[block - 1]
        for row in range(block + 1, end):
            least = min(least, values[row] - values[row - 1])
        at = _put_zigzag(out, at, least)
        widths = at
        at += BLOCK // MINIBLOCK
        for part in range(BLOCK // MINIBLOCK):
            first = block + part * MINIBLOCK
            out[widths + part] = 0
            if first < end:
                width = _delta_width(values, first, min(first + MINIBLOCK, end), least)
                out[widths + part] = width
                _pack_miniblock(values, first, min(first + MINIBLOCK, end), least, width, out, at)
                at += width * (MINIBLOCK // 8)
    return at


@inlined
def _delta_width(values: Any, first: int, end: int, least: int) -> int:
    union = np.uint64(0)
    for row in range(first, end):
        union |= np.uint64(values[row] - values[row - 1] - least)
    return _width(union)


@inlined
def _pack_miniblock(values: Any, first: int, end: int, least: int, width: int, out: Any, at: int) -> None:
    """Pack the differences of one miniblock piece by piece: one may be wider than what is left of a 64-bit word."""
    stop = at + width * (MINIBLOCK // 8)
    waiting, bits = np.uint64(0), 0
    for row in range(first, end):
        number = np.uint64(values[row] - values[row - 1] - least)
        left = width
        while left > 0:
            taken = min(left, 56 - bits)
            waiting |= (number & ((np.uint64(1) << np.uint64(taken)) - np.uint64(1))) << np.uint64(bits)
            number >>= np.uint64(taken)
            bits += taken
            left -= taken
            while bits >= 8:
                out[at] = waiting & np.uint64(0xFF)
                waiting >>= np.uint64(8)
                bits -= 8
                at += 1
    while at < stop:
        out[at] = waiting & np.uint64(0xFF)
        waiting >>= np.uint64(8)
        at += 1
