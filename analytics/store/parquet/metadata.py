"""The metadata of a Parquet file: written and read in Thrift's compact protocol, and checked before columns are read.

A file has thousands of these numbers, and they are written while a thread holds the interpreter's lock. So short
numbers take a short path.

A few kilobytes may unpack to gigabytes, and a file may come from a stranger. So every reader of files first asks its
footer how many rows there are, and how much they take.

Sources: apache/thrift, doc/specs/thrift-compact-protocol.md; apache/parquet-format, src/main/thrift/parquet.thrift.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

# Codes of the types in the encoded bytes.
TRUE, FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, STRUCT = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12
SIZES = {TRUE: 0, FALSE: 0, BYTE: 1, DOUBLE: 8}  # in bytes, of a field's value
_VARINT_KINDS = frozenset({I16, I32, I64})

Field = tuple[int, int, bytes]  # id, code of the type, encoded value
# The form of a field that is read: a code of a type, the wanted fields of a struct by id, or a list of such structs.
FieldForm = int | Mapping[int, Any] | list[Any]
StructForm = Mapping[int, FieldForm]

_SINGLE_BYTES = tuple(bytes([byte]) for byte in range(0x80))


def encode_varint(number: int) -> bytes:
    """Encode an unsigned number with seven bits in each byte, lowest bits first."""
    if number < 0x80:
        return _SINGLE_BYTES[number]
    if number < 0x4000:
        return bytes((number & 0x7F | 0x80, number >> 7))
    return bytes((number & 0x7F | 0x80, number >> 7 & 0x7F | 0x80)) + encode_varint(number >> 14)


def encode_zigzag(number: int) -> bytes:
    """Encode a signed number of at most 64 bits as a varint, with 0, -1, 1, -2, ... written as 0, 1, 2, 3, ..."""
    return encode_varint((number << 1) ^ (number >> 63))


def encode_struct(fields: Iterable[Field], encoded_fields: bytes = b"", previous_id: int = 0) -> bytes:
    """Encode a struct, whose fields must come in ascending order of id, with ids at most 15 apart.

    ``encoded_fields`` holds the first fields, already encoded; the last of these has the id ``previous_id``.
    """
    return encoded_fields + encode_fields_without_stop(fields, previous_id) + b"\0"


def encode_fields_without_stop(fields: Iterable[Field], previous_id: int = 0) -> bytes:
    """Encode consecutive fields of a struct, without the end of the struct.

    ``previous_id`` is the id of the field before them.
    """
    result = bytearray()
    for identifier, kind, value in fields:
        result.append((identifier - previous_id) << 4 | kind)
        result += value
        previous_id = identifier
    return bytes(result)


def i32_field(identifier: int, number: int) -> Field:
    """Encode a 32-bit number as a field."""
    return identifier, I32, encode_zigzag(number)


def i64_field(identifier: int, number: int) -> Field:
    """Encode a 64-bit number as a field."""
    return identifier, I64, encode_zigzag(number)


def binary_field(identifier: int, value: bytes) -> Field:
    """Encode bytes or UTF-8 text as a field."""
    return identifier, BINARY, encode_varint(len(value)) + value


def struct_field(identifier: int, fields: Iterable[Field]) -> Field:
    """Encode a struct as a field."""
    return identifier, STRUCT, encode_struct(fields)


def build_list_field(identifier: int, kind: int, values: list[bytes]) -> Field:
    """Encode a list as a field. ``values`` are already encoded and are all of the type whose code is ``kind``."""
    head = bytes([len(values) << 4 | kind]) if len(values) < 15 else bytes([0xF0 | kind]) + encode_varint(len(values))
    return identifier, LIST, head + b"".join(values)


def decode_struct(content: bytes, offset: int, field_forms: StructForm) -> tuple[dict[int, Any], int]:
    """Decode the struct at ``offset``; return the values of the fields in ``field_forms``, by id, and the end offset.

    The bytes are not trusted. Raises ``IndexError`` if the bytes end too early, ``ValueError`` or ``RecursionError`` if
    they do not follow Thrift's compact protocol.
    """
    identifier, values = 0, dict[int, Any]()
    while head := content[offset]:
        offset, kind = offset + 1, head & 15
        if head >> 4:
            identifier += head >> 4
        else:
            identifier, offset = _decode_zigzag(content, offset)
        form = field_forms.get(identifier)
        if form is None or kind != (form if isinstance(form, int) else LIST if isinstance(form, list) else STRUCT):
            offset = _find_value_end(content, offset, kind)
        elif identifier in values:
            raise ValueError(f"field {identifier} is repeated")
        elif kind in _VARINT_KINDS and (byte := content[offset]) < 0x80:  # most numbers: not worth a call
            values[identifier], offset = (byte >> 1) ^ -(byte & 1), offset + 1
        else:
            values[identifier], offset = _decode_value(content, offset, form)
    return values, offset + 1


def _decode_value(content: bytes, offset: int, form: FieldForm) -> tuple[Any, int]:
    """Decode the value of the given form at ``offset``; return the value and the offset of its end."""
    if form == BINARY:
        size, offset = _decode_varint(content, offset)
        return content[offset : offset + size], offset + size
    if isinstance(form, int):
        return _decode_zigzag(content, offset)
    if isinstance(form, Mapping):
        return decode_struct(content, offset, form)
    head, offset = content[offset], offset + 1
    size, offset = _decode_varint(content, offset) if head >> 4 == 15 else (head >> 4, offset)
    values = []
    for _ in range(size):
        _check_sound(head & 15 == STRUCT)
        value, offset = decode_struct(content, offset, form[0])
        values.append(value)
    return values, offset


def _decode_zigzag(content: bytes, offset: int) -> tuple[int, int]:
    """Decode the signed number at ``offset``; return the number and the offset of its end."""
    number, offset = _decode_varint(content, offset)
    return (number >> 1) ^ -(number & 1), offset


def _decode_varint(content: bytes, offset: int) -> tuple[int, int]:
    """Decode the unsigned number at ``offset``; return the number and the offset of its end."""
    byte = content[offset]
    if byte < 0x80:
        return byte, offset + 1
    number = shift = 0
    while byte >= 0x80:
        number |= (byte & 0x7F) << shift
        shift += 7
        if shift > 63:
            raise ValueError("a number is too long")
        offset += 1
        byte = content[offset]
    return number | byte << shift, offset + 1


def _find_value_end(content: bytes, offset: int, kind: int) -> int:
    """Return the offset at which the value at ``offset`` ends, without decoding the value.

    Most of a footer is skipped in this way.
    """
    if kind in _VARINT_KINDS:
        while content[offset] >= 0x80:
            offset += 1
        return offset + 1
    if kind == BINARY:
        size, offset = _decode_varint(content, offset)
        return offset + size
    if kind == STRUCT:
        return _find_struct_end(content, offset)
    if kind in (LIST, SET):
        head, offset = content[offset], offset + 1
        size, offset = _decode_varint(content, offset) if head >> 4 == 15 else (head >> 4, offset)
        element_kind = BYTE if head & 15 <= FALSE else head & 15
        if element_kind in SIZES:  # however many a stranger says there are
            return offset + size * SIZES[element_kind]
        for _ in range(size):
            offset = _find_value_end(content, offset, element_kind)
        return offset
    if kind not in SIZES:
        raise ValueError(f"type {kind}")
    return offset + SIZES[kind]


def _find_struct_end(content: bytes, offset: int) -> int:
    """Return the offset at which the struct at ``offset`` ends. Short values are skipped here, without a call."""
    while head := content[offset]:
        offset, kind = offset + 1 if head >> 4 else _find_value_end(content, offset + 1, I64), head & 15
        if kind == BINARY and content[offset] < 0x80:
            offset += 1 + content[offset]
        elif kind in _VARINT_KINDS and content[offset] < 0x80:
            offset += 1
        else:
            offset = _find_value_end(content, offset, kind)
    return offset + 1


# The footer, at the end of a file.

MAGIC = b"PAR1"
TRAILER_BYTES = 8  # bytes: the size of the footer, and the magic
VALUE_BYTES = 8  # that a value takes in memory, at most; texts are kept once
MAX_UNPACKED_RATIO = 1000  # bytes of a table for each byte of its file; of what we write, 440 at most
PAGE_HEADER_BYTES = 1 << 16  # bytes of the header of a page, at most
USUAL_PAGE_HEADER_BYTES = 512  # that are read of it at first
MESSAGE_CHARACTERS = 80  # letters of the name of a column in a message
UNCOMPRESSED = 0  # codec
FREE_BYTES = 1 << 20  # of a table or a footer, however small the file is


class Footer(NamedTuple):
    """The number of rows and the names of the columns that the footer of a table's file states."""

    rows: int
    columns: tuple[str, ...]


