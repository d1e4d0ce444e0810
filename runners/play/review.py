"""The review of a finished game in words: each decision with its exact value, and the mistakes. Pure."""

from __future__ import annotations

from itertools import groupby

from analytics.perfect.game_review import Choice, GameReview, JudgedDecision
from quarto.notation import format_cell, format_piece
from quarto.rules import NONE
from runners.play.wording import Players

VALUES = {1: "win", 0: "draw", -1: "loss"}
SHOWN_CHOICES = 6  # better choices that a line names


def review_lines(review: GameReview, players: Players, seconds: float) -> list[str]:
    """The lines of a review that may have taken ``seconds``."""
    if not review.decisions:
        return [_unjudged(review, seconds)] if review.unjudged else ["No decision was taken, so none is judged."]
    lines = ["Each decision and its exact value, for the player who took it:", *_table(review, players)]
    lines += [_mistake(review, index, players) for index in review.mistakes] or ["Neither side erred."]
    return [*lines, *([_unjudged(review, seconds)] if review.unjudged else [])]


def _unjudged(review: GameReview, seconds: float) -> str:
    which = f"{review.unjudged} earlier" if review.decisions else f"{review.unjudged}"
    were = "decision was" if review.unjudged == 1 else "decisions were"
    return f"{which} {were} not judged within {seconds:g} s: early positions take long under these rules."


def _table(review: GameReview, players: Players) -> list[str]:
    """A row for each ply: the gift and the placement, who took them, and their values."""
    rows = [("ply", "gift", "placement")]
    for ply, group in groupby(review.decisions, lambda decision: decision.ply):
        by_kind = {decision.kind: _cell(decision, players) for decision in group}
        rows.append((str(ply), by_kind.get("gift", ""), by_kind.get("placement", "")))
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    columns = [column for column in range(3) if column == 0 or any(row[column] for row in rows[1:])]
    return ["  ".join(row[column].ljust(widths[column]) for column in columns).rstrip() for row in rows]


def _cell(decision: JudgedDecision, players: Players) -> str:
    value = VALUES[decision.before]
    change = f"{value} -> {VALUES[decision.after]}" if decision.regret else value
    return f"{_name(decision.seat, players)} {_choice((decision.piece, decision.cell))}: {change}"


def _mistake(review: GameReview, index: int, players: Players) -> str:
    decision = review.decisions[index]
    what = f"{'giving' if decision.kind == 'gift' else 'placing'} {_choice((decision.piece, decision.cell))}"
    lost = f"turned a {VALUES[decision.before]} into a {VALUES[decision.after]}"
    better = review.better.get(index, ())
    kept = f"; {_some(better)} would have kept it" if better else ""
    return f"Mistake at ply {decision.ply} by {_name(decision.seat, players)}: {what} {lost}{kept}."


def _some(choices: tuple[Choice, ...]) -> str:
    """The first choices in words, and how many more there are."""
    texts = [_choice(choice) for choice in choices[:SHOWN_CHOICES]]
    more = len(choices) - len(texts)
    texts += [f"{more} more"] if more else []
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} {'and' if more else 'or'} {texts[-1]}"


def _choice(choice: Choice) -> str:
    piece, cell = choice
    return format_piece(piece) + ("" if cell == NONE else f"@{format_cell(cell)}")


def _name(seat: int, players: Players) -> str:
    return "you" if seat == players.seat else players.agent
