"""The review of a finished game: the mistakes of each side, and the first of them beside a better choice."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from analytics.questions.columns import VALUE_NAMES
from analytics.store.texts import format_count_with_noun
from quarto.batch import FORFEIT_RESIGNED
from quarto.game import Game, NextDecision
from quarto.notation import format_cell, format_piece, parse_cell, parse_piece
from quarto.rules import CELLS, NONE
from quarto.solver.solution import Solution, SolvedTurn, turn_sort_key
from runners.web.analyse import view
from runners.web.analyse.exercise_urls import build_url_of_exercise_at
from runners.web.analyse.line import AnalysisLine
from runners.web.analyse.searches import AnalysisValues, SearchService, SolvedPosition
from runners.web.tiles import MISTAKE_MARKS, LineStep


class ReviewedMistake(NamedTuple):
    """A decision that gave up exact value."""

    ply: int
    action: str  # as in "gave C" or "placed C on b2"
    mark: str  # as in ``MISTAKE_MARKS``
    before: str  # name of the value before the decision, for the seat that decided
    after: str
    href: str  # page of the position before the decision
    exercise: str  # page on which one looks for the better turn, or "" if there is none


class SideReview(NamedTuple):
    """The known mistakes of one side."""

    name: str
    mistakes: tuple[ReviewedMistake, ...]


class ReviewTile(NamedTuple):
    """A cell of the small board, or a piece below it."""

    name: str
    piece: int
    kind: str = ""  # "erred" where the mistake was made, "better" where the better choice is, else ""


class FirstMistake(NamedTuple):
    """The first known mistake of a game, on a board, beside a choice that would have kept the value."""

    name: str  # who made it
    mistake: ReviewedMistake
    better: str  # a sentence about better choices; "" while they are searched for
    cells: tuple[ReviewTile, ...]
    gifts: tuple[ReviewTile, ...]  # the piece given and a better one, if the mistake was a gift
    label: str  # of the board, for screen readers


class ReviewView(NamedTuple):
    """Everything that a page shows of the review of a game."""

    steps: list[LineStep]
    names: tuple[str, str]
    summary: str  # a sentence about the mistakes of both sides
    sides: tuple[SideReview, ...]
    first: FirstMistake | None
    unjudged: str  # a sentence about the decisions that are not judged, or ""
    resigned: str  # a sentence about the value of the position in which a side resigned, or ""
    searching: bool  # a search that the review needs is still running
    complete: bool  # every decision is judged


NO_VALUES: Mapping[int, int] = MappingProxyType({})


def build_review_and_start_searches(
    search_service: SearchService, line: AnalysisLine, known_values: Mapping[int, int] = NO_VALUES
) -> ReviewView:
    """Build the review of a line's game from what is solved by now, and start the searches that it still needs.

    The searches are those of the analysis pages, so each value is computed once. The first search finds the values,
    from the end of the game backwards. When it has ended, a second one finds better choices for the first mistake.
    ``known_values`` is as in ``find_or_start_values``. Raises the exception of a search that failed.
    """
    values_job = search_service.find_or_start_values(line.games, line.seconds, known_values=known_values)
    values: AnalysisValues | None = values_job.wait_for_latest()
    mistakes = view.find_mistakes(line, values)
    pending = values_job.is_pending
    solved: SolvedPosition | None = None
    if mistakes and not pending:
        solution_job = search_service.find_or_start_solution(line.games[mistakes[0]], line.seconds)
        solved = solution_job.wait_for_latest()
        pending = solution_job.is_pending and not (solved and solved.solution.turns)
    return build_review(line, values, solved, searching=pending, reason=values_job.reason)


def build_review(
    line: AnalysisLine, values: AnalysisValues | None, solved: SolvedPosition | None, *, searching: bool, reason: str
) -> ReviewView:
    """Build the review of a line's game.

    ``values`` are the values known so far, and ``solved`` is what is known about the position before the first known
    mistake; both may be None. ``reason`` says why the search for values was stopped, or is "".
    """
    mistakes = view.find_mistakes(line, values)
    first = None
    if values and mistakes and not (searching and solved is None):
        first = _build_first_mistake(line, values, mistakes[0], solved.solution if solved else None)
    unjudged_count = _count_unjudged_decisions(line, values)
    return ReviewView(
        view.build_steps(line, values),
        line.names,
        f"{view.describe_mistakes_and_regret(line, values)}." if values else "",
        tuple(
            SideReview(line.names[seat], tuple(_build_mistake(line, values, at) for at in indices))
            for seat, indices in enumerate(view.group_mistakes_by_seat(line, values))
        )
        if values
        else (),
        first,
        _describe_unjudged_decisions(unjudged_count, searching, reason),
        _describe_resignation(line, values),
        searching,
        not unjudged_count,
    )


def _count_unjudged_decisions(line: AnalysisLine, values: AnalysisValues | None) -> int:
    chosen = range(line.imposed_decision_count, len(line.words))
    return sum(values is None or values.regret(at, line.games[at].seat) is None for at in chosen)


def _describe_unjudged_decisions(count: int, searching: bool, reason: str) -> str:
    if not count:
        return ""
    decisions = format_count_with_noun(count, "early decision")
    if searching:
        return f"The solver is still at work on {decisions}."
    return f"{decisions} {'is' if count == 1 else 'are'} not solved{f': {reason}' if reason else ''}."


def _describe_resignation(line: AnalysisLine, values: AnalysisValues | None) -> str:
    """Describe the value of the position in which a side resigned, unless that position is lost or not solved yet."""
    game, value = line.games[-1], values.seat_0[-1] if values else None
    if line.forfeit != FORFEIT_RESIGNED or value is None:
        return ""
    value_for_seat = value if game.seat == 0 else -value
    if value_for_seat < 0:
        return ""
    return f"The position in which {line.names[game.seat]} resigned was a {VALUE_NAMES[value_for_seat]}."


def _build_mistake(line: AnalysisLine, values: AnalysisValues, at: int) -> ReviewedMistake:
    game = line.games[at]
    change = values.find_values_around(at, game.seat)
    if change is None:
        raise ValueError(f"decision {at} is not judged")
    before = line.with_position(at)
    return ReviewedMistake(
        len(game.plies),
        _describe_action(game, line.words[at]),
        MISTAKE_MARKS[change.regret],
        VALUE_NAMES[change.before],
        VALUE_NAMES[change.after],
        before.url,
        build_url_of_exercise_at(before),
    )


def _describe_action(game: Game, word: str) -> str:
    if game.next_decision is NextDecision.GIFT:
        return f"gave {word}"
    piece, _, cell = word.rpartition("@")
    return f"placed {piece or format_piece(game.hand)} on {cell}"


def _build_first_mistake(
    line: AnalysisLine, values: AnalysisValues, at: int, solution: Solution | None
) -> FirstMistake:
    game, word, mistake = line.games[at], line.words[at], _build_mistake(line, values, at)
    name = line.names[game.seat]
    keeping = [turn for turn in solution.turns if turn.value == solution.value] if solution else []
    best = min(keeping, key=turn_sort_key, default=None)
    better = "" if best is None else _describe_better_choices(game, best, keeping, mistake.before)
    cells, gifts = _build_review_tiles(game, word, best)
    label = f"Before ply {mistake.ply}: {name} {mistake.action}. {better}".strip()
    return FirstMistake(name, mistake, better, cells, gifts, label)


def _describe_better_choices(game: Game, best: SolvedTurn, keeping: list[SolvedTurn], value_name: str) -> str:
    """Describe the best choice, and how many choices keep the value; ``keeping`` are the turns that do."""
    piece, cell = format_piece(best.gift) if best.gift != NONE else "", best.cell
    if game.next_decision is NextDecision.GIFT:
        action, kept = f"Giving {piece}", len({turn.gift for turn in keeping})
        nouns = format_count_with_noun(len(game.pieces_left), "gift")
    elif game.next_decision is NextDecision.PLY:
        action, kept = f"Placing {piece} on {format_cell(cell)}", len(keeping)
        nouns = format_count_with_noun(len(game.pieces_left) * len(game.empty_cells), "ply", "plies")
    else:
        follow_up = f" and then giving {piece}" if piece else " to finish a line" if game.place(cell).lines else ""
        action = f"Placing {format_piece(game.hand)} on {format_cell(cell)}{follow_up}"
        kept, nouns = len({turn.cell for turn in keeping}), format_count_with_noun(len(game.empty_cells), "cell")
    return f"{action} was better: {kept} of {nouns} kept the {value_name}."


def _build_review_tiles(
    game: Game, word: str, best: SolvedTurn | None
) -> tuple[tuple[ReviewTile, ...], tuple[ReviewTile, ...]]:
    """Build the cells of the small board, and the pieces below it if the mistake was a gift."""
    cells = [ReviewTile(format_cell(cell), game.board[cell]) for cell in range(CELLS)]
    if game.next_decision is NextDecision.GIFT:
        gifts = [ReviewTile(word, parse_piece(word), "erred")]
        gifts += [ReviewTile(format_piece(best.gift), best.gift, "better")] if best else []
        return tuple(cells), tuple(gifts)
    piece, _, erred_cell = word.rpartition("@")
    marked = {parse_cell(erred_cell): (parse_piece(piece) if piece else game.hand, "erred")}
    if best is not None:
        better_piece = best.gift if game.next_decision is NextDecision.PLY else game.hand
        marked.setdefault(best.cell, (better_piece, "better"))
    return tuple(
        tile._replace(piece=marked[cell][0], kind=marked[cell][1]) if cell in marked else tile
        for cell, tile in enumerate(cells)
    ), ()
