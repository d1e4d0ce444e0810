"""The table of proven answers about boards, under their exact keys, and the record by which kernels reach it.

A table is a power of two of 64-bit words in buckets of four. A word is the exact key of a canonical board before a
gift, shifted by four bits. Those bits hold the proven answers for the player to act. Whole keys are compared, so a word
never answers for another board. A word is read and written at once, so threads share a table without locks. At worst,
one of two answers that are stored at the same moment is lost.

A ``TablebaseIndex`` is such a table with the values of all boards up to a number of pieces. Searches only read it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from quarto.bits import array_pointer, prefetch
from quarto.canonical import board_key, canonical_lanes_and_occupied
from quarto.errors import FailureError
from quarto.jit import inline_function, int64, kernel, uint64
from quarto.rules import CELLS, RULE_TABLES, Rules
from quarto.symmetry import Symmetries, build_symmetries

WIN, DRAW = 0, 1  # the questions: can the player to act win; can they at least draw

PROOF_BITS = 4  # 1 and 4: WIN or DRAW is answered; 2 and 8: with yes
WON, DRAWN, LOST = 0b1111, 0b1101, 0b0101  # all that can be proven about a board
BUCKET_WORDS = 4  # words: half a cache line
LINE_BYTES = 64
HASH_MULTIPLIER = uint64(0x9E37_79B9_7F4A_7C15)  # odd, near 2^64 / golden ratio (Knuth's multiplicative hashing)
CHILD_FIELDS = 4  # of a child board in a search: see search.py

# What a search works with, as one record of addresses: it travels as a single pointer.
SEARCH = np.dtype(
    [
        ("images", np.uint64),  # these six: arrays of the Symmetries
        ("minimal", np.uint64),
        ("first", np.uint64),
        ("attaining", np.uint64),
        ("number", np.uint64),
        ("squeezed", np.uint64),
        ("permutations", np.int64),
        ("table", np.uint64),  # the words, shared by threads
        ("shift", np.uint64),  # 64 less the binary logarithm of the number of buckets
        ("distances", np.uint64),  # a table of the same form for distances: see distance.py
        ("distances_shift", np.uint64),
        ("base", np.uint64),  # a table of all boards of up to ``base_pieces`` pieces, read only; 0: there is none
        ("base_shift", np.uint64),
        ("base_pieces", np.int64),
        ("children", np.uint64),  # [CELLS + 1, CELLS, CHILD_FIELDS] uint64: the children at each depth
        ("nodes", np.int64),  # boards searched so far
        ("stop", np.uint64),  # an int64 that anybody may set to end the search
        ("stopped", np.int64),  # 1 once ``stop`` was seen: answers mean nothing from then on
    ],
    align=True,
)
SEARCH_TYPE = numba.from_dtype(SEARCH)
RULES_TYPE = numba.from_dtype(RULE_TABLES)
_SYMMETRY_FIELDS = ("images", "minimal", "first", "attaining", "number", "squeezed")


@inline_function
def _symmetry_tables(search: Any) -> Symmetries:
    """Return the ``Symmetries`` to whose arrays a search record points.

    Tables that canonical forms do not need are left empty.
    """
    masks = 1 << CELLS
    return Symmetries(
        numba.carray(array_pointer(search.images), (0, 0), np.int8),
        numba.carray(array_pointer(search.images), (search.permutations, 2, 256), np.uint16),
        numba.carray(array_pointer(search.minimal), masks, np.uint16),
        numba.carray(array_pointer(search.first), masks + 1, np.int32),
        numba.carray(array_pointer(search.attaining), masks * search.permutations, np.int16),
        numba.carray(array_pointer(search.number), masks, np.int16),
        numba.carray(array_pointer(search.minimal), 0, np.uint16),
        numba.carray(array_pointer(search.squeezed), (256, 256), np.uint8),
    )


@inline_function
def proof_key(lanes: int, occupied: int, search: Any) -> int:
    """Return the exact key (uint64) of a board before a gift.

    The lowest four bits are 0, because the table stores the proven answers in them.
    """
    tables = _symmetry_tables(search)
    least, minimal = canonical_lanes_and_occupied(lanes, occupied, -1, tables)
    return board_key(least, minimal, tables) << uint64(PROOF_BITS)


@inline_function
def find_bucket(key: int, table_address: int, shift: int) -> Any:
    """Return the bucket of a table in which a key may be: [BUCKET_WORDS] words."""
    index = (key * HASH_MULTIPLIER) >> shift
    return numba.carray(array_pointer(table_address + index * uint64(8 * BUCKET_WORDS)), BUCKET_WORDS, np.uint64)


@inline_function
def prefetch_table_or_base_bucket(key: int, pieces: int, search: Any) -> None:
    """Prefetch the bucket in which ``key``, the key of a board with ``pieces`` pieces, will soon be looked up.

    The bucket is in the tablebase index (``search.base``) if that covers boards with so many pieces, otherwise in the
    table of proven answers (``search.table``).
    """
    if pieces <= search.base_pieces:
        prefetch(search.base + ((key * HASH_MULTIPLIER) >> search.base_shift) * uint64(8 * BUCKET_WORDS))
    else:
        prefetch(search.table + ((key * HASH_MULTIPLIER) >> search.shift) * uint64(8 * BUCKET_WORDS))


@inline_function
def find_proof(key: int, table_address: int, shift: int) -> int:
    """Return the proof bits (see ``PROOF_BITS``) that a table holds for a key, or 0 if the key is not in the table.

    ``shift`` is what ``bucket_shift`` returns for the table.
    """
    bucket = find_bucket(key, table_address, shift)
    for i in range(BUCKET_WORDS):
        proof = bucket[i] ^ key
        if proof < uint64(1 << PROOF_BITS):
            return int64(proof)
    return 0


@inline_function
def decode_answer(proof: int, question: int) -> int:
    """Return the answer that proof bits give to a question: 1 for yes, 0 for no, -1 for unknown.

    The answer to one question can imply the answer to the other: a player who cannot draw cannot win, and a player who
    can win can draw.
    """
    if question == WIN:
        if proof & 1:
            return (proof >> 1) & 1
        return 0 if (proof & 12) == 4 else -1
    if proof & 4:
        return (proof >> 3) & 1
    return 1 if (proof & 3) == 3 else -1


@inline_function
def find_base_proof(key: int, search: Any) -> int:
    """Return the proof bits that the tablebase index (``search.base``) holds for a key, or 0 if the key is not in it.

    If a key's bucket was full, the key is in a later bucket.
    """
    buckets = int64(1) << (64 - int64(search.base_shift))
    index = int64((key * HASH_MULTIPLIER) >> search.base_shift)
    while True:
        bucket = numba.carray(array_pointer(search.base + uint64(8 * BUCKET_WORDS * index)), BUCKET_WORDS, np.uint64)
        for i in range(BUCKET_WORDS):
            proof = bucket[i] ^ key
            if proof < uint64(1 << PROOF_BITS):
                return int64(proof)
            if bucket[i] == uint64(0):
                return 0
        index = (index + 1) & (buckets - 1)


@inline_function
def recall_answer(key: int, pieces: int, question: int, search: Any) -> int:
    """Return the stored answer to ``question`` about a board: 1 for yes, 0 for no, -1 if none is stored.

    ``key`` is the ``proof_key`` of the board, and ``pieces`` is the number of pieces on it. The question is whether the
    player to act can win (``WIN``) or at least draw (``DRAW``).
    """
    if pieces <= search.base_pieces:
        return decode_answer(find_base_proof(key, search), question)
    return decode_answer(find_proof(key, search.table, search.shift), question)


@inline_function
def remember_answer(key: int, question: int, answer: int, search: Any) -> None:
    """Store the answer to a question, 1 for yes or 0 for no.

    If all slots of the bucket are taken, the answers about the board with the largest key are lost. This is nearly
    always one of those with the most pieces, which take the fewest nodes to search again: see ``board_key``.
    """
    bucket = find_bucket(key, search.table, search.shift)
    note = uint64((1 + 2 * answer) << (2 * question))
    slot, largest = int64(0), uint64(0)
    for i in range(BUCKET_WORDS):
        word = bucket[i]
        if (word ^ key) < uint64(1 << PROOF_BITS):
            bucket[i] = word | note
            return
        rank = word - uint64(1)  # a free slot comes first, because 0 becomes the largest word
        if rank >= largest:
            slot, largest = i, rank
    bucket[slot] = key | note


def allocate_table(megabytes: float) -> NDArray[np.uint64]:
    """Allocate an empty table whose number of words is the largest power of two that fits into ``megabytes``.

    If fewer than 1,024 words would fit, the table has 1,024 words. Its buckets never span cache lines. Raises
    ``FailureError`` if there is not enough memory.
    """
    bits = max(10, int(megabytes * (1 << 20) / 8).bit_length() - 1)
    try:
        memory = np.zeros((1 << bits) + LINE_BYTES // 8, np.uint64)
    except MemoryError as error:
        raise FailureError(f"a table of {megabytes} MB does not fit into memory: take a smaller one") from error
    skip = -memory.ctypes.data % LINE_BYTES // 8
    return memory[skip : skip + (1 << bits)]


def bucket_shift(table: NDArray[np.uint64]) -> int:
    """Return the number of bits by which a key's hash is shifted to the right to get the index of its bucket."""
    return 64 - (len(table) // BUCKET_WORDS).bit_length() + 1


def build_search_record(rules: Rules, arrays: Mapping[str, NDArray[Any]]) -> NDArray[np.void]:
    """Build a ``SEARCH`` record (an array of one) that points to the symmetry tables of the rules and to ``arrays``.

    The address of each array is stored in the field that its key names, so the caller must keep the arrays alive.
    Without a key ``base``, searches use no tablebase.
    """
    tables, search = build_symmetries(rules), np.zeros(1, SEARCH)
    search["permutations"], search["base_pieces"] = len(tables.cells), -1
    for name in _SYMMETRY_FIELDS:
        search[name] = getattr(tables, name).ctypes.data
    for name, array in arrays.items():
        search[name] = array.ctypes.data
    for name in ("table", "distances", "base"):
        if name in arrays:
            search["shift" if name == "table" else f"{name}_shift"] = bucket_shift(arrays[name])
    return search


MAX_LOAD = 0.8  # share of the words in use, at most: beyond it a board is too often far from its bucket
PROOFS = np.array([LOST, DRAWN, WON], np.uint64)  # by value + 1


class TablebaseIndex(NamedTuple):
    """An index that maps the exact key of a board to its value: see ``build_tablebase_index``."""

    words: NDArray[np.uint64]  # [W], W a power of two: key << 4 | proof bits, in buckets; 0: free
    pieces: int  # on the largest boards in it


def build_tablebase_index(keys: NDArray[np.uint64], values: NDArray[np.int8], pieces: int) -> TablebaseIndex:
    """Build the index of ``N`` canonical boards before a gift from their keys (``board_key``) and values.

    ``pieces`` is the number of pieces on the largest of these boards. Pass all boards with up to ``pieces`` pieces: no
    other table is asked about a board of this size, so a missing one is searched anew each time. The index takes 10 to
    20 bytes for each board. Raises ``FailureError`` if there is not enough memory.
    """
    table = allocate_table(tablebase_index_bytes(len(keys)) / (1 << 20))
    _fill_table(table, keys, values, PROOFS)
    return TablebaseIndex(table, pieces)


def tablebase_index_bytes(boards: int) -> int:
    """Return the size in bytes of the index of ``boards`` boards."""
    return 8 << max(10, int(boards / MAX_LOAD).bit_length())


@kernel()
def _fill_table(
    table: NDArray[np.uint64], keys: NDArray[np.uint64], values: NDArray[np.int8], proofs: NDArray[np.uint64]
) -> None:
    buckets = table.shape[0] // BUCKET_WORDS
    shift = uint64(64)
    while int64(1) << (64 - int64(shift)) < buckets:
        shift -= uint64(1)
    for i in range(keys.shape[0]):
        key = keys[i] << uint64(PROOF_BITS)
        slot = BUCKET_WORDS * int64((key * HASH_MULTIPLIER) >> shift)
        while table[slot] != uint64(0):
            slot = (slot + 1) & (table.shape[0] - 1)
        table[slot] = key | proofs[int64(values[i]) + 1]
