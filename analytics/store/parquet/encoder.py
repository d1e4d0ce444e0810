"""The encoder: tables of integers and labels as the bytes of a Parquet file.

The dictionary of a column of small integers is the range from its least to its largest value. So the index of a value
is its difference from the least one, and nothing is looked up. 64-bit columns are stored as differences between
neighbours, labels as a dictionary and indices. The pages are not compressed, because they would hardly shrink. They
have no checksums, because the name of a file has a checksum of all its bytes.

Source: apache/parquet-format (README.md, Encodings.md, parquet.thrift).
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from analytics.store.parquet.metadata import (
    BINARY,
    BYTE,
    I32,
    MAGIC,
    STRUCT,
    TRUE,
    Field,
    binary_field,
    build_list_field,
    encode_fields_without_stop,
    encode_struct,
    encode_zigzag,
    i32_field,
    i64_field,
    struct_field,
)
from analytics.store.parquet.packing import (
    DELTA_BINARY_PACKED,
    LARGEST_DICTIONARY,
    PLAIN,
    RLE_DICTIONARY,
    ColumnFacts,
    pack_int8_or_int32,
    pack_int64_as_deltas,
)
from analytics.store.parquet.row_groups import (
    COLUMN_CHUNK_BYTES,
    ENCODING_COUNT,
    PAGE_HEADER_BYTES,
    ColumnHeads,
    write_row_group,
)

CREATED_BY = b"quarto-arena"

INT32, INT64, BYTE_ARRAY = 1, 2, 6  # physical types
REQUIRED = 0
RLE = 3  # an encoding, besides those of ``packing``
# All encodings of a chunk by the encoding of its data page: a dictionary is PLAIN, levels would be RLE.
ENCODINGS = {
    PLAIN: (PLAIN, RLE),
    DELTA_BINARY_PACKED: (DELTA_BINARY_PACKED, RLE),
    RLE_DICTIONARY: (PLAIN, RLE, RLE_DICTIONARY),
}
UNCOMPRESSED = 0
DATA_PAGE, DICTIONARY_PAGE = 0, 2


class ColumnStorage(NamedTuple):
    """A column's type as Parquet represents it: the physical, the converted and the logical type."""

    physical: int
    converted: int
    logical: Field


def _encode_signed_type(bits: int) -> Field:
    return struct_field(10, [(1, BYTE, bytes([bits])), (2, TRUE, b"")])


TEXT_STORAGE = ColumnStorage(BYTE_ARRAY, 0, struct_field(1, []))  # UTF8
INTEGER_STORAGE: dict[type[pl.DataType], ColumnStorage] = {
    pl.Int8: ColumnStorage(INT32, 15, _encode_signed_type(8)),
    pl.Int32: ColumnStorage(INT32, 17, _encode_signed_type(32)),
    pl.Int64: ColumnStorage(INT64, 18, _encode_signed_type(64)),
}


class ColumnChunk(NamedTuple):
    """One encoded column of one row group."""

    dictionary: bytes  # page with its header; empty without a dictionary
    header: bytes  # of the data page
    content: memoryview  # of the data page: it lies in the room in which it was packed, to be copied once
    encodings: tuple[int, ...]
    least: bytes  # the statistics: integers as PLAIN values, labels as they are
    largest: bytes


