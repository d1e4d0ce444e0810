"""A writer and a reader of Thrift's compact protocol, as far as the metadata of a Parquet file needs it.

A shard has thousands of these numbers, written while a thread holds the interpreter's lock: the short ones are quick.

Source: apache/thrift, doc/specs/thrift-compact-protocol.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

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
        if kind == STRUCT:
            for _, each in self.fields():
                self.skip(each)
        elif kind in (LIST, SET):
            for each in self.elements():
                self.skip(each)
        elif kind in (I16, I32, I64):
            self._varint()
        elif kind == BINARY:
            self.binary()
        elif kind not in SIZES:
            raise ValueError(f"type {kind}")
        else:
            self._forward(SIZES[kind])

    def _forward(self, size: int) -> None:
        self.at += size
        if self.at > len(self._content):
            raise IndexError("the bytes end too soon")

    def _byte(self) -> int:
        self.at += 1
        return self._content[self.at - 1]

    def _varint(self) -> int:
        number = shift = 0
        while (byte := self._byte()) >= 0x80:
            number |= (byte & 0x7F) << shift
            shift += 7
            if shift > 63:
                raise ValueError("a number is too long")
        return number | byte << shift
