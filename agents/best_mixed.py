"""Study A's submitted player, S309413: the mixed strategy with a shallower search (by its code: a deeper one)."""

from __future__ import annotations

from agents.mixed import Mixed
from agents.parameters import checked_flag

BY_TEXT = (6, 3)  # fewer unused pieces than this, placements ahead
BY_CODE = (8, 5)


class BestMixed(Mixed):
    """Study A's S309413 (``lorenzobellino/quarto-player``): ``mixed``, searching three deep from five unused pieces on.

    With ``faithful``, as in the study's code, it searches when fewer than eight pieces are off the board (the one in
    hand counts), five placements ahead, as ``minimax`` does with ``faithful``, and takes the gift of the turn that it
    found. If the mirror cell is taken, it then uses the first empty one. ``few_unused`` and ``depth`` replace either
    pair of numbers. Raises ``ValueError`` for one that is not from 0 or 1 to 16.
    """

    def __init__(self, few_unused: int | None = None, depth: int | None = None, faithful: bool = False) -> None:
        self.faithful = checked_flag("faithful", faithful)
        usual_unused, usual_depth = BY_CODE if faithful else BY_TEXT
        super().__init__(usual_unused if few_unused is None else few_unused, usual_depth if depth is None else depth)