class ParquetBuilder:
    """A Parquet file in memory, built one row group at a time.

    ``schema`` maps the names of the columns to their types. Signed integers of 8, 32 or 64 bits are stored as integers;
    a column of any other type holds strings. ``metadata`` maps keys to texts, which are stored in the footer.
    """

    def __init__(self, schema: Mapping[str, pl.DataType], metadata: Mapping[str, str] | None = None) -> None:
        self.rows = 0
        self._heads: ColumnHeads | None = None  # for ``add_packed_row_group``
        self._rooms = np.empty(0, np.uint8), np.empty(0, np.uint8)  # in which that method encodes a row group
        self._columns = {name: INTEGER_STORAGE.get(type(kind), TEXT_STORAGE) for name, kind in schema.items()}
        self._metadata = metadata or {}
        self._content = bytearray(MAGIC)
        self._groups: list[bytes] = []

    def add_row_group(self, chunks: Iterable[ColumnChunk], rows: int) -> None:
        """Add a row group of ``rows`` rows, with one chunk for each column, in order.

        Each chunk is copied before the next chunk is requested, so all chunks may be packed in the same buffer.
        """
        described, start = [], len(self._content)
        for (name, storage), chunk in zip(self._columns.items(), chunks, strict=True):
            offset = len(self._content)
            self._content += chunk.dictionary
            self._content += chunk.header
            self._content += chunk.content
            size = len(self._content) - offset
            described.append(_encode_column_chunk(name, storage.physical, chunk, rows, offset, size))
        group = [
            build_list_field(1, STRUCT, described),
            i64_field(2, len(self._content) - start),
            i64_field(3, rows),
            i64_field(5, start),
        ]
        self._groups.append(encode_struct(group))
        self.rows += rows

    def add_packed_row_group(self, buffer: NDArray[np.uint8], facts: ColumnFacts, rows: int) -> None:
        """Add a row group of ``rows`` rows whose columns are all integers and lie packed in ``buffer``.

        ``facts`` [columns] are the facts that ``pack_int8_or_int32`` and ``pack_int64_as_deltas`` wrote. The bytes are
        those that ``add_row_group`` would add, but a kernel writes them.
        """
        if self._heads is None:
            self._heads = _build_column_heads(tuple((name, kind.physical) for name, kind in self._columns.items()))
        pages, description = self._rooms
        page_bytes, description_bytes = bound_row_group_bytes(facts, self._heads)
        if len(pages) < page_bytes or len(description) < description_bytes:
            pages, description = self._rooms = np.empty(page_bytes, np.uint8), np.empty(description_bytes, np.uint8)
        sizes = write_row_group(buffer, facts, rows, len(self._content), self._heads, pages, description)
        self._content += pages[: sizes[0]].data
        self._groups.append(description[: sizes[1]].tobytes())
        self.rows += rows

    def finish(self) -> bytearray:
        """Finish the file and return its bytes, without a copy, so that a large file is in memory only once."""
        footer = _encode_footer(self._columns, self.rows, self._groups, self._metadata)
        self._content += footer + len(footer).to_bytes(4, "little") + MAGIC
        return self._content


def encode_parquet(
    groups: Iterable[pl.DataFrame], schema: Mapping[str, pl.DataType], metadata: Mapping[str, str] | None = None
) -> bytearray:
    """Encode a table as a Parquet file from its row groups, which need not be in memory at the same time.

    The columns are Int8, Int32, Int64 or Enum without nulls. Int64 columns should mostly ascend, because they are
    stored as differences. ``metadata`` maps keys to texts, which are stored in the footer. Raises ``KeyError`` if a
    column has another type.
    """
    labels = {name: kind.categories.to_list() for name, kind in schema.items() if isinstance(kind, pl.Enum)}
    file = ParquetBuilder(
        {name: kind for name, kind in schema.items() if name in labels or INTEGER_STORAGE[type(kind)]}, metadata
    )
    room = allocate_buffer(0)
    for group in groups:
        if len(room) < bound_column_bytes(len(group)):
            room = allocate_buffer(len(group))
        chunks = (
            encode_labels(group[name].to_physical().to_numpy().astype(np.int32), labels[name], room)
            if name in labels
            else encode_integers(group[name].to_numpy(), room)
            for name in schema
        )
        file.add_row_group(chunks, len(group))
    return file.finish()


def bound_row_group_bytes(facts: ColumnFacts, heads: ColumnHeads) -> tuple[int, int]:
    """Return the largest numbers of bytes that the pages of a packed row group and its description can need."""
    columns = len(facts.end)
    page_bytes = int(facts.end[-1]) + columns * (PAGE_HEADER_BYTES + 4 * LARGEST_DICTIONARY)
    return page_bytes, columns * (COLUMN_CHUNK_BYTES + heads.heads.shape[2]) + COLUMN_CHUNK_BYTES


def bound_column_bytes(rows: int) -> int:
    """Return the largest number of bytes that packing a column of ``rows`` rows can need."""
    return 9 * rows + 2048


def allocate_buffer(rows: int, columns: int = 1) -> NDArray[np.uint8]:
    """Allocate a buffer for packing the columns of a row group that has at most ``rows`` rows."""
    return np.empty(columns * bound_column_bytes(rows), np.uint8)


