"""The encoder: a frame of integers as the bytes of a Parquet file.

The dictionary of a column of small integers is the range from its least to its largest value, so the index of a value
is its difference from the least one and nothing is looked up. 64-bit columns are stored as differences between
neighbours. The pages are not compressed: what is left would hardly shrink. Each has a CRC-32.

Source: apache/parquet-format (README.md, Encodings.md, parquet.thrift).
"""

from __future__ import annotations

import zlib
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from analytics.parquet.packing import pack_bits, pack_deltas, pack_runs, summary
from analytics.parquet.thrift import BINARY, BYTE, I32, STRUCT, TRUE, binary, i32, i64, many, nested, struct, zigzag

MAGIC = b"PAR1"
CREATED_BY = b"quarto-arena"

INT32, INT64 = 1, 2  # physical types
REQUIRED = 0
PLAIN, RLE, DELTA_BINARY_PACKED, RLE_DICTIONARY = 0, 3, 5, 8  # encodings
UNCOMPRESSED = 0
DATA_PAGE, DICTIONARY_PAGE = 0, 2

LARGEST_DICTIONARY = 1 << 16

# The storage of each type: physical type, converted type (INT_8, INT_32, INT_64), bits.
TYPES: dict[type[pl.DataType], tuple[int, int, int]] = {
    pl.Int8: (INT32, 15, 8),
    pl.Int32: (INT32, 17, 32),
    pl.Int64: (INT64, 18, 64),
}


class Chunk(NamedTuple):
    """One column of one row group, encoded."""

    dictionary: bytes  # page with its header; empty without a dictionary
    data: bytes  # page with its header
    encodings: tuple[int, ...]
    least: bytes  # the statistics, as PLAIN values
    largest: bytes


def encode(frame: pl.DataFrame, row_group_rows: int) -> bytes:
    """A Parquet file of a frame whose columns are Int8, Int32 or Int64 without nulls, in row groups of this size.

    Int64 columns should ascend for the most part: they are stored as differences. Raises ``KeyError`` for other types.
    """
    types = [TYPES[type(kind)] for kind in frame.dtypes]
    columns = [series.to_numpy() for series in frame.iter_columns()]
    parts = [MAGIC]
    groups = []
    offset = len(MAGIC)
    for first in range(0, len(frame), row_group_rows):
        rows = min(row_group_rows, len(frame) - first)
        chunks = [_chunk(column[first : first + rows]) for column in columns]
        described = []
        start = offset
        for name, (physical, _, _), chunk in zip(frame.columns, types, chunks, strict=True):
            described.append(_describe(name, physical, chunk, rows, offset))
            parts += [chunk.dictionary, chunk.data]
            offset += len(chunk.dictionary) + len(chunk.data)
        groups.append(struct([many(1, STRUCT, described), i64(2, offset - start), i64(3, rows), i64(5, start)]))
    footer = _footer(frame.schema, len(frame), groups)
    return b"".join([*parts, footer, len(footer).to_bytes(4, "little"), MAGIC])


def _chunk(values: NDArray[np.integer]) -> Chunk:
    least, largest, runs = (int(number) for number in summary(values))
    size = 8 if values.dtype == np.int64 else 4
    bounds = (least.to_bytes(size, "little", signed=True), largest.to_bytes(size, "little", signed=True))
    out = np.empty(9 * len(values) + 2048, np.uint8)
    if size == 8:
        packed = out[: pack_deltas(values, out)].tobytes()
        return Chunk(b"", _data_page(packed, len(values), DELTA_BINARY_PACKED), (DELTA_BINARY_PACKED, RLE), *bounds)
    if largest - least >= LARGEST_DICTIONARY:
        return Chunk(b"", _data_page(values.astype("<i4").tobytes(), len(values), PLAIN), (PLAIN, RLE), *bounds)
    width = (largest - least).bit_length()
    pack = pack_runs if width == 0 or 8 * runs < len(values) * width // 8 else pack_bits
    packed = out[: pack(values, least, width, out)].tobytes()
    dictionary = _dictionary_page(np.arange(least, largest + 1, dtype="<i4").tobytes(), largest - least + 1)
    return Chunk(dictionary, _data_page(packed, len(values), RLE_DICTIONARY), (PLAIN, RLE, RLE_DICTIONARY), *bounds)


def _page(kind: int, content: bytes, header: tuple[int, int, bytes]) -> bytes:
    size, checksum = len(content), zlib.crc32(content)
    signed = checksum - (checksum >> 31 << 32)
    return struct([i32(1, kind), i32(2, size), i32(3, size), i32(4, signed), header]) + content


def _data_page(content: bytes, rows: int, encoding: int) -> bytes:
    """A data page. A required column has no definition or repetition levels; RLE is the encoding they would have."""
    return _page(DATA_PAGE, content, nested(5, [i32(1, rows), i32(2, encoding), i32(3, RLE), i32(4, RLE)]))


def _dictionary_page(content: bytes, entries: int) -> bytes:
    return _page(DICTIONARY_PAGE, content, nested(7, [i32(1, entries), i32(2, PLAIN)]))


def _describe(name: str, physical: int, chunk: Chunk, rows: int, offset: int) -> bytes:
    """The ``ColumnChunk`` of a chunk that begins at ``offset`` of the file."""
    size = len(chunk.dictionary) + len(chunk.data)
    statistics = [i64(3, 0), binary(5, chunk.largest), binary(6, chunk.least)]
    metadata = [
        i32(1, physical),
        many(2, I32, [zigzag(encoding) for encoding in chunk.encodings]),
        many(3, BINARY, [binary(0, name.encode())[2]]),
        i32(4, UNCOMPRESSED),
        i64(5, rows),
        i64(6, size),
        i64(7, size),
        i64(9, offset + len(chunk.dictionary)),
        *([i64(11, offset)] if chunk.dictionary else []),
        nested(12, statistics),
    ]
    return struct([i64(2, 0), nested(3, metadata)])


def _footer(schema: pl.Schema, rows: int, groups: list[bytes]) -> bytes:
    elements = [struct([binary(4, b"schema"), i32(5, len(schema))])]
    for name, kind in schema.items():
        physical, converted, bits = TYPES[type(kind)]
        logical = nested(10, [nested(10, [(1, BYTE, bytes([bits])), (2, TRUE, b"")])])  # signed, of that many bits
        fields = [i32(1, physical), i32(3, REQUIRED), binary(4, name.encode()), i32(6, converted), logical]
        elements.append(struct(fields))
    # Readers may use the least and largest values only if the order of each column is stated: here that of its type.
    orders = [struct([nested(1, [])]) for _ in schema]
    table = many(2, STRUCT, elements), i64(3, rows), many(4, STRUCT, groups)
    return struct([i32(1, 2), *table, binary(6, CREATED_BY), many(7, STRUCT, orders)])
