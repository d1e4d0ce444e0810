"""A writer of Thrift's compact protocol, as far as the metadata of a Parquet file needs it.

Source: apache/thrift, doc/specs/thrift-compact-protocol.md.
"""

from __future__ import annotations

from collections.abc import Iterable

TRUE, BYTE, I32, I64, BINARY, LIST, STRUCT = 1, 3, 5, 6, 8, 9, 12  # codes of the types in the encoded bytes

Field = tuple[int, int, bytes]  # id, code of the type, encoded value


def varint(number: int) -> bytes:
    """An unsigned number, seven bits a byte, lowest first."""
    result = bytearray()
    while number > 0x7F:
        result.append(number & 0x7F | 0x80)
        number >>= 7
    result.append(number)
    return bytes(result)


def zigzag(number: int) -> bytes:
    """A signed number of at most 64 bits as a varint: 0, -1, 1, -2, ... become 0, 1, 2, 3, ..."""
    return varint((number << 1) ^ (number >> 63))


def struct(fields: Iterable[Field]) -> bytes:
    """A struct; its fields must ascend by id, at most 15 apart."""
    result = bytearray()
    before = 0
    for identifier, kind, value in fields:
        result.append((identifier - before) << 4 | kind)
        result += value
        before = identifier
    result.append(0)
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