# What the footer says of a column of a row group: its codec, its values, its bytes unpacked and packed, and the offsets
# of its first page of values, of an index (which nobody writes) and of its dictionary, which it may lack.
CODEC, VALUES, UNPACKED, PACKED, DATA, INDEX, DICTIONARY = 4, 5, 6, 7, 9, 10, 11  # fields by id
COLUMN_FORM: StructForm = {3: {CODEC: I32} | dict.fromkeys((VALUES, UNPACKED, PACKED, DATA, INDEX, DICTIONARY), I64)}
PHYSICAL, NAME = 1, 4  # fields of an element of the schema; a group of columns has no physical type
FOOTER_FORM: StructForm = {
    2: [{PHYSICAL: I32, NAME: BINARY}],
    3: I64,
    4: [{1: [COLUMN_FORM], 3: I64}],
}  # schema, rows, row groups
# Of the header of a page: its type, its bytes unpacked and packed, and by type the struct and field of its encoding.
ENCODING_OF_PAGE = {0: (5, 2), 2: (7, 2), 3: (8, 4)}  # data, dictionary, data of version 2
PAGE_HEADER_FORM: StructForm = {1: I32, 2: I32, 3: I32} | {
    of_type: {field: I32} for of_type, field in ENCODING_OF_PAGE.values()
}

