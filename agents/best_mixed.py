"""Study A's submitted player, S309413: the mixed strategy with a shallower search (by its code: a deeper one)."""

from __future__ import annotations

from agents.mixed import Mixed


class BestMixed(Mixed):
    """Study A's submission S309413 (``lorenzobellino/quarto-player``): ``mixed`` with other parameters.

    It differs from the agent ``mixed`` only in its search, which goes three placements deep when at most five pieces
    are neither on the board nor in hand. With ``faithful``, it follows the study's program, whose search goes five
    placements deep when at most seven pieces are off the board, the piece in hand included. ``few_unused`` (by default
    6, or 8 with ``faithful``; the search needs fewer unused pieces than this) and ``depth`` override these numbers.
    With ``faithful``, ``few_unused=6`` and ``depth=3``, it searches as the program did when its published results were
    made.
    """

    text_parameters = (6, 3)
    code_parameters = (8, 5)
