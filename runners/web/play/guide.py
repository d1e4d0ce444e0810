"""The help of a first game: what the person decides now, what to look at, and which decisions lose at once.

The help says what loses at once, as a teacher at the board would, and marks what the hint recommends. It is computed
together with the agent's turn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from analytics.store.texts import format_count_with_noun
from quarto.game import Game, NextDecision
from quarto.notation import format_cell, format_piece
from runners.play.dialogue import parse_and_play_decision
from runners.play.hints import find_hint
from runners.web.analyse.searches import find_safe_gifts_or_counts_by_cell
from runners.web.tiles import Badge

ATTRIBUTES_LINE = (
    "Every piece is high or low, coloured or not, solid or hollow, square or round. Four in a line that share one of "
    "these win."
)
GIFT_LINE = "A gift is safe if your opponent cannot finish a line with it at once."
COUNTS_LINE = "The number on a cell counts the pieces that you can then give safely; with 0 you lose."
PLY_LINE = "You choose the piece and its cell. After a marked choice your opponent cannot finish a line either."
GUIDE_SECONDS = 0.5  # of a search for exact values; it finds them except in some early positions


class Guide(NamedTuple):
    """The help for one decision."""

    lines: list[str]
    good: frozenset[str] = frozenset()  # decisions to mark, as the tiles name them
    badges: Mapping[str, Badge] = MappingProxyType({})  # by decision


def build_guide(game: Game) -> Guide:
    """Build the help for the next decision of an unfinished game.

    Call this function in a job, because kernels may have to be compiled first.
    """
    first_lines = [ATTRIBUTES_LINE] if len(game.plies) < 2 and not game.is_gift_due else []
    builders = {NextDecision.PLACEMENT: _guide_placement, NextDecision.GIFT: _guide_gift, NextDecision.PLY: _guide_ply}
    guide = builders[game.next_decision](game)
    return guide._replace(lines=[*first_lines, *guide.lines])


def _guide_placement(game: Game) -> Guide:
    hint, hand = find_hint(game, GUIDE_SECONDS), format_piece(game.hand)
    if _wins(game, hint.best):
        return Guide([*hint.lines, "Place it there, and you have won."], frozenset(hint.best))
    if not game.pieces_left:
        return Guide([f"{hand} finishes no line on the last cell, so the game ends in a draw."])
    counts = find_safe_gifts_or_counts_by_cell(game).counts_by_cell
    badges = {
        format_cell(cell): Badge("draw" if count else "loss", str(count), format_count_with_noun(count, "safe gift"))
        for cell, count in counts.items()
    }
    counted = [COUNTS_LINE] if any(counts.values()) else []
    return Guide([hint.lines[0], *counted, hint.lines[-1]], frozenset(hint.best), badges)


def _guide_gift(game: Game) -> Guide:
    hint = find_hint(game, GUIDE_SECONDS)
    safe = find_safe_gifts_or_counts_by_cell(game).gift_mask
    losing = [format_piece(piece) for piece in game.pieces_left if not safe >> piece & 1]
    badges = {name: Badge("loss", "loses", "your opponent finishes a line with it") for name in losing}
    lines = hint.lines if hint.is_solved else hint.lines[:1]
    if len(hint.best) == len(game.pieces_left):  # a mark on every piece would say nothing
        return Guide(lines)
    return Guide([GIFT_LINE, *lines] if safe else lines, frozenset(hint.best), badges)


def _guide_ply(game: Game) -> Guide:
    hint = find_hint(game, GUIDE_SECONDS)
    good = {word for decision in hint.best for word in (decision, decision.partition("@")[0])}
    if _wins(game, hint.best) or not hint.best:
        return Guide(hint.lines, frozenset(good))
    return Guide([hint.lines[0], PLY_LINE], frozenset(good))


def _wins(game: Game, decisions: Sequence[str]) -> bool:
    """Return whether the first of some recommended decisions, which are all equally good, finishes a line."""
    return bool(decisions) and bool(parse_and_play_decision(decisions[0], game).lines)
