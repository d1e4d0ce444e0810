"""The metadata of a Parquet file: written and read in Thrift's compact protocol, and counted before columns are read.

A shard has thousands of these numbers, written while a thread holds the interpreter's lock: the short ones are quick.

A few kilobytes may unpack to gigabytes, and a file may come from a stranger. So every reader of files first asks its
footer how many rows there are, and how much they take.

Sources: apache/thrift, doc/specs/thrift-compact-protocol.md; apache/parquet-format, src/main/thrift/parquet.thrift.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

# Codes of the types in the encoded bytes.
TRUE, FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, STRUCT = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12
SIZES = {TRUE: 0, FALSE: 0, BYTE: 1, DOUBLE: 8}  # in bytes, of a field's value

Field = tuple[int, int, bytes]  # id, code of the type, encoded value
# The form of a field that is read: a code of a type, the wanted fields of a struct by id, or a list of such structs.
Form = int | Mapping[int, Any] | list[Any]
Wanted = Mapping[int, Form]

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


def read_struct(content: bytes, at: int, wanted: Wanted) -> tuple[dict[int, Any], int]:
    """The values of some fields, by id, of a struct that begins at a byte, and where it ends; the others are skipped.

    The bytes may be a stranger's. Raises ``IndexError`` where they end too soon, ``ValueError`` or ``RecursionError``
    for other bytes that are none of this protocol.
    """
    identifier, found = 0, dict[int, Any]()
    while head := content[at]:
        at, kind = at + 1, head & 15
        if head >> 4:
            identifier += head >> 4
        else:
            identifier, at = _number_at(content, at)
        form = wanted.get(identifier)
        if form is None or kind != (form if isinstance(form, int) else LIST if isinstance(form, list) else STRUCT):
            at = _end_of(content, at, kind)
            continue
        _require(identifier not in found)
        found[identifier], at = _value_at(content, at, form)
    return found, at + 1


def _value_at(content: bytes, at: int, form: Form) -> tuple[Any, int]:
    """A value of a wanted form that begins at a byte, and where it ends."""
    if form == BINARY:
        size, at = _varint_at(content, at)
        return content[at : at + size], at + size
    if isinstance(form, int):
        return _number_at(content, at)
    if isinstance(form, Mapping):
        return read_struct(content, at, form)
    head, at = content[at], at + 1
    size, at = _varint_at(content, at) if head >> 4 == 15 else (head >> 4, at)
    found = []
    for _ in range(size):
        _require(head & 15 == STRUCT)
        each, at = read_struct(content, at, form[0])
        found.append(each)
    return found, at


def _number_at(content: bytes, at: int) -> tuple[int, int]:
    """The signed number that begins at a byte, and where it ends."""
    found, at = _varint_at(content, at)
    return (found >> 1) ^ -(found & 1), at


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


# What the footer says of a column of a row group: its codec, its values, its bytes unpacked and packed, and the offsets
# of its first page of values and of its dictionary, which it may lack.
CODEC, VALUES, UNPACKED, PACKED, DATA, DICTIONARY = 4, 5, 6, 7, 9, 11  # fields by id
COLUMN: Wanted = {3: {CODEC: I32} | dict.fromkeys((VALUES, UNPACKED, PACKED, DATA, DICTIONARY), I64)}
FOOTER: Wanted = {2: [{4: BINARY}], 3: I64, 4: [{1: [COLUMN], 3: I64}]}  # names, rows, row groups
PAGE: Wanted = {2: I32, 3: I32}  # bytes unpacked and packed


def footer_of(file: io.BufferedIOBase) -> Footer:
    """The facts about the table in a file, which is at its beginning then.

    Raises ``ValueError`` for a file that is no Parquet file, contradicts itself, or would unpack to too much.
    """
    size = file.seek(0, os.SEEK_END)
    try:
        found, groups = _parsed(_content(file, size))
        _require(sum(chunk[PACKED] for _, chunks in groups for chunk in chunks) <= size)
        unpacked = sum(_in_memory(chunk, rows, file) for rows, chunks in groups for chunk in chunks)
    except (LookupError, ValueError, RecursionError) as error:
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


def _parsed(content: bytes) -> tuple[Footer, list[tuple[int, list[dict[int, int]]]]]:
    """The facts in a footer, and its row groups: the rows and the columns of each."""
    found, _ = read_struct(content, 0, FOOTER)
    names = [each[4].decode() for each in found[2]]
    groups = [(group[3], [column[3] for column in group[1]]) for group in found[4]]
    _require(all(map(str.isprintable, names)))  # they are shown
    _require(min((rows for rows, _ in groups), default=0) >= 0 and found[3] == sum(rows for rows, _ in groups))
    return Footer(found[3], tuple(names[1:])), groups  # the first element is the whole


def _in_memory(chunk: Mapping[int, int], rows: int, file: io.BufferedIOBase) -> int:
    """The bytes that a column of a row group may take in memory.

    Readers make room for a compressed page by the size in its header, whatever the footer says.
    """
    _require(min(chunk.values()) >= 0 and DATA in chunk)
    sizes = [chunk[UNPACKED], VALUE_BYTES * max(rows, chunk[VALUES])]
    if chunk[CODEC] != UNCOMPRESSED:
        at, pages = chunk.get(DICTIONARY) or chunk[DATA], 0
        end = at + chunk[PACKED]
        while at < end:
            file.seek(at)
            header, size = read_struct(file.read(HEADER), 0, PAGE)
            _require(min(header[2], header[3]) >= 0)
            pages += header[2]
            at += size + header[3]
        sizes.append(pages)
    return max(sizes)


def _require(sound: bool) -> None:
    if not sound:
        raise ValueError
