"""Verification of a tablebase: its checksum, its boards, values against one another, and a sample solved again."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from analytics.perfect.tablebase import VALUES, BoardTable, Tablebase, read
from analytics.perfect.tablebase_build import smaller
from quarto.errors import FailureError
from quarto.solver.boards import boards_of_keys, layers_of_keys
from quarto.solver.solver import Solver


def verify(tablebase: Tablebase, sample: int, megabytes: float) -> Iterator[str]:
    """Yield the problems of a tablebase, one line each.

    It checks:

    - its checksum;
    - its boards, against those that play reaches;
    - the values of smaller boards, against those of the larger boards that turns lead to;
    - the values of a random ``sample`` of the largest boards, solved from the rules alone with a table of
      ``megabytes``.
    """
    try:
        table = read(tablebase)
    except FailureError as error:
        yield str(error)
        return
    wrong = list(_boards(tablebase, table))
    yield from wrong
    if not wrong:
        yield from _values(tablebase, table)
        yield from _solved(tablebase, table, sample, megabytes)


def _boards(tablebase: Tablebase, table: BoardTable) -> Iterator[str]:
    card = tablebase.card
    expected = layers_of_keys(tablebase.rules, card.pieces)
    for pieces, (part, keys) in enumerate(zip(card.layers, expected, strict=True)):
        if not np.array_equal(table.keys[part], keys) or (table.pieces[part] != pieces).any():
            yield f"{tablebase.path}: its boards of {pieces} pieces are not the {len(keys):,} that play reaches"
        counts = [int((table.values[part] == value).sum()) for value in VALUES]
        if counts != [card.won[pieces], card.drawn[pieces], card.lost[pieces]]:
            yield f"{tablebase.path}: {counts} boards of {pieces} pieces are won, drawn, lost, unlike on its card"


def _values(tablebase: Tablebase, table: BoardTable) -> Iterator[str]:
    parts = tablebase.card.layers
    layers = smaller(tablebase.rules, [table.keys[part] for part in parts], table.values[parts[-1]])
    for pieces, ((_, values), part) in enumerate(zip(layers, parts, strict=True)):
        wrong = int((values != table.values[part]).sum())
        if wrong:
            yield f"{tablebase.path}: {wrong:,} boards of {pieces} pieces do not have the value that their turns give"


def _solved(tablebase: Tablebase, table: BoardTable, sample: int, megabytes: float) -> Iterator[str]:
    part = tablebase.card.layers[-1]
    keys, values = table.keys[part], table.values[part]
    chosen = np.sort(np.random.default_rng().choice(len(keys), min(sample, len(keys)), replace=False))
    solver = Solver(tablebase.rules, megabytes)
    found = solver.values(*boards_of_keys(keys[chosen], tablebase.rules))
    for i in np.flatnonzero(found != values[chosen]):
        yield f"{tablebase.path}: the board with key {keys[chosen[i]]} has value {found[i]}, not {values[chosen[i]]}"
