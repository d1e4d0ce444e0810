"""Bit operations for kernels, and lanes. An operation is one machine instruction where the processor has it.

Lanes are four masks of 16 cells in one uint64, one for each attribute of the pieces.
"""

from __future__ import annotations

import platform
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from llvmlite.binding import get_host_cpu_features
from numba import types
from numba.extending import intrinsic

from quarto.jit import inline_function, int64, uint64

LANE_ONES = uint64(0x0001_0001_0001_0001)
LANE_TOPS = uint64(0x8000_8000_8000_8000)
LANE_MASK = uint64(0xFFFF)
SPREAD_MULTIPLIER = uint64(0x0000_2000_4000_8001)  # shifts by 0, 15, 30 and 45, whose products do not overlap


@intrinsic  # type: ignore[untyped-decorator]
def popcount(typing_context: Any, word: Any) -> Any:
    """Return the number of set bits of an integer, in the type of that integer."""

    def generate_ir(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.ctpop(arguments[0])

    return word(word), generate_ir


@intrinsic  # type: ignore[untyped-decorator]
def lowest_bit(typing_context: Any, word: Any) -> Any:
    """Return the index of the lowest set bit of an integer, in the type of that integer; undefined for 0."""

    def generate_ir(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return word(word), generate_ir


@intrinsic  # type: ignore[untyped-decorator]
def float_bits(typing_context: Any, number: Any) -> Any:
    """Return the 64 bits of a float64 as int64.

    The integers of non-negative floats are in the same order as the floats. This matters because LLVM finds the largest
    of many integers with vector instructions, but compares floats one by one, since one of them may be NaN.
    """

    def generate_ir(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.IntType(64))

    return types.int64(types.float64), generate_ir


@intrinsic  # type: ignore[untyped-decorator]
def array_pointer(typing_context: Any, address: Any) -> Any:
    """Convert an integer address to ``void*``, so that a kernel can reach an array by an address stored as a number."""

    def generate_ir(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], ir.IntType(8).as_pointer())

    return types.voidptr(address), generate_ir


@intrinsic  # type: ignore[untyped-decorator]
def prefetch(typing_context: Any, address: Any) -> Any:
    """Prefetch the cache line at an integer address that will soon be read, without waiting for the line."""

    def generate_ir(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = builder.inttoptr(arguments[0], ir.IntType(8).as_pointer())
        number = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [pointer.type, number, number, number])
        fetch = builder.module.declare_intrinsic("llvm.prefetch", (pointer.type,), kind)
        builder.call(fetch, [pointer, number(0), number(3), number(1)])  # to read, into every cache, data
        return context.get_dummy_value()

    return types.void(address), generate_ir


BYTE_BITS = np.arange(256)[:, None] >> np.arange(8) & 1  # [256 x 8] by byte and bit
# [256 x 8] by byte and n, flat: the index of the n-th set bit. A stable sort puts the indices of set bits first.
BIT_POSITIONS = np.argsort(-BYTE_BITS, axis=1, kind="stable").astype(np.uint8).ravel()


@inline_function
def nth_bit_by_table(mask: int, n: int) -> int:
    """Look up the index of the ``n``-th set bit (from 0) of a 16-bit mask in a table, and return it.

    This works on any processor. The half of the mask that holds the bit is found without a branch: if ``n`` is random,
    a branch would be mispredicted half of the time.
    """
    low = popcount(uint64(mask) & uint64(0xFF))
    upper = uint64(uint64(n) >= low)
    shift = upper << uint64(3)
    byte = (uint64(mask) >> shift) & uint64(0xFF)
    position = BIT_POSITIONS[(byte << uint64(3)) + uint64(n) - low * upper]
    return int64(uint64(position) + shift)


@intrinsic  # type: ignore[untyped-decorator]
def deposit_bits(typing_context: Any, word: Any, mask: Any) -> Any:
    """Return a word that has the low bits of ``word`` at the positions where ``mask`` has ones (all uint64).

    This is the instruction PDEP of x86-64 with BMI2.
    """

    def generate_ir(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = ir.FunctionType(ir.IntType(64), [ir.IntType(64)] * 2)
        return builder.call(builder.module.declare_intrinsic("llvm.x86.bmi.pdep.64", (), kind), arguments)

    return types.uint64(types.uint64, types.uint64), generate_ir


@inline_function
def nth_bit_by_deposit(mask: int, n: int) -> int:
    """Return the index of the ``n``-th set bit (from 0) of a mask, computed in two instructions.

    Random play is a seventh faster with this function than with ``nth_bit_by_table``.
    """
    return int64(lowest_bit(deposit_bits(uint64(1) << uint64(n), uint64(mask))))


# Whether numba compiles for this machine's own processor, and this processor has PDEP.
HAS_BIT_DEPOSIT = (
    not (numba.config.CPU_NAME or numba.config.CPU_FEATURES)
    and platform.machine() in ("x86_64", "AMD64")
    and bool(get_host_cpu_features().get("bmi2"))
)
# Index of the n-th (from 0) set bit of a 16-bit mask; n must be below its number of set bits.
nth_bit = nth_bit_by_deposit if HAS_BIT_DEPOSIT else nth_bit_by_table


@intrinsic  # type: ignore[untyped-decorator]
def has_zero_lane(typing_context: Any, first: Any, second: Any, third: Any, fourth: Any) -> Any:
    """Return whether any of the sixteen 16-bit lanes of four words (uint64) is zero.

    All lanes are compared at once where the processor has vectors. Random play is a sixth faster than with arithmetic
    on one word after the other.
    """

    def generate_ir(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        words = ir.Constant(ir.VectorType(ir.IntType(64), 4), ir.Undefined)
        for number, word in enumerate(arguments):
            words = builder.insert_element(words, word, ir.Constant(ir.IntType(32), number))
        lanes = builder.bitcast(words, ir.VectorType(ir.IntType(16), 16))
        zeros = builder.icmp_unsigned("==", lanes, ir.Constant(lanes.type, None))
        return builder.icmp_unsigned("!=", builder.bitcast(zeros, ir.IntType(16)), ir.Constant(ir.IntType(16), 0))

    return types.boolean(*[types.uint64] * 4), generate_ir


@inline_function
def piece_to_lanes(piece: int) -> int:
    """Return the lanes of a board that has ``piece`` on cell 0 and no other piece.

    Lanes are a uint64 of four 16-bit masks. Mask ``a`` has a bit for each cell whose piece has attribute ``a``, so bit
    ``a`` of the piece becomes bit ``16 a`` of the lanes.
    """
    return (uint64(piece) * SPREAD_MULTIPLIER) & LANE_ONES