def allocate_facts(columns: int = 1) -> ColumnFacts:
    """Allocate arrays for the facts about ``columns`` packed columns."""
    return ColumnFacts(*np.empty((len(ColumnFacts._fields), columns), np.int64))


def encode_integers(values: NDArray[np.integer], buffer: NDArray[np.uint8]) -> ColumnChunk:
    """Encode a column of integers, ``values`` [R] with R > 0.

    The column is packed in ``buffer`` (see ``allocate_buffer``), so the chunk is valid until the buffer is written
    again.
    """
    facts, wide = allocate_facts(), values.dtype == np.int64
    values = np.ascontiguousarray(values)
    if wide:
        pack_int64_as_deltas(values.view(np.int64), buffer, 0, facts, 0)
    else:
        pack_int8_or_int32(values.view(np.uint8), values.itemsize, LARGEST_DICTIONARY, buffer, 0, facts, 0)
    least, largest, encoding, end = (int(column_facts[0]) for column_facts in facts)
    dictionary = _encode_range_dictionary_page(least, largest) if encoding == RLE_DICTIONARY else b""
    size = 8 if wide else 4
    bounds = (least.to_bytes(size, "little", signed=True), largest.to_bytes(size, "little", signed=True))
    header = _encode_data_page_header(end, len(values), encoding)
    return ColumnChunk(dictionary, header, buffer[:end].data, ENCODINGS[encoding], *bounds)


def encode_labels(indices: NDArray[np.integer], labels: Sequence[str], buffer: NDArray[np.uint8]) -> ColumnChunk:
    """Encode a column of labels, given as ``indices`` [R] into ``labels``, with R > 0.

    The column is packed in ``buffer`` (see ``allocate_buffer``), so the chunk is valid until the buffer is written
    again.
    """
    facts = allocate_facts()
    indices = np.ascontiguousarray(indices)
    end = pack_int8_or_int32(indices.view(np.uint8), indices.itemsize, len(labels), buffer, 0, facts, 0)  # never PLAIN
    least, largest = int(facts.least[0]), int(facts.largest[0])
    numbers = np.flatnonzero(np.bincount(indices)).tolist() if largest > least + 1 else (least, largest)
    present = sorted(labels[number].encode() for number in numbers)
    dictionary, content = _encode_text_dictionary_page(tuple(labels[least : largest + 1])), buffer[:end].data
    header = _encode_data_page_header(end, len(indices), RLE_DICTIONARY)
    return ColumnChunk(dictionary, header, content, ENCODINGS[RLE_DICTIONARY], present[0], present[-1])


# The functions below that are cached return what most row groups have in common. A file has hundreds of column chunks,
# and Python would otherwise need as long to describe them as the kernels need to pack them.


@functools.lru_cache(maxsize=1024)
def _encode_data_page_header(size: int, rows: int, encoding: int) -> bytes:
    """Encode the header of a data page whose content has ``size`` bytes.

    The encoding of levels is given as RLE, although required columns have no levels.
    """
    data_page = [i32_field(1, rows), i32_field(2, encoding), i32_field(3, RLE), i32_field(4, RLE)]
    return _encode_page_header(DATA_PAGE, size, struct_field(5, data_page))


def _encode_page_header(kind: int, size: int, of_kind: Field) -> bytes:
    return encode_struct([i32_field(1, kind), i32_field(2, size), i32_field(3, size), of_kind])


@functools.lru_cache(maxsize=64)  # wide ones are large and seldom the same
def _encode_range_dictionary_page(least: int, largest: int) -> bytes:
    """Encode a dictionary page of all integers from ``least`` to ``largest``."""
    return _encode_dictionary_page(np.arange(least, largest + 1, dtype="<i4").tobytes(), largest - least + 1)


@functools.lru_cache(maxsize=256)
def _encode_text_dictionary_page(texts: tuple[str, ...]) -> bytes:
    entries = [text.encode() for text in texts]
    return _encode_dictionary_page(
        b"".join(len(entry).to_bytes(4, "little") + entry for entry in entries), len(entries)
    )


def _encode_dictionary_page(content: bytes, entries: int) -> bytes:
    return (
        _encode_page_header(
            DICTIONARY_PAGE, len(content), struct_field(7, [i32_field(1, entries), i32_field(2, PLAIN)])
        )
        + content
    )


