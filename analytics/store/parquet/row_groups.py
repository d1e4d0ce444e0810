"""A kernel that writes a row group of integer columns: its pages, and the struct ``RowGroup`` that describes them.

``ParquetBuilder.add_row_group`` does the same in Python, also for columns of labels. It needs as long to describe the
hundreds of column chunks of a file as kernels need to pack them, and holds the interpreter lock meanwhile.

Source: apache/parquet-format, parquet.thrift. A field begins with a byte: the difference of its id from that of the
field before, times 16, plus the code of its type.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import types
from numpy.typing import NDArray

from analytics.store.parquet.metadata import BINARY, I32, I64, LIST, STRUCT
from analytics.store.parquet.packing import (
    COLUMN_FACTS_TYPE,
    PLAIN,
    RLE_DICTIONARY,
    ColumnFacts,
    put_varint,
    put_zigzag,
)
from quarto.jit import inline_function, int64, kernel, uint64

ENCODING_COUNT = RLE_DICTIONARY + 1  # encodings are numbers below this one
SHORT_LIST = 15  # lists with fewer elements have their length in their first byte
PAGE_HEADER_BYTES, COLUMN_CHUNK_BYTES = 64, 128  # upper bounds without the name of the column


class ColumnHeads(NamedTuple):
    """What the description of a column's chunk begins with: the first four fields of the struct ``ColumnMetaData``."""

    heads: NDArray[np.uint8]  # [columns, ENCODING_COUNT, H] by column and encoding
    sizes: NDArray[np.int64]  # [columns, ENCODING_COUNT] bytes of each head
    value_bytes: NDArray[np.int64]  # [columns] bytes of a value, 4 or 8


COLUMN_HEADS_TYPE = types.NamedTuple((types.uint8[:, :, ::1], types.int64[:, ::1], types.int64[::1]), ColumnHeads)
BYTES = types.uint8[::1]


@kernel(
    types.UniTuple(types.int64, 2)(BYTES, COLUMN_FACTS_TYPE, types.int64, types.int64, COLUMN_HEADS_TYPE, BYTES, BYTES)
)
def write_row_group(
    packed: NDArray[np.uint8],
    facts: ColumnFacts,
    rows: int,
    offset: int,
    columns: ColumnHeads,
    pages: NDArray[np.uint8],
    description: NDArray[np.uint8],
) -> tuple[int, int]:
    """Write the pages of a row group of ``rows`` rows, and its struct ``RowGroup``; return the bytes of both.

    ``packed`` has the packed columns one after the other, and ``facts`` says what they are. ``offset`` is the place of
    the row group in the file. ``pages`` and ``description`` need the room that ``bound_row_group_bytes`` says.
    """
    count = facts.end.shape[0]
    at, end = int64(0), _put_list_head(description, 1, count)
    start = int64(0)
    for column in range(count):
        encoding, least, largest = facts.encoding[column], facts.least[column], facts.largest[column]
        chunk = at
        if encoding == RLE_DICTIONARY:
            at = _put_range_dictionary(pages, at, least, largest)
        data = at
        size = facts.end[column] - start
        at = _put_data_page_header(pages, at, size, rows, encoding)
        pages[at : at + size] = packed[start : start + size]
        at, start = at + size, facts.end[column]
        end = _put_head(description, end, columns, column, encoding)
        for number in (rows, at - chunk, at - chunk):  # fields 5 to 7: values, bytes unpacked and packed
            end = _put_number(description, end, 1, I64, number)
        end = _put_number(description, end, 2, I64, offset + data)
        if encoding == RLE_DICTIONARY:
            end = _put_number(description, end, 2, I64, offset + chunk)
        description[end] = (1 if encoding == RLE_DICTIONARY else 3) << 4 | STRUCT
        end = _put_statistics(description, end + 1, least, largest, columns.value_bytes[column])
        description[end : end + 2] = 0
        end += 2
    end = _put_number(description, end, 1, I64, at)
    end = _put_number(description, end, 1, I64, rows)
    end = _put_number(description, end, 2, I64, offset)
    description[end] = 0
    return at, end + 1


@inline_function
def _put_number(out: Any, at: int, step: int, kind: int, number: int) -> int:
    """Write a field that holds a signed number; ``step`` is the difference of its id from that of the field before."""
    out[at] = step << 4 | kind
    return put_zigzag(out, at + 1, int64(number))


@inline_function
def _put_list_head(out: Any, step: int, count: int) -> int:
    """Write the beginning of a list of ``count`` structs, which is the first field of a struct, to the start of out."""
    out[0] = step << 4 | LIST
    if count < SHORT_LIST:
        out[1] = count << 4 | STRUCT
        return 2
    out[1] = 0xF0 | STRUCT
    return put_varint(out, 2, uint64(count))


@inline_function
def _put_page_sizes(out: Any, at: int, kind: int, size: int) -> int:
    """Write the first three fields of a page's header: its kind, and twice its size."""
    at = _put_number(out, at, 1, I32, kind)
    at = _put_number(out, at, 1, I32, size)
    return _put_number(out, at, 1, I32, size)


@inline_function
def _put_data_page_header(out: Any, at: int, size: int, rows: int, encoding: int) -> int:
    at = _put_page_sizes(out, at, 0, size)
    out[at] = 2 << 4 | STRUCT
    at = _put_number(out, at + 1, 1, I32, rows)
    at = _put_number(out, at, 1, I32, encoding)
    for _ in range(2):  # RLE: the encoding of levels, which required columns do not have
        at = _put_number(out, at, 1, I32, 3)
    out[at : at + 2] = 0
    return at + 2


@inline_function
def _put_range_dictionary(out: Any, at: int, least: int, largest: int) -> int:
    """Write a dictionary page of all integers from ``least`` to ``largest``, with its header."""
    entries = largest - least + 1
    at = _put_page_sizes(out, at, 2, 4 * entries)
    out[at] = 4 << 4 | STRUCT
    at = _put_number(out, at + 1, 1, I32, entries)
    at = _put_number(out, at, 1, I32, PLAIN)
    out[at : at + 2] = 0
    at += 2
    for value in range(least, largest + 1):
        at = _put_plain(out, at, value, 4)
    return at


@inline_function
def _put_plain(out: Any, at: int, value: int, size: int) -> int:
    for byte in range(size):
        out[at + byte] = (value >> (8 * byte)) & 0xFF
    return at + size


@inline_function
def _put_head(out: Any, at: int, columns: Any, column: int, encoding: int) -> int:
    """Begin the struct ``ColumnChunk``: an offset that is not used, and the head of the struct ``ColumnMetaData``."""
    at = _put_number(out, at, 2, I64, 0)
    out[at] = 1 << 4 | STRUCT
    size = int64(columns.sizes[column, encoding])
    out[at + 1 : at + 1 + size] = columns.heads[column, encoding, :size]
    return at + 1 + size


@inline_function
def _put_statistics(out: Any, at: int, least: int, largest: int, value_bytes: int) -> int:
    """Write the struct ``Statistics``: no nulls, the largest and the least value."""
    at = _put_number(out, at, 3, I64, 0)
    out[at], out[at + 1] = 2 << 4 | BINARY, value_bytes
    at = _put_plain(out, at + 2, largest, value_bytes)
    out[at], out[at + 1] = 1 << 4 | BINARY, value_bytes
    at = _put_plain(out, at + 2, least, value_bytes)
    out[at] = 0
    return at + 1
