"""Lanes: four masks of 16 cells in one uint64, one for each attribute of the pieces."""

from __future__ import annotations

from quarto.jit import inlined, uint64

LANE_ONES = uint64(0x0001_0001_0001_0001)
LANE_TOPS = uint64(0x8000_8000_8000_8000)
LANE = uint64(0xFFFF)
SPREAD = uint64(0x0000_2000_4000_8001)  # shifts by 0, 15, 30 and 45, whose products do not overlap


@inlined
def spread(piece: int) -> int:
    """The four lanes of a board that has ``piece`` on cell 0 and nothing else: bit a of the piece times 2^15a."""
    return (uint64(piece) * SPREAD) & LANE_ONES
