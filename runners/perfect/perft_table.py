"""Exact counts of games as a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.table import Table

from quarto.perft import Layer
from runners.terminal import console

if TYPE_CHECKING:
    pass


def perft_table(rules: str, layers: Sequence[Layer]) -> Table:
    """Counts by ply."""
    headings = ("ply", "live prefixes", "games won at ply", "canonical boards", "of them live")
    columns = [
        console.Column(heading, [f"{count:,}" for count in counts])
        for heading, counts in zip(headings, zip(*layers, strict=True), strict=True)
    ]
    return console.tabulated(columns, f"perft, {rules} rules")
