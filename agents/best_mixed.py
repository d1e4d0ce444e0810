"""Study A's submitted player, S309413: the mixed strategy with a shallower search (by its code: a deeper one)."""

from __future__ import annotations

from agents.mixed import Mixed


class BestMixed(Mixed):
    """Study A's submission S309413 (``lorenzobellino/quarto-player``): ``mixed`` with other parameters.

    It is the agent ``mixed`` with a different search. It searches three placements deep when five or fewer pieces are
    unused. With ``faithful`` it follows the study's program, which searches five placements deep when fewer than eight
    pieces are off the board, counting the one in hand. ``few_unused`` and ``depth`` replace these numbers, with or
    without ``faithful``. With ``faithful``, ``few_unused=6`` and ``depth=3`` it searches as the program did when its
    published results were made.
    """

    text_parameters = (6, 3)
    code_parameters = (8, 5)
