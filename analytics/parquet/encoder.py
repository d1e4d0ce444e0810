"""The encoder: tables of integers and labels as the bytes of a Parquet file.

The dictionary of a column of small integers is the range from its least to its largest value, so the index of a value
is its difference from the least one and nothing is looked up. 64-bit columns are stored as differences between
neighbours, labels as a dictionary and indices. The pages are not compressed: what is left would hardly shrink. Each has
a CRC-32.

Source: apache/parquet-format (README.md, Encodings.md, parquet.thrift).
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from analytics.parquet.packing import pack_bits, pack_deltas, pack_runs, summary
from analytics.parquet.thrift import (
    BINARY,
    BYTE,
    I32,
    STRUCT,
    TRUE,
    Field,
    binary,
    i32,
    i64,
    many,
    nested,
    struct,
    varint,
    zigzag,
)

MAGIC = b"PAR1"
CREATED_BY = b"quarto-arena"

INT32, INT64, BYTE_ARRAY = 1, 2, 6  # physical types
REQUIRED = 0
PLAIN, RLE, DELTA_BINARY_PACKED, RLE_DICTIONARY = 0, 3, 5, 8  # encodings
UNCOMPRESSED = 0
DATA_PAGE, DICTIONARY_PAGE = 0, 2

LARGEST_DICTIONARY = 1 << 16


class Storage(NamedTuple):
    """The storage of a type: physical type, converted type, logical type."""

    physical: int
    converted: int
    logical: Field


def _signed(bits: int) -> Field:
    return nested(10, [(1, BYTE, bytes([bits])), (2, TRUE, b"")])


TEXT = Storage(BYTE_ARRAY, 0, nested(1, []))  # UTF8
INTEGERS: dict[type[pl.DataType], Storage] = {
    pl.Int8: Storage(INT32, 15, _signed(8)),
    pl.Int32: Storage(INT32, 17, _signed(32)),
    pl.Int64: Storage(INT64, 18, _signed(64)),
}


class Chunk(NamedTuple):
    """One column of one row group, encoded."""

    dictionary: bytes  # page with its header; empty without a dictionary
    data: bytes  # page with its header
    encodings: tuple[int, ...]
    least: bytes  # the statistics: integers as PLAIN values, labels as they are
    largest: bytes


class ParquetFile:
    """A Parquet file in memory that grows by row groups.

    ``schema`` are the columns: integers of 8, 32 or 64 bits, and labels (any other type). ``metadata`` are texts by key
    for the footer.
    """

    def __init__(self, schema: Mapping[str, pl.DataType], metadata: Mapping[str, str] | None = None) -> None:
        self.rows = 0
        self._columns = {name: INTEGERS.get(type(kind), TEXT) for name, kind in schema.items()}
        self._metadata = metadata or {}
        self._content = bytearray(MAGIC)
        self._groups: list[bytes] = []

    def add(self, chunks: Sequence[Chunk], rows: int) -> None:
        """Add a row group of ``rows`` rows: a chunk for each column, in order."""
        described, start = [], len(self._content)
        for (name, storage), chunk in zip(self._columns.items(), chunks, strict=True):
            described.append(_describe(name, storage.physical, chunk, rows, len(self._content)))
            self._content += chunk.dictionary
            self._content += chunk.data
        group = [many(1, STRUCT, described), i64(2, len(self._content) - start), i64(3, rows), i64(5, start)]
        self._groups.append(struct(group))
        self.rows += rows

    def ended(self) -> bytearray:
        """The file, which does not grow any more. It is not copied: large ones take their size in memory once."""
        footer = _footer(self._columns, self.rows, self._groups, self._metadata)
        self._content += footer + len(footer).to_bytes(4, "little") + MAGIC
        return self._content


def encode(frame: pl.DataFrame, row_group_rows: int, metadata: Mapping[str, str] | None = None) -> bytes:
    """A Parquet file of a frame whose columns are Int8, Int32, Int64 or Enum without nulls, in row groups of this size.

    Int64 columns should ascend for the most part: they are stored as differences. ``metadata`` are texts by key for the
    footer. Raises ``KeyError`` for other types.
    """
    enums = {name: kind.categories.to_list() for name, kind in frame.schema.items() if isinstance(kind, pl.Enum)}
    schema = {name: kind for name, kind in frame.schema.items() if name in enums or INTEGERS[type(kind)]}
    file = ParquetFile(schema, metadata)
    columns = {name: frame[name].to_physical().to_numpy() for name in frame.columns}
    room = buffer_for(min(row_group_rows, len(frame)))
    for first in range(0, len(frame), row_group_rows):
        parts = {name: column[first : first + row_group_rows] for name, column in columns.items()}
        chunks = [
            labels(part.astype(np.int32), enums[name], room) if name in enums else integers(part, room)
            for name, part in parts.items()
        ]
        file.add(chunks, min(row_group_rows, len(frame) - first))
    return bytes(file.ended())


def buffer_for(rows: int) -> NDArray[np.uint8]:
    """Room in which a column of a row group of at most so many rows is packed."""
    return np.empty(9 * rows + 2048, np.uint8)


def integers(values: NDArray[np.integer], room: NDArray[np.uint8]) -> Chunk:
    """A column of integers, ``values`` [R], R > 0. ``room`` is overwritten (``buffer_for``)."""
    least, largest, runs = (int(number) for number in summary(values))
    size = 8 if values.dtype == np.int64 else 4
    bounds = (least.to_bytes(size, "little", signed=True), largest.to_bytes(size, "little", signed=True))
    if size == 8:
        packed = room[: pack_deltas(values, room)].tobytes()
        return Chunk(b"", _data_page(packed, len(values), DELTA_BINARY_PACKED), (DELTA_BINARY_PACKED, RLE), *bounds)
    if largest - least >= LARGEST_DICTIONARY:
        return Chunk(b"", _data_page(values.astype("<i4").tobytes(), len(values), PLAIN), (PLAIN, RLE), *bounds)
    entries = np.arange(least, largest + 1, dtype="<i4").tobytes()
    return _dictionary_chunk(_indices(values, (least, largest, runs), room), entries, largest - least + 1, bounds)


def labels(indices: NDArray[np.integer], known: Sequence[str], room: NDArray[np.uint8]) -> Chunk:
    """A column of labels: ``indices`` [R], R > 0, into ``known``. ``room`` is overwritten (``buffer_for``)."""
    least, largest, runs = (int(number) for number in summary(indices))
    present = sorted(known[index].encode() for index in np.flatnonzero(np.bincount(indices)).tolist())
    texts = [label.encode() for label in known[least : largest + 1]]
    entries = b"".join(len(text).to_bytes(4, "little") + text for text in texts)
    bounds = (present[0], present[-1])
    return _dictionary_chunk(_indices(indices, (least, largest, runs), room), entries, len(texts), bounds)


def _indices(values: NDArray[np.integer], extent: tuple[int, int, int], room: NDArray[np.uint8]) -> bytes:
    """``values`` as a data page of RLE_DICTIONARY. ``extent``: the least, the largest, the number of runs."""
    least, largest, runs = extent
    width = (largest - least).bit_length()
    if runs == 1:
        return _data_page(bytes([0]) + varint(len(values) << 1), len(values), RLE_DICTIONARY)
    pack = pack_runs if width == 0 or 8 * runs < len(values) * width // 8 else pack_bits
    return _data_page(room[: pack(values, least, width, room)].tobytes(), len(values), RLE_DICTIONARY)


def _dictionary_chunk(data: bytes, entries: bytes, count: int, bounds: tuple[bytes, bytes]) -> Chunk:
    return Chunk(_dictionary_page(entries, count), data, (PLAIN, RLE, RLE_DICTIONARY), *bounds)


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


def _footer(columns: Mapping[str, Storage], rows: int, groups: list[bytes], metadata: Mapping[str, str]) -> bytes:
    elements = [struct([binary(4, b"schema"), i32(5, len(columns))])]
    for name, storage in columns.items():
        logical = nested(10, [storage.logical])
        fields = [i32(1, storage.physical), i32(3, REQUIRED), binary(4, name.encode()), i32(6, storage.converted)]
        elements.append(struct([*fields, logical]))
    # Readers may use the least and largest values only if the order of each column is stated: here that of its type.
    orders = [struct([nested(1, [])]) for _ in columns]
    table = many(2, STRUCT, elements), i64(3, rows), many(4, STRUCT, groups)
    texts = [struct([binary(1, key.encode()), binary(2, text.encode())]) for key, text in metadata.items()]
    added = [many(5, STRUCT, texts)] if texts else []
    return struct([i32(1, 2), *table, *added, binary(6, CREATED_BY), many(7, STRUCT, orders)])
