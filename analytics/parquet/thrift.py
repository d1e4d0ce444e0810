"""A writer of Thrift's compact protocol, as far as the metadata of a Parquet file needs it.

A shard has thousands of these numbers, written while a thread holds the interpreter's lock: the short ones are quick.

Source: apache/thrift, doc/specs/thrift-compact-protocol.md.
"""

from __future__ import annotations

from collections.abc import Iterable

TRUE, BYTE, I32, I64, BINARY, LIST, STRUCT = 1, 3, 5, 6, 8, 9, 12  # codes of the types in the encoded bytes

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
