"""The encoder: tables of integers and labels as the bytes of a Parquet file.

The dictionary of a column of small integers is the range from its least to its largest value. So the index of a value
is its difference from the least one, and nothing is looked up. 64-bit columns are stored as differences between
neighbours, labels as a dictionary and indices. The pages are not compressed, because they would hardly shrink. They
have no checksums: the name of a file has one of all its bytes.

Source: apache/parquet-format (README.md, Encodings.md, parquet.thrift).
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from analytics.store.parquet.metadata import (
    BINARY,
    BYTE,
    I32,
    I64,
    MAGIC,
    STRUCT,
    TRUE,
    Field,
    binary,
    i32,
    i64,
    many,
    nested,
    part,
    struct,
    zigzag,
)
from analytics.store.parquet.packing import (
    DELTA_BINARY_PACKED,
    LARGEST_DICTIONARY,
    PLAIN,
    RLE_DICTIONARY,
    Facts,
    pack_ascending,
    pack_small,
)

CREATED_BY = b"quarto-arena"

INT32, INT64, BYTE_ARRAY = 1, 2, 6  # physical types
REQUIRED = 0
RLE = 3  # an encoding, besides those of ``packing``
# All encodings of a chunk by that of its data page: a dictionary is PLAIN, levels would be RLE.
ENCODINGS = {
    PLAIN: (PLAIN, RLE),
    DELTA_BINARY_PACKED: (DELTA_BINARY_PACKED, RLE),
    RLE_DICTIONARY: (PLAIN, RLE, RLE_DICTIONARY),
}
UNCOMPRESSED = 0
DATA_PAGE, DICTIONARY_PAGE = 0, 2


class ColumnStorage(NamedTuple):
    """The storage of a type: physical type, converted type, logical type."""

    physical: int
    converted: int
    logical: Field


def _signed(bits: int) -> Field:
    return nested(10, [(1, BYTE, bytes([bits])), (2, TRUE, b"")])


TEXT = ColumnStorage(BYTE_ARRAY, 0, nested(1, []))  # UTF8
INTEGERS: dict[type[pl.DataType], ColumnStorage] = {
    pl.Int8: ColumnStorage(INT32, 15, _signed(8)),
    pl.Int32: ColumnStorage(INT32, 17, _signed(32)),
    pl.Int64: ColumnStorage(INT64, 18, _signed(64)),
}


class ColumnChunk(NamedTuple):
    """One column of one row group, encoded."""

    dictionary: bytes  # page with its header; empty without a dictionary
    header: bytes  # of the data page
    content: memoryview  # of the data page: it lies in the room in which it was packed, to be copied once
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
        # [columns] types, for ``packed_integers``
        self.physical = [storage.physical for storage in self._columns.values()]
        self._metadata = metadata or {}
        self._content = bytearray(MAGIC)
        self._groups: list[bytes] = []

    def add(self, chunks: Iterable[ColumnChunk], rows: int) -> None:
        """Add a row group of ``rows`` rows: a chunk for each column, in order.

        Each is copied before the next is asked for, so that all may be packed in the same room.
        """
        described, start = [], len(self._content)
        for (name, storage), chunk in zip(self._columns.items(), chunks, strict=True):
            offset = len(self._content)
            self._content += chunk.dictionary
            self._content += chunk.header
            self._content += chunk.content
            described.append(_describe(name, storage.physical, chunk, rows, offset, len(self._content)))
        group = [many(1, STRUCT, described), i64(2, len(self._content) - start), i64(3, rows), i64(5, start)]
        self._groups.append(struct(group))
        self.rows += rows

    def ended(self) -> bytearray:
        """The file, which does not grow any more. It is not copied: large ones take their size in memory once."""
        footer = _footer(self._columns, self.rows, self._groups, self._metadata)
        self._content += footer + len(footer).to_bytes(4, "little") + MAGIC
        return self._content


def encode(
    groups: Iterable[pl.DataFrame], schema: Mapping[str, pl.DataType], metadata: Mapping[str, str] | None = None
) -> bytearray:
    """A Parquet file of a table from its row groups, which need not be in memory at once.

    Its columns are Int8, Int32, Int64 or Enum without nulls. Int64 columns should ascend for the most part: they are
    stored as differences. ``metadata`` are texts by key for the footer. Raises ``KeyError`` for other types.
    """
    known = {name: kind.categories.to_list() for name, kind in schema.items() if isinstance(kind, pl.Enum)}
    file = ParquetFile({name: kind for name, kind in schema.items() if name in known or INTEGERS[type(kind)]}, metadata)
    room = buffer_for(0)
    for group in groups:
        if len(room) < bytes_for(len(group)):
            room = buffer_for(len(group))
        chunks = (
            labels(group[name].to_physical().to_numpy().astype(np.int32), known[name], room)
            if name in known
            else integers(group[name].to_numpy(), room)
            for name in schema
        )
        file.add(chunks, len(group))
    return file.ended()


def bytes_for(rows: int) -> int:
    """The most bytes that packing a column of so many rows needs."""
    return 9 * rows + 2048


def buffer_for(rows: int, columns: int = 1) -> NDArray[np.uint8]:
    """Room in which columns of a row group of at most so many rows are packed."""
    return np.empty(columns * bytes_for(rows), np.uint8)


def facts_for(columns: int = 1) -> Facts:
    """Room for the facts about columns that are packed."""
    return Facts(*np.empty((len(Facts._fields), columns), np.int64))


def integers(values: NDArray[np.integer], room: NDArray[np.uint8]) -> ColumnChunk:
    """A column of integers, ``values`` [R], R > 0.

    It is packed in ``room`` (``buffer_for``), so the chunk is valid until that is written again.
    """
    facts, wide = facts_for(), values.dtype == np.int64
    values = np.ascontiguousarray(values)
    if wide:
        pack_ascending(values.view(np.int64), room, 0, facts, 0)
    else:
        pack_small(values.view(np.uint8), values.itemsize, LARGEST_DICTIONARY, room, 0, facts, 0)
    (chunk,) = packed_integers((INT64 if wide else INT32,), len(values), room, facts)
    return chunk


def packed_integers(physical: Sequence[int], rows: int, room: NDArray[np.uint8], facts: Facts) -> Iterator[ColumnChunk]:
    """Columns of integers that are packed in ``room``, one after the other: valid until that is written again.

    ``physical`` [columns] are their types, ``facts`` [columns] what ``pack_small`` and ``pack_ascending`` wrote.
    """
    start = 0
    for kind, least, largest, encoding, end in zip(physical, *(each.tolist() for each in facts), strict=True):
        content = room[start:end].data
        dictionary = _range_page(least, largest) if encoding == RLE_DICTIONARY else b""
        size = 8 if kind == INT64 else 4
        bounds = (least.to_bytes(size, "little", signed=True), largest.to_bytes(size, "little", signed=True))
        header = _page_header(DATA_PAGE, content, _data_page_header(rows, encoding))
        yield ColumnChunk(dictionary, header, content, ENCODINGS[encoding], *bounds)
        start = end


def labels(indices: NDArray[np.integer], known: Sequence[str], room: NDArray[np.uint8]) -> ColumnChunk:
    """A column of labels: ``indices`` [R], R > 0, into ``known``.

    It is packed in ``room`` (``buffer_for``), so the chunk is valid until that is written again.
    """
    facts = facts_for()
    indices = np.ascontiguousarray(indices)
    end = pack_small(indices.view(np.uint8), indices.itemsize, len(known), room, 0, facts, 0)  # never PLAIN
    least, largest = int(facts.least[0]), int(facts.largest[0])
    numbers = np.flatnonzero(np.bincount(indices)).tolist() if largest > least + 1 else (least, largest)
    present = sorted(known[number].encode() for number in numbers)
    dictionary, content = _text_page(tuple(known[least : largest + 1])), room[:end].data
    header = _page_header(DATA_PAGE, content, _data_page_header(len(indices), RLE_DICTIONARY))
    return ColumnChunk(dictionary, header, content, ENCODINGS[RLE_DICTIONARY], present[0], present[-1])


def _page_header(kind: int, content: bytes | memoryview, of_kind: Field) -> bytes:
    size = zigzag(len(content))
    return struct([i32(1, kind), (2, I32, size), (3, I32, size), of_kind])


@functools.lru_cache(maxsize=256)  # here and below: what most row groups have in common
def _data_page_header(rows: int, encoding: int) -> Field:
    """A required column has no definition or repetition levels; RLE is the encoding that they would have."""
    return nested(5, [i32(1, rows), i32(2, encoding), i32(3, RLE), i32(4, RLE)])


@functools.lru_cache(maxsize=64)  # wide ones are large and seldom the same
def _range_page(least: int, largest: int) -> bytes:
    """The dictionary of all integers from the least to the largest."""
    return _dictionary_page(np.arange(least, largest + 1, dtype="<i4").tobytes(), largest - least + 1)


@functools.lru_cache(maxsize=256)
def _text_page(texts: tuple[str, ...]) -> bytes:
    """The dictionary of texts."""
    entries = [text.encode() for text in texts]
    return _dictionary_page(b"".join(len(entry).to_bytes(4, "little") + entry for entry in entries), len(entries))


def _dictionary_page(content: bytes, entries: int) -> bytes:
    return _page_header(DICTIONARY_PAGE, content, nested(7, [i32(1, entries), i32(2, PLAIN)])) + content


def _describe(name: str, physical: int, chunk: ColumnChunk, rows: int, offset: int, end: int) -> bytes:
    """The ``ColumnChunk`` of a chunk from ``offset`` to before ``end`` of the file."""
    size = zigzag(end - offset)
    metadata = [
        i64(5, rows),
        (6, I64, size),
        (7, I64, size),
        i64(9, offset + len(chunk.dictionary)),
        *([i64(11, offset)] if chunk.dictionary else []),
        _statistics(chunk.least, chunk.largest),
    ]
    return struct([i64(2, 0), (3, STRUCT, struct(metadata, _column(name, physical, chunk.encodings), 4))])


@functools.lru_cache(maxsize=256)
def _column(name: str, physical: int, encodings: tuple[int, ...]) -> bytes:
    """The first four fields of a ``ColumnMetaData``."""
    listed = many(2, I32, [zigzag(encoding) for encoding in encodings])
    path = many(3, BINARY, [binary(0, name.encode())[2]])
    return part([i32(1, physical), listed, path, i32(4, UNCOMPRESSED)])


@functools.lru_cache(maxsize=256)
def _statistics(least: bytes, largest: bytes) -> Field:
    return nested(12, [i64(3, 0), binary(5, largest), binary(6, least)])


def _footer(columns: Mapping[str, ColumnStorage], rows: int, groups: list[bytes], metadata: Mapping[str, str]) -> bytes:
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
