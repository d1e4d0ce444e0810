"""Positions that games rarely reach, and in which agents fail: for ``agents check``."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from quarto.batch import Batch
from quarto.position import EMPTY, Position
from quarto.rules import CELLS, NONE, Rules
from quarto.views import BatchView

GAMES = 1024  # that are played at random, without finishing a line
LAST = 8  # positions with one piece left, and as many with two
OTHERS = 2  # of each other kind, for each number of pieces on the board


def rare_positions(rules: Rules, seed: int) -> list[Position]:
    """The first turn, boards on which one gift is safe or none, and the last two pieces.

    Gifts matter where the opponent chooses the piece. Under rules whose boards of a kind are hardly ever met, positions
    of this kind are missing.
    """
    found = [EMPTY]
    for ply, view in enumerate(_games(rules, np.random.default_rng(seed))):
        if ply >= CELLS - 2:
            found += [each.packed for each in view][:LAST]
        elif not rules.mover_chooses:
            safe = _safe_gifts(view).sum(axis=1)
            lost = ~view.winning_cells().any(axis=1)
            for wanted in (0, 1):
                found += [view[i].packed for i in np.flatnonzero(lost & (safe == wanted))[:OTHERS].tolist()]
    return found


def _games(rules: Rules, rng: np.random.Generator) -> Iterator[BatchView]:
    """The positions before each ply of random games in which no line is finished; those that cannot go on are gone."""
    view = BatchView(Batch.of([EMPTY] * GAMES), rules)
    for _ in range(CELLS):
        given = _any_of(view.available, rng)
        if not rules.mover_chooses:
            view = view.after(NONE, given)
        yield view
        quiet = view.free & ~view.winning_cells(given)
        going: NDArray[np.bool_] = np.asarray(quiet.any(axis=1))
        view, given, quiet = BatchView(view.packed.chosen(going), rules), given[going], quiet[going]
        cells = _any_of(quiet, rng)
        view = view.after(cells, given if rules.mover_chooses else NONE)


def _any_of(allowed: NDArray[np.bool_], rng: np.random.Generator) -> NDArray[np.int64]:
    """A true column of each row, at random."""
    columns: NDArray[np.int64] = np.argmax(allowed * (1.0 + rng.random(allowed.shape)), axis=1)
    return columns


def _safe_gifts(view: BatchView) -> NDArray[np.bool_]:
    """Whether each piece is safe to give after some placement of the piece in hand: [B, 16]."""
    safe = np.zeros((len(view), CELLS), bool)
    for cell in range(CELLS):
        free = view.free[:, cell]
        safe |= view.safe_gifts(np.where(free, cell, NONE)) & free[:, None]
    return safe
