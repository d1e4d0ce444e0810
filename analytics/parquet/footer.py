"""The end of a Parquet file: how many rows there are, and how much they take. No column is read for that.

A few kilobytes may unpack to gigabytes, and a file may come from a stranger. So every reader of files counts first.

Source: apache/parquet-format, src/main/thrift/parquet.thrift.
"""

from __future__ import annotations

import io
import os
from typing import NamedTuple

from analytics.parquet.thrift import I32, I64, LIST, STRUCT, Reader

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
    found = _Chunk()
    for field, each in reader.fields():
        if (field, each) != (3, STRUCT):
            reader.skip(each)
            continue
        for inner, its in reader.fields():
            if inner in CHUNK and its in (I32, I64):
                found = found._replace(**{CHUNK[inner]: reader.number()})
            else:
                reader.skip(its)
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