def _encode_column_chunk(name: str, physical: int, chunk: ColumnChunk, rows: int, offset: int, size: int) -> bytes:
    """Encode the struct ``ColumnChunk`` of a chunk of ``size`` bytes that begins at ``offset`` in the file."""
    # The offsets are all that differs from row group to row group.
    offsets = [i64_field(9, offset + len(chunk.dictionary)), *([i64_field(11, offset)] if chunk.dictionary else [])]
    head = _encode_column_chunk_head(name, physical, chunk.encodings, rows, size)
    tail = _encode_column_chunk_tail(chunk.least, chunk.largest, offsets[-1][0])
    return head + encode_fields_without_stop(offsets, 7) + tail


@functools.lru_cache(maxsize=64)
def _build_column_heads(columns: tuple[tuple[str, int], ...]) -> ColumnHeads:
    """Build the heads of the descriptions of columns, which are given as names and physical types."""
    heads = {
        (number, encoding): _encode_column_metadata(*column, encodings)
        for number, column in enumerate(columns)
        for encoding, encodings in ENCODINGS.items()
    }
    shape = len(columns), ENCODING_COUNT
    result = ColumnHeads(
        np.zeros((*shape, max(map(len, heads.values()))), np.uint8),
        np.zeros(shape, np.int64),
        np.array([8 if physical == INT64 else 4 for _, physical in columns]),
    )
    for place, head in heads.items():
        result.heads[place][: len(head)], result.sizes[place] = list(head), len(head)
    return result


@functools.lru_cache(maxsize=256)
def _encode_column_metadata(name: str, physical: int, encodings: tuple[int, ...]) -> bytes:
    """Encode the first four fields of the struct ``ColumnMetaData``."""
    listed = build_list_field(2, I32, [encode_zigzag(encoding) for encoding in encodings])
    path = build_list_field(3, BINARY, [binary_field(0, name.encode())[2]])
    return encode_fields_without_stop([i32_field(1, physical), listed, path, i32_field(4, UNCOMPRESSED)])


@functools.lru_cache(maxsize=1024)
def _encode_column_chunk_head(name: str, physical: int, encodings: tuple[int, ...], rows: int, size: int) -> bytes:
    """Encode the struct ``ColumnChunk`` as far as the seventh field of the struct ``ColumnMetaData`` in it."""
    numbers = encode_fields_without_stop([i64_field(5, rows), i64_field(6, size), i64_field(7, size)], 4)
    metadata = _encode_column_metadata(name, physical, encodings) + numbers
    return encode_fields_without_stop([i64_field(2, 0), (3, STRUCT, metadata)])


@functools.lru_cache(maxsize=256)
def _encode_column_chunk_tail(least: bytes, largest: bytes, previous_id: int) -> bytes:
    """Encode the statistics of a chunk and the ends of the structs ``ColumnMetaData`` and ``ColumnChunk``.

    ``previous_id`` is the id of the field before the statistics.
    """
    statistics = struct_field(12, [i64_field(3, 0), binary_field(5, largest), binary_field(6, least)])
    return encode_struct([statistics], previous_id=previous_id) + b"\0"


def _encode_footer(
    columns: Mapping[str, ColumnStorage], rows: int, groups: list[bytes], metadata: Mapping[str, str]
) -> bytes:
    elements = [encode_struct([binary_field(4, b"schema"), i32_field(5, len(columns))])]
    for name, storage in columns.items():
        logical = struct_field(10, [storage.logical])
        fields = [
            i32_field(1, storage.physical),
            i32_field(3, REQUIRED),
            binary_field(4, name.encode()),
            i32_field(6, storage.converted),
        ]
        elements.append(encode_struct([*fields, logical]))
    # Readers may use the least and largest values only if the order of each column is stated: here that of its type.
    orders = [encode_struct([struct_field(1, [])]) for _ in columns]
    table = build_list_field(2, STRUCT, elements), i64_field(3, rows), build_list_field(4, STRUCT, groups)
    texts = [
        encode_struct([binary_field(1, key.encode()), binary_field(2, text.encode())]) for key, text in metadata.items()
    ]
    added = [build_list_field(5, STRUCT, texts)] if texts else []
    return encode_struct(
        [i32_field(1, 2), *table, *added, binary_field(6, CREATED_BY), build_list_field(7, STRUCT, orders)]
    )
