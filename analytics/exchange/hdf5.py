"""An HDF5 file of many small groups, written as bytes: the library takes a fifth of a millisecond for each.

Source: "HDF5 File Format Specification Version 3.0", of The HDF Group. Used are superblock version 0, object headers
version 1, compact datasets and compact links; the links of the root group are in a symbol table. Every HDF5 library
from 1.8 on reads them. Equal groups differ in a few bytes only, so many of them are made at once from a template.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

UNDEFINED = (1 << 64) - 1  # address of what there is not
WORD = 8  # bytes of an address; everything begins at a multiple of it
SUPERBLOCK = 96  # bytes
ENTRIES = 512  # of a symbol table node, unless there are too many nodes then
MOST_NODES = 65534  # that one tree node points to: twice a 16-bit number
HEADING = 16  # bytes of an object header before its messages
DATASPACE, LINK_INFO, DATATYPE, FILL_VALUE, LINK, LAYOUT, GROUP_INFO, ATTRIBUTE, SYMBOL_TABLE = (
    1,
    2,
    3,
    5,
    6,
    8,
    10,
    12,
    17,
)

INT8 = struct.pack("<BBHIHH", 0x10, 8, 0, 1, 0, 8)
TYPES = {
    "|i1": INT8,
    "<i8": struct.pack("<BBHIHH", 0x10, 8, 0, 8, 0, 64),
    "<f4": struct.pack("<BBBBIHHBBBBI", 0x11, 0x20, 31, 0, 4, 0, 32, 23, 8, 0, 23, 127),
    "|b1": struct.pack("<BBHI", 0x18, 2, 0, 1)
    + INT8
    + b"FALSE\0\0\0TRUE\0\0\0\0\0\1",  # an enumeration, as h5py has it
}


class Object(NamedTuple):
    """An object as bytes, and where in it the bytes of its data, attributes and links begin, by their names."""

    image: bytes
    places: Mapping[str, int]


def dataset(dtype: np.dtype[Any], shape: Sequence[int]) -> Object:
    """A dataset of zeros; the place of its data is ``data``."""
    size = dtype.itemsize * int(np.prod(shape))
    messages = [
        _message(DATASPACE, _dataspace(shape)),
        _message(DATATYPE, _datatype(dtype), flags=1),
        _message(FILL_VALUE, bytes([2, 1, 0, 0]), flags=1),
        _message(LAYOUT, struct.pack("<BBH", 3, 0, size) + bytes(size)),
    ]
    before = HEADING + sum(map(len, messages[:-1]))
    return Object(_header(messages), {"data": before + WORD + 4})


def group(attributes: Mapping[str, np.dtype[Any]], links: Sequence[str]) -> Object:
    """A group with attributes of one value each, and with links to addresses that are 0 yet."""
    messages = [_message(LINK_INFO, struct.pack("<BBQQ", 0, 0, UNDEFINED, UNDEFINED)), _message(GROUP_INFO, bytes(2))]
    places, length = {}, HEADING + sum(map(len, messages))
    for name, dtype in attributes.items():
        parts = [name.encode() + b"\0", _datatype(dtype), _dataspace(())]
        body = struct.pack("<BBHHH", 1, 0, *map(len, parts)) + b"".join(map(_padded, parts))
        messages.append(_message(ATTRIBUTE, body + bytes(dtype.itemsize)))
        places[name] = length + WORD + len(body)
        length += len(messages[-1])
    for name in links:
        body = struct.pack("<BBB", 1, 0, len(name)) + name.encode()
        messages.append(_message(LINK, body + bytes(WORD)))
        places[name] = length + WORD + len(body)
        length += len(messages[-1])
    return Object(_header(messages), places)


class Template:
    """Objects that lie one after the other and link to each other, as many copies of them as are wanted."""

    def __init__(self) -> None:
        self._image = bytearray()
        self._links: list[tuple[int, int]] = []  # where an address is, and of what, from the beginning of the copy

    def add(self, added: Object) -> int:
        """Add an object; returns where it begins."""
        self._image += added.image
        return len(self._image) - len(added.image)

    def link(self, place: int, to: int) -> None:
        """Make the address at ``place`` that of what begins at ``to``, in the same copy."""
        self._links.append((place, to))

    def write(self, place: int, content: bytes) -> None:
        """Write what is the same in all copies."""
        self._image[place : place + len(content)] = content

    def copies(self, count: int, address: int) -> NDArray[np.uint8]:
        """[count, L] bytes of copies that lie one after the other from ``address`` on."""
        copies = np.tile(np.frombuffer(self._image, np.uint8), (count, 1))
        starts = address + len(self._image) * np.arange(count)
        for place, to in self._links:
            write_values(copies, place, starts + to)
        return copies


def write_values(copies: NDArray[np.uint8], place: int, values: NDArray[Any]) -> None:
    """Write ``values`` [count, …] into their copies, from ``place`` on."""
    content = np.ascontiguousarray(values).reshape(len(copies), int(np.prod(values.shape[1:]))).view(np.uint8)
    copies[:, place : place + content.shape[1]] = content


class File:
    """A file that is written from its beginning to its end; it can be read once it is finished."""

    def __init__(self, out: BinaryIO) -> None:
        self._out = out
        self.end = 0  # the address of what is put next
        self.put(bytes(SUPERBLOCK))

    def put(self, content: bytes | memoryview) -> int:
        """Append bytes, as many as fill up words; returns their address."""
        address = self.end
        self.end += self._out.write(content)
        return address

    def count_links(self, address: int, links: int) -> None:
        """Say how many links there are to the object at ``address``: 1 if nothing was said."""
        self._out.seek(address + 4)
        self._out.write(struct.pack("<I", links))
        self._out.seek(self.end)

    def finish(self, stem: str, addresses: NDArray[np.int64]) -> None:
        """Make the root group, which has the object at ``addresses[i]`` as ``stem`` followed by i."""
        order, names = _in_order(len(addresses)), _names(stem, len(addresses))
        width, entries = names.shape[1], ENTRIES
        while len(addresses) > entries * MOST_NODES:
            entries *= 2
        offsets = WORD + width * order  # of the names in their heap, which begins with an empty one
        nodes, keys = [], [0]
        for first in range(0, len(order), entries):
            held = slice(first, first + entries)
            nodes.append(self.put(_symbols(offsets[held], addresses[order[held]], entries)))
            keys.append(int(offsets[held][-1]))
        rank = max(1, -(-len(nodes) // 2))
        tree = self.put(_tree(nodes, keys, rank))
        heap = self.put(bytes(WORD) + names.tobytes())
        size = self.end - heap
        heading = self.put(b"HEAP" + struct.pack("<IQQQ", 0, size, 1, heap))  # 1: no free block
        root = self.put(_header([_message(SYMBOL_TABLE, struct.pack("<QQ", tree, heading))]))
        self._out.seek(0)
        self._out.write(
            b"\x89HDF\r\n\x1a\n"
            + struct.pack("<8BHHI", 0, 0, 0, 0, 0, WORD, WORD, 0, entries // 2, rank, 0)
            + struct.pack("<QQQQ", 0, UNDEFINED, self.end, UNDEFINED)
            + struct.pack("<QQII16x", 0, root, 0, 0)
        )


def _padded(content: bytes) -> bytes:
    return content + bytes(-len(content) % WORD)


def _message(kind: int, body: bytes, flags: int = 0) -> bytes:
    body = _padded(body)
    return struct.pack("<HHB3x", kind, len(body), flags) + body


def _header(messages: Sequence[bytes]) -> bytes:
    return struct.pack("<BxHII4x", 1, len(messages), 1, sum(map(len, messages))) + b"".join(messages)


def _dataspace(shape: Sequence[int]) -> bytes:
    return struct.pack(f"<BBB5x{len(shape)}Q", 1, len(shape), 0, *shape)


def _datatype(dtype: np.dtype[Any]) -> bytes:
    """Text of a fixed length, padded with zeros, or one of TYPES."""
    return struct.pack("<BBHI", 0x13, 1, 0, dtype.itemsize) if dtype.kind == "S" else TYPES[dtype.str]


def _in_order(count: int) -> NDArray[np.int64]:
    """The numbers below ``count`` in the order of their decimal texts."""
    numbers = np.arange(count)
    digits = _digits(numbers)
    aligned = numbers * 10 ** (int(digits.max(initial=1)) - digits)
    return np.lexsort((digits, aligned))


def _digits(numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    return 1 + np.searchsorted(10 ** np.arange(1, 18), numbers, side="right")


def _names(stem: str, count: int) -> NDArray[np.uint8]:
    """[count, W] ``stem`` followed by each number below ``count``, padded with zeros to whole words."""
    numbers = np.arange(count)
    digits = _digits(numbers)
    most = int(digits.max(initial=1))
    names = np.zeros((count, len(_padded(bytes(len(stem) + most + 1)))), np.uint8)
    names[:, : len(stem)] = np.frombuffer(stem.encode(), np.uint8)
    for place in range(most):
        power = 10 ** np.maximum(digits - 1 - place, 0)
        names[:, len(stem) + place] = np.where(place < digits, ord("0") + numbers // power % 10, 0)
    return names


def _symbols(offsets: NDArray[np.int64], addresses: NDArray[np.int64], entries: int) -> bytes:
    """A symbol table node with room for so many entries."""
    rows = np.zeros((entries, 5), np.uint64)
    rows[: len(offsets), 0], rows[: len(offsets), 1] = offsets, addresses
    return b"SNOD" + struct.pack("<BxH", 1, len(offsets)) + rows.tobytes()


def _tree(nodes: Sequence[int], keys: Sequence[int], rank: int) -> bytes:
    """The one node of a tree; a key stands on either side of each child."""
    words = np.zeros(4 * rank + 1, np.uint64)
    words[0 : 2 * len(nodes) + 1 : 2], words[1 : 2 * len(nodes) : 2] = keys, nodes
    return b"TREE" + struct.pack("<BBHQQ", 0, 0, len(nodes), UNDEFINED, UNDEFINED) + words.tobytes()
