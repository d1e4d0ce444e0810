"""The metadata of a Parquet file: written and read in Thrift's compact protocol, and counted before columns are read.

A shard has thousands of these numbers, written while a thread holds the interpreter's lock: the short ones are quick.

A few kilobytes may unpack to gigabytes, and a file may come from a stranger. So every reader of files first asks its
footer how many rows there are, and how much they take.

Sources: apache/thrift, doc/specs/thrift-compact-protocol.md; apache/parquet-format, src/main/thrift/parquet.thrift.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterable, Iterator
from typing import NamedTuple

# Codes of the types in the encoded bytes.
TRUE, FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, STRUCT = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12
SIZES = {TRUE: 0, FALSE: 0, BYTE: 1, DOUBLE: 8}  # in bytes, of a field's value

Field = tuple[int, int, bytes]  # id, code of the type, encoded value

_SINGLE_BYTES = tuple(bytes([byte]) for byte in range(0x80))


def varint(number: int) -> bytes:
    """An unsigned number, seven bits a byte, lowest first."""
    if number < 0x80:
        return _SINGLE_BYTES[number]
    if number < 0x4000:
        return bytes((number & 0x7F | 0x80, number >> 7))
    return bytes((number & 0x7F | 0x80, number >> 7 & 0x7F | 0x80)) + varint(number >> 14)


def zigzag(number: int) -> bytes:
    """A signed number of at most 64 bits as a varint: 0, -1, 1, -2, ... become 0, 1, 2, 3, ..."""
    return varint((number << 1) ^ (number >> 63))


def struct(fields: Iterable[Field], first: bytes = b"", before: int = 0) -> bytes:
    """A struct; its fields must ascend by id, at most 15 apart.

    ``first`` are fields that are encoded already (``part``), up to the id ``before``.
    """
    return first + part(fields, before) + b"\0"


def part(fields: Iterable[Field], before: int = 0) -> bytes:
    """Some consecutive fields of a struct, after one with the id ``before``."""
    result = bytearray()
    for identifier, kind, value in fields:
        result.append((identifier - before) << 4 | kind)
        result += value
        before = identifier
    return bytes(result)


def i32(identifier: int, number: int) -> Field:
    """A 32-bit number as a field."""
    return identifier, I32, zigzag(number)


def i64(identifier: int, number: int) -> Field:
    """A 64-bit number as a field."""
    return identifier, I64, zigzag(number)


def binary(identifier: int, value: bytes) -> Field:
    """Bytes or UTF-8 text as a field."""
    return identifier, BINARY, varint(len(value)) + value


def nested(identifier: int, fields: Iterable[Field]) -> Field:
    """A struct as a field."""
    return identifier, STRUCT, struct(fields)


def many(identifier: int, kind: int, values: list[bytes]) -> Field:
    """A list of values of one type as a field."""
    head = bytes([len(values) << 4 | kind]) if len(values) < 15 else bytes([0xF0 | kind]) + varint(len(values))
    return identifier, LIST, head + b"".join(values)


class Reader:
    """Reads fields one after the other; nothing is kept of those that are skipped.

    What it reads may be a stranger's. It raises ``IndexError`` where the bytes end too soon, ``ValueError`` or
    ``RecursionError`` for other bytes that are none of this protocol.
    """

    def __init__(self, content: bytes) -> None:
        self._content = content
        self.at = 0  # bytes that were read

    def fields(self) -> Iterator[tuple[int, int]]:
        """The id and the type of each field of a struct. Its value has to be read, or skipped, before the next."""
        identifier = 0
        while head := self._byte():
            identifier = identifier + (head >> 4) if head >> 4 else self.number()
            yield identifier, head & 15

    def elements(self) -> Iterator[int]:
        """The type of each element of a list. Each has to be read, or skipped, before the next."""
        head = self._byte()
        kind = BYTE if head & 15 <= FALSE else head & 15  # in a list a truth value takes a byte
        for _ in range(self._varint() if head >> 4 == 15 else head >> 4):
            yield kind

    def number(self) -> int:
        """A signed number."""
        found = self._varint()
        return (found >> 1) ^ -(found & 1)

    def binary(self) -> bytes:
        """Bytes or UTF-8 text."""
        size = self._varint()
        self._forward(size)
        return self._content[self.at - size : self.at]

    def skip(self, kind: int) -> None:
        """Pass over a value."""
        self.at = _end_of(self._content, self.at, kind)
        self._forward(0)

    def _forward(self, size: int) -> None:
        self.at += size
        if self.at > len(self._content):
            raise IndexError("the bytes end too soon")

    def _byte(self) -> int:
        self.at += 1
        return self._content[self.at - 1]

    def _varint(self) -> int:
        number, self.at = _varint_at(self._content, self.at)
        return number


def _varint_at(content: bytes, at: int) -> tuple[int, int]:
    """The unsigned number that begins at a byte, and where it ends."""
    byte = content[at]
    if byte < 0x80:
        return byte, at + 1
    number = shift = 0
    while byte >= 0x80:
        number |= (byte & 0x7F) << shift
        shift += 7
        if shift > 63:
            raise ValueError("a number is too long")
        at += 1
        byte = content[at]
    return number | byte << shift, at + 1


def _end_of(content: bytes, at: int, kind: int) -> int:
    """Where a value ends that begins at a byte: nearly all of a footer is passed over, and this is its only loop."""
    if kind in (I16, I32, I64):
        while content[at] >= 0x80:
            at += 1
        return at + 1
    if kind == BINARY:
        size, at = _varint_at(content, at)
        return at + size
    if kind == STRUCT:
        while head := content[at]:
            at = _end_of(content, at + 1 if head >> 4 else _end_of(content, at + 1, I64), head & 15)
        return at + 1
    if kind in (LIST, SET):
        head, at = content[at], at + 1
        size, at = _varint_at(content, at) if head >> 4 == 15 else (head >> 4, at)
        each = BYTE if head & 15 <= FALSE else head & 15
        if each in SIZES:  # however many a stranger says there are
            return at + size * SIZES[each]
        for _ in range(size):
            at = _end_of(content, at, each)
        return at
    if kind not in SIZES:
        raise ValueError(f"type {kind}")
    return at + SIZES[kind]


# The footer, at the end of a file.

MAGIC = b"PAR1"
ENDING = 8  # bytes: the size of the footer, and the magic
VALUE_BYTES = 8  # that a value takes in memory, at most; texts are kept once
MOST_UNPACKED = 1000  # bytes of a table for each byte of its file; of what we write, 440 at most
HEADER = 1 << 16  # of a page, at most
UNCOMPRESSED = 0  # codec
FREE_BYTES = 1 << 20  # of a table or a footer, however small the file is


class Footer(NamedTuple):
    """The facts about a table that are known without reading it."""

    rows: int
    columns: tuple[str, ...]


class _Chunk(NamedTuple):
    """A column of a row group, as the footer describes it."""

    codec: int = -1
    values: int = -1
    unpacked: int = -1  # bytes
    packed: int = -1
    data: int = -1  # offset of its first page of values
    dictionary: int = 0  # offset of its dictionary; 0: it has none


_Group = tuple[int, list[_Chunk]]  # rows, columns
CHUNK = {4: "codec", 5: "values", 6: "unpacked", 7: "packed", 9: "data", 11: "dictionary"}  # fields by id


def footer_of(file: io.BufferedIOBase) -> Footer:
    """The facts about the table in a file, which is at its beginning then.

    Raises ``ValueError`` for a file that is no Parquet file, contradicts itself, or would unpack to too much.
    """
    size = file.seek(0, os.SEEK_END)
    try:
        found, groups = _parsed(Reader(_content(file, size)))
        _require(sum(chunk.packed for _, chunks in groups for chunk in chunks) <= size)
        unpacked = sum(_in_memory(chunk, rows, file) for rows, chunks in groups for chunk in chunks)
    except (IndexError, ValueError, RecursionError) as error:
        raise ValueError("is not a readable Parquet file: its footer is damaged") from error
    if unpacked > MOST_UNPACKED * size + FREE_BYTES:
        raise ValueError(f"has {size:,} bytes and would unpack to {unpacked:,}: no table is so repetitive")
    file.seek(0)
    return found


def _content(file: io.BufferedIOBase, size: int) -> bytes:
    """The bytes of the footer. Its size is limited, because parsing takes a microsecond a byte."""
    file.seek(max(0, size - ENDING))
    tail = file.read(ENDING)
    length = int.from_bytes(tail[:4], "little")
    if tail[4:] != MAGIC or length > min(size - ENDING, FREE_BYTES + size // 50):
        raise ValueError
    file.seek(size - ENDING - length)
    return file.read(length)


def _parsed(reader: Reader) -> tuple[Footer, list[_Group]]:
    """The facts in a footer, and its row groups."""
    rows, columns, groups = -1, list[str](), list[_Group]()
    for field, kind in reader.fields():
        if (field, kind) == (2, LIST):
            columns = [_name(reader, each) for each in reader.elements()]
        elif (field, kind) == (3, I64):
            rows = reader.number()
        elif (field, kind) == (4, LIST):
            groups += [_group(reader, each) for each in reader.elements()]
        else:
            reader.skip(kind)
    _require(rows == sum(rows for rows, _ in groups))
    return Footer(rows, tuple(columns[1:])), groups  # the first element is the whole


def _name(reader: Reader, kind: int) -> str:
    """The name of an element of the schema."""
    _require(kind == STRUCT)
    name = b""
    for field, each in reader.fields():
        if field == 4:
            name = reader.binary()
        else:
            reader.skip(each)
    _require(name.decode().isprintable())  # it is shown
    return name.decode()


def _group(reader: Reader, kind: int) -> _Group:
    """The number of rows of a row group, and its columns."""
    _require(kind == STRUCT)
    rows, chunks = -1, list[_Chunk]()
    for field, each in reader.fields():
        if (field, each) == (1, LIST):
            chunks += [_chunk(reader, column) for column in reader.elements()]
        elif (field, each) == (3, I64):
            rows = reader.number()
        else:
            reader.skip(each)
    _require(rows >= 0)
    return rows, chunks


def _chunk(reader: Reader, kind: int) -> _Chunk:
    """A column of a row group."""
    _require(kind == STRUCT)
    facts: dict[str, int] = {}
    for field, each in reader.fields():
        if (field, each) != (3, STRUCT):
            reader.skip(each)
            continue
        for inner, its in reader.fields():
            if inner in CHUNK and its in (I32, I64):
                facts[CHUNK[inner]] = reader.number()
            else:
                reader.skip(its)
    found = _Chunk(**facts)
    _require(min(found) >= 0)
    return found


def _in_memory(chunk: _Chunk, rows: int, file: io.BufferedIOBase) -> int:
    """The bytes that a column of a row group may take in memory.

    Readers make room for a compressed page by the size in its header, whatever the footer says.
    """
    sizes = [chunk.unpacked, VALUE_BYTES * max(rows, chunk.values)]
    if chunk.codec != UNCOMPRESSED:
        at, pages = chunk.dictionary or chunk.data, 0
        end = at + chunk.packed
        while at < end:
            file.seek(at)
            reader, unpacked, packed = Reader(file.read(HEADER)), -1, -1
            for field, kind in reader.fields():
                if field in (2, 3) and kind == I32:
                    unpacked, packed = (reader.number(), packed) if field == 2 else (unpacked, reader.number())
                else:
                    reader.skip(kind)
            _require(min(unpacked, packed) >= 0)
            pages += unpacked
            at += reader.at + packed
        sizes.append(pages)
    return max(sizes)


def _require(sound: bool) -> None:
    if not sound:
        raise ValueError
