"""Hints for the next decision, and the review of a finished game. All functions are pure.

Both use exact values, if a search finds them within a time limit.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple

from analytics.exact.game_review import TABLE_MEGABYTES, Choice, GameReview, JudgedDecision
from analytics.exact.tablebase import find_largest_tablebase, load_tablebase_index
from analytics.store.texts import format_count_with_noun
from quarto.batch import Batch
from quarto.game import Game, NextDecision, Participants, describe_line, format_cells, format_pieces
from quarto.notation import format_cell, format_piece, parse_cell, parse_piece
from quarto.observations import GIFT_CODES, NO_CELL, NO_GIFT
from quarto.rules import NONE
from quarto.solver.solver import ILLEGAL, Solver
from quarto.views import Position

MAX_TURNS = 6  # turns that a hint lists
HINT_SECONDS = 1.0  # of a search for exact values: from about six pieces on it takes milliseconds

Turn = tuple[int, int]  # cell, gift; NONE for a part that the turn lacks


class Hint(NamedTuple):
    """A hint: the lines to print, and the recommended decisions as a person would type them.

    If the position has been solved, every recommended decision keeps the exact value.
    """

    lines: list[str]
    best: list[str]
    is_solved: bool = True


def find_hint(game: Game, seconds: float | None = None) -> Hint:
    """Return a hint for the next decision.

    If a search finds the exact values within ``seconds`` (None: ``HINT_SECONDS``), the hint is based on them. Otherwise
    it is based only on safe gifts, and says so.
    """
    seconds = HINT_SECONDS if seconds is None else seconds
    view = Position(game.position, game.rules)
    if game.next_decision is NextDecision.GIFT:
        return _find_gift_hint(game, view, seconds)
    wins = _list_winning_decisions(game, view)
    if game.next_decision is NextDecision.PLACEMENT:
        hand = format_piece(game.hand)
        if wins:
            return Hint([f"{hand} finishes a line on {' '.join(wins)}.", _explain_win(game, wins[0])], wins)
        return _find_placement_hint(game, view, f"{hand} finishes no line now.", seconds)
    if wins:
        return Hint([f"This finishes a line: {_format_turns(wins)}.", _explain_win(game, wins[0])], wins)
    return _find_ply_hint(game, view, seconds)


def _list_winning_decisions(game: Game, view: Position) -> list[str]:
    """List the decisions that finish a line, as a person would type them."""
    if game.next_decision is NextDecision.PLACEMENT:
        return format_cells([*view.winning_cells()]).split()
    return [_format_ply(piece, cell) for piece in game.pieces_left for cell in view.winning_cells(piece)]


def _explain_win(game: Game, decision: str) -> str:
    """Name the lines that a winning decision finishes, with what their pieces share."""
    piece, _, cell = decision.rpartition("@")
    after = game.play(parse_piece(piece), parse_cell(cell)) if piece else game.place(parse_cell(cell))
    return f"{decision} wins: {'; '.join(describe_line(after, line) for line in after.lines)}."


# Exact values.


class ExactTurns(NamedTuple):
    """The turns that keep the exact value of a position; in a lost position, these are all turns."""

    value: int  # for the player to act: 1 won, 0 drawn, -1 lost
    best: Sequence[Turn]


def find_best_turns_within(game: Game, seconds: float) -> ExactTurns | None:
    """Return the turns that keep the exact value of a game's current position, or None if this takes too long.

    The search may take ``seconds``, not counting the time for loading a tablebase or compiling the kernels.
    """
    if seconds <= 0:
        return None
    base = find_largest_tablebase(game.rules)
    is_looked_up = base is not None and len(game.plies) < base.card.pieces
    solver = Solver(game.rules, TABLE_MEGABYTES, load_tablebase_index(game.rules) if is_looked_up else None)
    solver.turn_values(Batch.allocate(0))  # has the kernel ready
    timer = threading.Timer(min(seconds, threading.TIMEOUT_MAX), solver.stop)
    timer.daemon = True
    timer.start()
    try:
        values = solver.turn_values(Batch.from_positions([game.position]))[0]
    finally:
        timer.cancel()
    if solver.stopped:
        return None
    legal = {_decode_turn(code): int(value) for code, value in enumerate(values) if value != ILLEGAL}
    value = max(legal.values())
    return ExactTurns(value, [turn for turn, turn_value in legal.items() if turn_value == value])


def _decode_turn(code: int) -> Turn:
    cell, gift = divmod(code, GIFT_CODES)
    return NONE if cell == NO_CELL else cell, NONE if gift == NO_GIFT else gift


VALUE_WORDS = {1: "win", 0: "draw", -1: "loss"}


def _describe_value(exact: ExactTurns) -> str:
    return f"Exact value: a {VALUE_WORDS[exact.value]} for you"


def _describe_unsolved(seconds: float) -> str:
    return f"Not solved within {seconds:g} s: a safe gift may still give up exact value."


# The parts of a turn.


def _find_gift_hint(game: Game, view: Position, seconds: float) -> Hint:
    safe = [*view.safe_gifts()]
    if not safe:
        return Hint(["No gift is safe: every piece left finishes a line somewhere."], [])
    line = f"Safe gifts: {format_pieces(safe)}. Any other finishes a line."
    if len(safe) == len(game.pieces_left):
        line = "Every gift is safe: none finishes a line now."
    exact = find_best_turns_within(game, seconds)
    if exact is None:
        return Hint([line, _describe_unsolved(seconds)], format_pieces(safe).split(), is_solved=False)
    if exact.value < 0:
        why = "A safe gift makes your opponent look for the win."
        return Hint([line, f"{_describe_value(exact)}, whatever you give. {why}"], format_pieces(safe).split())
    best = [piece for piece in game.pieces_left if (NONE, piece) in exact.best]
    if len(best) == len(game.pieces_left):
        return Hint([line, f"{_describe_value(exact)}; every gift keeps it."], format_pieces(best).split())
    tempting = [piece for piece in safe if piece not in best]
    verb = "is" if len(tempting) == 1 else "are"
    given_up = f"{'gives' if verb == 'is' else 'give'} up the {VALUE_WORDS[exact.value]} later"
    why = f"{format_pieces(tempting)} {verb} safe now, but {given_up}." if tempting else "Every safe gift keeps it."
    return Hint([line, f"{_describe_value(exact)}, kept by: {format_pieces(best)}. {why}"], format_pieces(best).split())


def _find_placement_hint(game: Game, view: Position, first_line: str, seconds: float) -> Hint:
    """Return a hint for placing the piece in hand, which must not be able to finish a line.

    ``first_line`` is the first line of the hint.
    """
    if not game.pieces_left:
        return Hint([first_line], [])
    safe = {cell: view.safe_gifts(cell) for cell in game.empty_cells}
    safe_turns = [(cell, gift) for cell, gifts in safe.items() for gift in gifts]
    if not safe_turns:
        return Hint([first_line, "Wherever it goes, every gift then lets your opponent finish one."], [])
    exact = find_best_turns_within(game, seconds)
    if exact is None or exact.value < 0:
        cell, gift = max(safe_turns, key=lambda turn: _count_opponent_replies_with_safe_gift(view.with_turn(*turn)))
        counts = _describe_safe_counts({cell: len(gifts) for cell, gifts in safe.items()})
        reason = _describe_unsolved(seconds) if exact is None else f"{_describe_value(exact)}, whatever you do."
        lines = [first_line, f"Number of safe gifts: {counts}.", reason]
        why = f"{format_cell(cell)} leaves {format_count_with_noun(len(safe[cell]), 'safe gift')}."
    else:
        by_cell = {cell: [gift for _, gift in turns] for cell, turns in groupby(exact.best, lambda turn: turn[0])}
        cell = max(by_cell, key=lambda cell: len(by_cell[cell]))  # where the gift may be chosen among most
        gift = by_cell[cell][0]
        where = "wherever it goes" if len(by_cell) == len(safe) else f"on {format_cells([*by_cell])}"
        lines = [first_line, f"{_describe_value(exact)}, kept {where}, with the right gift."]
        why = _explain_kept_value(cell, exact.value, len(safe[cell]), len(by_cell[cell]))
    lines.append(f"Suggestion: place it on {format_cell(cell)} and give {format_piece(gift)}. {why}")
    return Hint(lines, [format_cell(cell)], is_solved=exact is not None)


def _explain_kept_value(cell: int, value: int, safe_count: int, keeping_count: int) -> str:
    """Say why a placement keeps the value of a position that is not lost.

    ``safe_count`` gifts after the placement are safe, and ``keeping_count`` of these also keep the value.
    """
    subject = "it" if safe_count == 1 else "each" if keeping_count == safe_count else f"{keeping_count} of them"
    verb = "keep" if 1 < keeping_count < safe_count else "keeps"
    left = f"{format_count_with_noun(safe_count, 'safe gift')} {'is' if safe_count == 1 else 'are'} left"
    return f"{format_cell(cell)} keeps the {VALUE_WORDS[value]}: {left}, and {subject} {verb} it."


def _count_opponent_replies_with_safe_gift(view: Position) -> int:
    """Count the opponent's replies, each a placement and a gift, in which the gift is safe.

    In early positions, which cannot be solved in time, the hint suggests the turn with the largest count. A turn that
    instead leaves the most safe gifts after its own placement gives up value more often. In the set of positions that
    comes with this project, it does so in 23, 39 and 58 % of the positions with 5, 6 and 7 pieces on the board,
    compared with 17, 36 and 47 % for the suggested turn.
    """
    return sum(len(view.safe_gifts(cell)) for cell in view.free)


def _describe_safe_counts(counts: dict[int, int]) -> str:
    """Describe how many gifts are safe after a placement on each cell, with the largest number first.

    ``counts`` maps each cell to this number.
    """
    groups: dict[int, list[int]] = {count: [] for count in sorted(counts.values(), reverse=True)}
    for cell, count in counts.items():
        groups[count].append(cell)
    if len(groups) == 1:
        return f"{next(iter(groups))} wherever it goes"
    return "; ".join(f"{count} after {format_cells(cells)}" for count, cells in groups.items())


def _find_ply_hint(game: Game, view: Position, seconds: float) -> Hint:
    """Return a hint for choosing a piece and its cell, in a position in which no ply finishes a line."""
    safe: list[str] = []
    for piece in game.pieces_left:
        after = {cell: view.with_turn(cell, piece) for cell in game.empty_cells}
        quiet = [cell for cell, view_after in after.items() if view_after.safe_gifts() == view_after.available]
        safe += [_format_ply(piece, cell) for cell in quiet]
    if not safe:
        return Hint(["Nothing finishes a line now, and after each of your plies your opponent can finish one."], [])
    lines = ["Nothing finishes a line now."]
    quietly = f"After these your opponent cannot finish one either: {_format_turns(safe)}."
    exact = find_best_turns_within(game, seconds)
    if exact is None:
        return Hint([*lines, quietly, _describe_unsolved(seconds)], safe, is_solved=False)
    if exact.value < 0:
        return Hint([*lines, quietly, f"{_describe_value(exact)}, whatever you do."], safe)
    best = [_format_ply(piece, cell) for cell, piece in sorted(exact.best, key=lambda turn: (turn[1], turn[0]))]
    others = len({*safe} - {*best})
    why = f" Of the plies after which your opponent cannot finish one, {others} give it up later." if others else ""
    return Hint([*lines, f"{_describe_value(exact)}, kept by: {_format_turns(best)}.{why}"], best)


def _format_ply(piece: int, cell: int) -> str:
    return f"{format_piece(piece)}@{format_cell(cell)}"


def _format_turns(turns: list[str]) -> str:
    more = len(turns) - MAX_TURNS
    return " ".join(turns[:MAX_TURNS]) + (f" and {more} more" if more > 0 else "")


# Reviews.

MAX_CHOICES = 6  # better choices that a line names


def render_review(review: GameReview, players: Participants, max_seconds: float) -> list[str]:
    """Render a review as lines of text; ``max_seconds`` was the time limit of the search for exact values."""
    if not review.decisions:
        return (
            [_describe_unjudged_decisions(review, max_seconds)]
            if review.unjudged_count
            else ["No decision was taken, so none is judged."]
        )
    lines = ["Each decision and its exact value, for the player who took it:", *_render_decision_table(review, players)]
    lines += [_describe_mistake(review, index, players) for index in review.mistakes] or ["Neither side erred."]
    return [*lines, *([_describe_unjudged_decisions(review, max_seconds)] if review.unjudged_count else [])]


def _describe_unjudged_decisions(review: GameReview, max_seconds: float) -> str:
    count = f"{review.unjudged_count} earlier" if review.decisions else f"{review.unjudged_count}"
    were = "decision was" if review.unjudged_count == 1 else "decisions were"
    return f"{count} {were} not judged within {max_seconds:g} s: early positions take long under these rules."


def _render_decision_table(review: GameReview, players: Participants) -> list[str]:
    """Render a table with a row for each ply: who gave and who placed the piece, and the values of both decisions."""
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
    action = f"{'giving' if decision.kind == 'gift' else 'placing'} {_format_choice((decision.piece, decision.cell))}"
    change = f"turned a {VALUE_WORDS[decision.before]} into a {VALUE_WORDS[decision.after]}"
    better = review.better_choices.get(index, ())
    alternative = f"; {_format_better_choices(better)} would have kept it" if better else ""
    return f"Mistake at ply {decision.ply} by {_format_player(decision.seat, players)}: {action} {change}{alternative}."


def _format_better_choices(choices: tuple[Choice, ...]) -> str:
    """Format the first ``MAX_CHOICES`` choices, followed by the number of choices that are left out."""
    texts = [_format_choice(choice) for choice in choices[:MAX_CHOICES]]
    more = len(choices) - len(texts)
    texts += [f"{more} more"] if more else []
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} {'and' if more else 'or'} {texts[-1]}"


def _format_choice(choice: Choice) -> str:
    piece, cell = choice
    return format_piece(piece) + ("" if cell == NONE else f"@{format_cell(cell)}")


def _format_player(seat: int, players: Participants) -> str:
    return "you" if seat == players.seat else players.agent
