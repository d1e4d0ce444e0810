"""Tables of tablebases, and of exact counts of games."""

from __future__ import annotations

from collections.abc import Sequence

from analytics.perfect.tablebase import Card, Tablebase
from analytics.results.columns import column, words
from quarto.perft import Layer
from runners.terminal import console
from runners.terminal.console import TerminalTable


def tablebase_tables(found: Sequence[Tablebase]) -> list[TerminalTable]:
    """A list of tablebases, then for each the number of boards by pieces and value for the player to act."""
    cards = [each.card for each in found]
    columns = [
        words("rules", [str(card.rules["name"]) for card in cards]),
        column("pieces", [card.pieces for card in cards]),
        column("boards", [sum(card.boards) for card in cards]),
        column("bytes", [card.bytes for card in cards]),
        column("thread seconds", [card.seconds for card in cards], "{:,.0f}".format),
        words("built", [card.created[:10] for card in cards]),
        words("file", ["ships" if each.shipped else str(each.path) for each in found]),
    ]
    return [console.tabulated(columns), *map(_layers_table, cards)]


def _layers_table(card: Card) -> TerminalTable:
    parts = {"boards": card.boards, "won": card.won, "drawn": card.drawn, "lost": card.lost}
    columns = [column(name, counts) for name, counts in parts.items()]
    pieces = column("pieces", range(card.pieces + 1))
    return console.tabulated([pieces, *columns], f"{card.rules['name']}, up to {card.pieces} pieces")


def perft_table(rules: str, layers: Sequence[Layer]) -> TerminalTable:
    """The counts of each ply."""
    headings = ("ply", "live prefixes", "games won at ply", "canonical boards", "of them live")
    columns = [column(heading, counts) for heading, counts in zip(headings, zip(*layers, strict=True), strict=True)]
    return console.tabulated(columns, f"perft, {rules} rules")