BYTE_ARRAY, FIXED_LEN_BYTE_ARRAY = 6, 7  # physical types with values of any size
TYPE_NAMES = {0: "BOOLEAN", 1: "INT32", 2: "INT64", 4: "FLOAT", 5: "DOUBLE", BYTE_ARRAY: "BYTE_ARRAY"}  # that are read
ENCODING_NAMES = dict(enumerate(("PLAIN", "", "PLAIN_DICTIONARY", "RLE", "BIT_PACKED", "DELTA_BINARY_PACKED")))
ENCODING_NAMES |= {6: "DELTA_LENGTH_BYTE_ARRAY", 7: "DELTA_BYTE_ARRAY", 8: "RLE_DICTIONARY", 9: "BYTE_STREAM_SPLIT"}
CODEC_NAMES = dict(enumerate(("UNCOMPRESSED", "SNAPPY", "GZIP", "LZO", "BROTLI", "LZ4", "ZSTD", "LZ4_RAW")))


class AllowedStorage(NamedTuple):
    """The codecs and encodings that columns may have. Files that use others are refused."""

    codecs: frozenset[int]
    encodings: frozenset[int]  # of texts: values of other types take 8 bytes at most, however they are encoded


# The archive's encoder does not compress; Polars writes the tables of policies with zstd. Both write texts as they are
# or with a dictionary. Nothing else is needed, so a stranger's file reaches no other decoder.
OWN_STORAGE = AllowedStorage(frozenset({0, 6}), frozenset({0, 8}))
# Other programs also write texts after their lengths. DELTA_BYTE_ARRAY is left out: a value repeats the beginning of
# the one before, so a hundred kilobytes unpack to gigabytes, which no number in the file tells.
THIRD_PARTY_STORAGE = AllowedStorage(frozenset(CODEC_NAMES), frozenset({0, 2, 6, 8}))


class _StorageError(ValueError):
    """The error for a column that is stored in an unsupported way, which the message names."""


def read_footer(file: io.BufferedIOBase, storage: AllowedStorage = OWN_STORAGE) -> Footer:
    """Read the footer of a Parquet file, check it, and move back to the beginning of the file.

    Raises ``ValueError`` if the file is not a Parquet file, contradicts itself, would unpack to too many bytes, or has
    a column that is stored in a way that ``storage`` does not allow.
    """
    size = file.seek(0, os.SEEK_END)
    try:
        footer, columns, groups = _parse_footer(_read_footer_bytes(file, size))
        _check_sound(sum(chunk[PACKED] for _, chunks in groups for chunk in chunks) <= size)
        unpacked = sum(
            _count_memory_bytes(column, chunk, rows, file, storage)
            for rows, chunks in groups
            for column, chunk in zip(columns, chunks, strict=True)
        )
    except _StorageError:
        raise
    except (LookupError, ValueError, RecursionError) as error:
        raise ValueError("is not a readable Parquet file: its footer is damaged") from error
    if unpacked > MAX_UNPACKED_RATIO * size + FREE_BYTES:
        raise ValueError(f"has {size:,} bytes and would unpack to {unpacked:,}: no table is so repetitive")
    file.seek(0)
    return footer


