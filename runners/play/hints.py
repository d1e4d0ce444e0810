"""Hints without search for the next decision, and the review of a finished game against exact values. Pure."""

from __future__ import annotations

from itertools import groupby
from typing import NamedTuple

from analytics.exact.game_review import Choice, GameReview, JudgedDecision
from quarto.game import Game, NextDecision, Participants, format_cells, format_pieces
from quarto.notation import format_cell, format_piece
from quarto.rules import NONE
from quarto.views import PositionView

MAX_TURNS = 6  # that a hint lists


class Hint(NamedTuple):
    """A hint: its lines, and the decisions that it recommends, as they are typed."""

    lines: list[str]
    best: list[str]


def find_hint(game: Game) -> Hint:
    """The hint for the next decision."""
    return {
        NextDecision.GIFT: _find_gift_hint,
        NextDecision.PLACEMENT: _find_placement_hint,
        NextDecision.PLY: _find_ply_hint,
    }[game.next_decision](game)


def _find_gift_hint(game: Game) -> Hint:
    safe = [*PositionView(game.position, game.rules).safe_gifts()]
    if not safe:
        return Hint(["No gift is safe: every piece left finishes a line somewhere."], [])
    if len(safe) == len(game.pieces_left):
        return Hint(["Every gift is safe: none finishes a line now."], [])
    return Hint([f"Safe gifts: {format_pieces(safe)}. Any other finishes a line."], format_pieces(safe).split())


def _find_placement_hint(game: Game) -> Hint:
    hand, view = format_piece(game.hand), PositionView(game.position, game.rules)
    wins = format_cells([*view.winning_cells()])
    if wins:
        return Hint([f"{hand} finishes a line on {wins}."], wins.split())
    lines = [f"{hand} finishes no line now."]
    if not game.pieces_left:
        return Hint(lines, [])
    safe = {cell: view.safe_gifts(cell) for cell in game.empty_cells}
    best = max(safe, key=lambda cell: len(safe[cell]))
    if not safe[best]:
        return Hint([*lines, "Wherever it goes, every gift then lets your opponent finish one."], [])
    lines.append(f"Number of safe gifts: {_describe_safe_counts({cell: len(gifts) for cell, gifts in safe.items()})}.")
    lines.append(f"Suggestion: place it on {format_cell(best)} and give {format_piece(safe[best][0])}.")
    return Hint(lines, [format_cell(best)])


def _describe_safe_counts(counts: dict[int, int]) -> str:
    """The number of safe gifts after each cell, greatest first."""
    groups: dict[int, list[int]] = {count: [] for count in sorted(counts.values(), reverse=True)}
    for cell, count in counts.items():
        groups[count].append(cell)
    if len(groups) == 1:
        return f"{next(iter(groups))} wherever it goes"
    return "; ".join(f"{count} after {format_cells(cells)}" for count, cells in groups.items())


def _find_ply_hint(game: Game) -> Hint:
    wins: list[str] = []
    safe: list[str] = []
    view = PositionView(game.position, game.rules)
    for piece in game.pieces_left:
        wins += [f"{format_piece(piece)}@{format_cell(cell)}" for cell in view.winning_cells(piece)]
        after = {cell: view.with_turn(cell, piece) for cell in game.empty_cells}
        quiet = [cell for cell, left in after.items() if left.safe_gifts() == left.available]
        safe += [f"{format_piece(piece)}@{format_cell(cell)}" for cell in quiet]
    if wins:
        return Hint([f"This finishes a line: {_format_turns(wins)}."], wins)
    if not safe:
        return Hint(["Nothing finishes a line now, and after each of your plies your opponent can finish one."], [])
    quietly = f"After these your opponent cannot finish one either: {_format_turns(safe)}."
    return Hint(["Nothing finishes a line now.", quietly], safe)


def _format_turns(turns: list[str]) -> str:
    more = len(turns) - MAX_TURNS
    return " ".join(turns[:MAX_TURNS]) + (f" and {more} more" if more > 0 else "")


# Reviews.

VALUE_WORDS = {1: "win", 0: "draw", -1: "loss"}
MAX_CHOICES = 6  # better choices that a line names


def render_review(review: GameReview, players: Participants, seconds: float) -> list[str]:
    """The lines of a review that may have taken ``seconds``."""
    if not review.decisions:
        return (
            [_describe_unjudged_decisions(review, seconds)]
            if review.unjudged
            else ["No decision was taken, so none is judged."]
        )
    lines = ["Each decision and its exact value, for the player who took it:", *_render_table(review, players)]
    lines += [_describe_mistake(review, index, players) for index in review.mistakes] or ["Neither side erred."]
    return [*lines, *([_describe_unjudged_decisions(review, seconds)] if review.unjudged else [])]


def _describe_unjudged_decisions(review: GameReview, seconds: float) -> str:
    which = f"{review.unjudged} earlier" if review.decisions else f"{review.unjudged}"
    were = "decision was" if review.unjudged == 1 else "decisions were"
    return f"{which} {were} not judged within {seconds:g} s: early positions take long under these rules."


def _render_table(review: GameReview, players: Participants) -> list[str]:
    """A row for each ply: the gift and the placement, who took them, and their values."""
    rows = [("ply", "gift", "placement")]
    for ply, group in groupby(review.decisions, lambda decision: decision.ply):
        by_kind = {decision.kind: _format_decision(decision, players) for decision in group}
        rows.append((str(ply), by_kind.get("gift", ""), by_kind.get("placement", "")))
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    columns = [column for column in range(3) if column == 0 or any(row[column] for row in rows[1:])]
    return ["  ".join(row[column].ljust(widths[column]) for column in columns).rstrip() for row in rows]


def _format_decision(decision: JudgedDecision, players: Participants) -> str:
    value = VALUE_WORDS[decision.before]
    change = f"{value} -> {VALUE_WORDS[decision.after]}" if decision.regret else value
    return f"{_format_player(decision.seat, players)} {_format_choice((decision.piece, decision.cell))}: {change}"


def _describe_mistake(review: GameReview, index: int, players: Participants) -> str:
    decision = review.decisions[index]
    what = f"{'giving' if decision.kind == 'gift' else 'placing'} {_format_choice((decision.piece, decision.cell))}"
    lost = f"turned a {VALUE_WORDS[decision.before]} into a {VALUE_WORDS[decision.after]}"
    better = review.better.get(index, ())
    kept = f"; {_format_better_choices(better)} would have kept it" if better else ""
    return f"Mistake at ply {decision.ply} by {_format_player(decision.seat, players)}: {what} {lost}{kept}."


def _format_better_choices(choices: tuple[Choice, ...]) -> str:
    """The first choices in words, and how many more there are."""
    texts = [_format_choice(choice) for choice in choices[:MAX_CHOICES]]
    more = len(choices) - len(texts)
    texts += [f"{more} more"] if more else []
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} {'and' if more else 'or'} {texts[-1]}"


def _format_choice(choice: Choice) -> str:
    piece, cell = choice
    return format_piece(piece) + ("" if cell == NONE else f"@{format_cell(cell)}")


def _format_player(seat: int, players: Participants) -> str:
    return "you" if seat == players.seat else players.agent
