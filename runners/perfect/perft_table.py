"""Table of exact counts of games."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from quarto.perft import Layer
from runners.terminal import console


def perft_table(rules: str, layers: Sequence[Layer]) -> Table:
    """The counts of each ply."""
    headings = ("ply", "live prefixes", "games won at ply", "canonical boards", "of them live")
    columns = [
        console.Column(heading, [f"{count:,}" for count in counts])
        for heading, counts in zip(headings, zip(*layers, strict=True), strict=True)
    ]
    return console.tabulated(columns, f"perft, {rules} rules")