def _read_footer_bytes(file: io.BufferedIOBase, size: int) -> bytes:
    """Read the bytes of the footer of a file of ``size`` bytes.

    The size of the footer is limited, because parsing takes a microsecond per byte. Raises ``ValueError`` if the footer
    is too large or the file does not end like a Parquet file.
    """
    file.seek(max(0, size - TRAILER_BYTES))
    tail = file.read(TRAILER_BYTES)
    length = int.from_bytes(tail[:4], "little")
    if tail[4:] != MAGIC or length > min(size - TRAILER_BYTES, FREE_BYTES + size // 50):
        raise ValueError
    file.seek(size - TRAILER_BYTES - length)
    return file.read(length)


class _SchemaColumn(NamedTuple):
    """A column as the schema describes it."""

    name: str
    physical: int  # type


def _parse_footer(content: bytes) -> tuple[Footer, list[_SchemaColumn], list[tuple[int, list[dict[int, int]]]]]:
    """Parse a footer; return the table's facts, the columns that hold values, and the row groups.

    A row group is given as its number of rows and the fields of its column chunks.
    """
    footer, _ = decode_struct(content, 0, FOOTER_FORM)
    _, *elements = [(element[NAME].decode(), element.get(PHYSICAL)) for element in footer[2]]  # the first is the whole
    groups = [(group[3], [column[3] for column in group[1]]) for group in footer[4]]
    _check_sound(all(name.isprintable() for name, _ in elements))  # they are shown
    _check_sound(min((rows for rows, _ in groups), default=0) >= 0 and footer[3] == sum(rows for rows, _ in groups))
    columns = [_SchemaColumn(name, physical) for name, physical in elements if physical is not None]
    return Footer(footer[3], tuple(name for name, _ in elements)), columns, groups


def _count_memory_bytes(
    column: _SchemaColumn, chunk: Mapping[int, int], rows: int, file: io.BufferedIOBase, storage: AllowedStorage
) -> int:
    """Count the bytes that a column of a row group may take in memory.

    ``chunk`` holds the fields of the column's metadata in this row group, by id. For a compressed page, readers
    allocate the size that the page's own header gives, and they decode texts with the encoding that this header gives,
    whatever the footer says. So the headers of such pages are checked one by one. Raises ``_StorageError`` if the
    column is stored in a way that ``storage`` does not allow.
    """
    if min(chunk.values()) < 0 or DATA not in chunk or INDEX in chunk:
        raise ValueError
    if chunk.get(DICTIONARY, 0) >= chunk[DATA]:  # readers begin with the first page, or with the dictionary
        raise ValueError
    if column.physical not in TYPE_NAMES:
        raise _build_storage_error(column, "values of type", column.physical, TYPE_NAMES)
    if chunk[CODEC] not in storage.codecs:
        raise _build_storage_error(column, "pages packed by", chunk[CODEC], CODEC_NAMES)
    sizes = [chunk[UNPACKED], VALUE_BYTES * max(rows, chunk[VALUES])]
    if chunk[CODEC] != UNCOMPRESSED or column.physical == BYTE_ARRAY:
        at, pages = chunk.get(DICTIONARY) or chunk[DATA], 0
        end = at + chunk[PACKED]
        while at < end:
            header, size = _read_page_header_and_size(file, at)
            _check_sound(min(header[2], header[3]) >= 0)
            if column.physical == BYTE_ARRAY:
                of_type, field = ENCODING_OF_PAGE[header[1]]
                encoding = header[of_type][field]
                if encoding not in storage.encodings:
                    raise _build_storage_error(column, "texts encoded as", encoding, ENCODING_NAMES)
            pages += header[2]
            at += size + header[3]
        sizes.append(pages)
    return max(sizes)


def _read_page_header_and_size(file: io.BufferedIOBase, offset: int) -> tuple[dict[int, Any], int]:
    """Read the header of the page at ``offset``; return the header's fields and the header's size in bytes.

    Headers are short unless they have long statistics, so more bytes are read only if a short read does not suffice.
    """
    for size in (USUAL_PAGE_HEADER_BYTES, PAGE_HEADER_BYTES):
        file.seek(offset)
        content = file.read(size)
        with suppress(IndexError):
            return decode_struct(content, 0, PAGE_HEADER_FORM)
    raise IndexError


def _build_storage_error(column: _SchemaColumn, description: str, code: int, names: Mapping[int, str]) -> _StorageError:
    value = names.get(code) or ("FIXED_LEN_BYTE_ARRAY" if code == FIXED_LEN_BYTE_ARRAY else f"number {code}")
    return _StorageError(
        f"has a column {column.name[:MESSAGE_CHARACTERS]!r} with {description} {value}, which is not read"
    )


def _check_sound(sound: bool) -> None:
    if not sound:
        raise ValueError
