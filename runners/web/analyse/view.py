"""Views of a position on a line: cells and gifts with their values, the decisions of the line, and its mistakes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from analytics.questions.columns import (
    VALUE_NAMES,
    format_percent,
    format_percent_tenths_below_ten,
    format_percent_whole,
)
from analytics.questions.logged_games import LoggedEvaluations
from analytics.questions.openings import ChoiceResult
from analytics.store.texts import format_count_with_noun
from quarto.game import Game, NextDecision, format_cells
from quarto.notation import format_cell, format_piece
from quarto.rules import CELLS, NONE, PIECES
from quarto.solver.solution import Solution, group_turns_by_cell_best_first, turn_sort_key
from runners.web.analyse.line import AnalysisLine, format_decisions
from runners.web.analyse.searches import AnalysisValues, SolvedPosition, has_equal_decisions
from runners.web.tiles import (
    MISTAKE_MARKS,
    Badge,
    DecisionTile,
    LineStep,
    build_filled_cell_tile,
    build_taken_piece_tile,
    describe_piece,
    winning_seat_css_class,
)


class TurnsRow(NamedTuple):
    """All turns that place the piece in hand on one cell."""

    cell: str
    href: str  # page of the position after the placement
    best: Badge  # of the best turn
    safe_gift_count: int | None  # None where no gift follows
    badges: list[Badge | None]  # by piece


class TurnsTable(NamedTuple):
    """All turns in a position: each row is a cell, with the best cell first, and each column is a gift."""

    pieces: list[str]
    rows: list[TurnsRow]
    are_equal: bool  # every turn draws, so a sentence says more than the table


def build_badge(value: int, distance: int | None) -> Badge:
    """Build the badge for a value, which is 1 (win), 0 (draw) or -1 (loss).

    ``distance`` is the number of placements until the end of the game, or None if it is unknown.
    """
    kind = VALUE_NAMES[value]
    if value == 0 or distance is None:
        return Badge(kind, kind, kind)
    return Badge(kind, f"{kind} {distance}", f"{kind} in {distance}")


Badges = Mapping[str, Badge]  # by the word of the decision; by piece where the mover chooses one first


def build_exact_badges(game: Game, solution: Solution | None) -> dict[str, Badge]:
    """Build a badge with the exact value of each decision; the keys are decision words.

    The tint of a cell shows what share of the gifts that can follow a placement on it keep the value: the larger the
    share, the bluer the cell. Without a solution, there are no badges.
    """
    badges: dict[str, Badge] = {}
    shares = _compute_value_keeping_shares_unless_equal(solution) if solution else {}
    for turn in sorted(solution.turns if solution else (), key=turn_sort_key):
        piece = "" if turn.gift == NONE else format_piece(turn.gift)
        cell = "" if turn.cell == NONE else format_cell(turn.cell)
        words = (piece, cell, f"{piece}@{cell}")
        for name in {NextDecision.GIFT: words[:1], NextDecision.PLACEMENT: words[1:2]}.get(game.next_decision, words):
            tint = shares.get(turn.cell) if name != piece else None
            badges.setdefault(name, build_badge(turn.value, turn.distance)._replace(tint=tint))
    if has_equal_decisions(solution):  # then 16 badges that say "draw" say less than the sentence beside the board
        return {name: badge._replace(text="", tint=None) for name, badge in badges.items()}
    return badges


def build_share_and_score_badges(results: Sequence[ChoiceResult]) -> dict[str, Badge]:
    """Build badges that show how often each decision was made and how it scored; the keys are decision words.

    Decisions that are equivalent by symmetry are counted together. One of them shows the count, and the badges of the
    others refer to that decision, so that the shares add up to 100 %.
    """
    badges: dict[str, Badge] = {}
    for result in results:
        tint = 2 * result.score - 1
        share, score = format_percent(result.share), format_percent(result.score)
        words = f"{format_count_with_noun(result.games, 'game')}, {share} % of all, score {score} %"
        numbers = (
            f"{format_percent_tenths_below_ten(result.share)}\N{NO-BREAK SPACE}% {format_percent_whole(result.score)}"
        )
        badges[result.choice] = Badge("played", numbers, words, tint)
        for choice in result.alike:
            badges[choice] = Badge("played", f"= {result.choice}", f"by symmetry the same as {result.choice}", tint)
    return badges


def _compute_value_keeping_shares_unless_equal(solution: Solution) -> dict[int, float]:
    """Return, for each cell, what share of the gifts that can follow a placement on it keep the position's value.

    If all shares are equal, the mapping is empty.
    """
    by_cell: dict[int, list[bool]] = {}
    for turn in solution.turns:
        if NONE not in (turn.cell, turn.gift):
            by_cell.setdefault(turn.cell, []).append(turn.value == solution.value)
    shares = {cell: sum(keeps_value) / len(keeps_value) for cell, keeps_value in by_cell.items()}
    return shares if len({*shares.values()}) > 1 else {}


def build_cell_and_piece_tiles(
    line: AnalysisLine, badges: Badges, chosen_piece: int
) -> tuple[list[DecisionTile], list[DecisionTile]]:
    """Build the tiles of all cells and the tiles of all pieces, and return the two lists.

    ``chosen_piece`` is the piece that the mover has chosen to place under rules that let the mover choose, or NONE.
    """
    following = line.words[line.at] if line.at < len(line.words) else ""
    return (
        [_build_cell_tile(line, cell, badges, following, chosen_piece) for cell in range(CELLS)],
        [_build_piece_tile(line, piece, badges, following, chosen_piece) for piece in range(PIECES)],
    )


def _build_cell_tile(line: AnalysisLine, cell: int, badges: Badges, next_word: str, chosen_piece: int) -> DecisionTile:
    game, name = line.game, format_cell(cell)
    filled = build_filled_cell_tile(game, cell)
    if filled is not None:
        return filled
    word = name if game.next_decision is NextDecision.PLACEMENT else ""
    if game.next_decision is NextDecision.PLY and chosen_piece != NONE:
        word = f"{format_piece(chosen_piece)}@{name}"
    badge = badges.get(word or name)
    label = f"{name}, empty{f': {badge.words}' if badge else ''}"
    href = line.with_decision(word).url if word else ""
    return DecisionTile(name, NONE, label, href=href, badge=badge, played=bool(word) and word == next_word)


def _build_piece_tile(
    line: AnalysisLine, piece: int, badges: Badges, next_word: str, chosen_piece: int
) -> DecisionTile:
    game, name, taken = line.game, format_piece(piece), build_taken_piece_tile(line.game, piece)
    if taken is not None or game.next_decision not in (NextDecision.GIFT, NextDecision.PLY):
        return taken or DecisionTile(name, piece, describe_piece(piece))
    gives, badge = game.next_decision is NextDecision.GIFT, badges.get(name)
    label = f"{'Give' if gives else 'Place'} {describe_piece(piece)}{f': {badge.words}' if badge else ''}"
    href = line.with_decision(name).url if gives else f"{line.url}{'&' if '?' in line.url else '?'}piece={name}"
    played = name == next_word if gives else next_word.startswith(f"{name}@")
    return DecisionTile(
        name, piece, label, href=href, badge=badge, played=played, held="hand" if piece == chosen_piece else "left"
    )


class BestStep(NamedTuple):
    """A decision of the best line, with the address of the page that shows the position after the decision."""

    piece: int
    cell: str
    href: str


def build_best_steps(line: AnalysisLine, solved: SolvedPosition | None) -> list[BestStep]:
    """Return the decisions of best play by both sides from the current position.

    The list is empty while best play is not known yet, and on an empty board if every turn leads to a draw: then no
    best line is searched for.
    """
    steps: list[BestStep] = []
    for game in solved.best_line if solved else ():
        before = line.game
        gave = len(game.plies) == len(before.plies)
        piece, cell = (game.hand, "") if gave else (game.plies[-1][0], format_cell(game.plies[-1][1]))
        word = format_piece(piece) if gave else f"{format_piece(piece)}@{cell}" if line.rules.mover_chooses else cell
        line = line.with_decision(word)
        steps.append(BestStep(piece, cell, line.url))
    return steps


def build_turns_table(line: AnalysisLine, solved: SolvedPosition | None) -> TurnsTable | None:
    """Build the table of turns, or return None if the next decision is a gift or no turn's value is known yet."""
    game = line.game
    if solved is None or not solved.solution.turns or solved.solution.turns[0].cell == NONE:
        return None
    solution = solved.solution
    pieces = sorted({turn.gift for turn in solution.turns} - {NONE})
    rows = []
    for cell, turns in group_turns_by_cell_best_first(solution.turns).items():
        first = next(iter(turns.values()))
        badges = [build_badge(turns[p].value, turns[p].distance) if p in turns else None for p in pieces]
        name = format_cell(cell)
        word = name if game.next_decision is NextDecision.PLACEMENT else f"{format_piece(first.gift)}@{name}"
        count = solved.safe_gifts_after.get(cell) if first.gift != NONE else None
        best = build_badge(first.value, first.distance)
        rows.append(TurnsRow(name, line.with_decision(word).url, best, count, badges))
    return TurnsTable([format_piece(piece) for piece in pieces], rows, has_equal_decisions(solution))


def describe_gifts(game: Game, solved: SolvedPosition | None) -> str:
    """Describe how many gifts are safe and how many keep the value.

    Return "" if the next decision is not a gift or nothing is known yet.
    """
    if game.next_decision is not NextDecision.GIFT or solved is None:
        return ""
    solution, gift_count, safe_count = solved.solution, len(game.pieces_left), solved.safe_gifts.bit_count()
    text = f"Safe gifts: {safe_count} of {gift_count} ({format_percent_whole(safe_count / gift_count)} %)"
    if not solution.turns:
        return f"{text}."
    keeping_count = sum(turn.value == solution.value for turn in solution.turns)
    return f"{text}. Gifts that keep the value: {keeping_count} of {gift_count}."


def describe_position(line: AnalysisLine, solution: Solution | None) -> str:
    """Describe who decides next, with the value of the position if it is known, or how a finished game ended."""
    game = line.game
    if game.next_decision is NextDecision.NOTHING:
        if game.lines:
            return f"{line.names[game.winner]} has won: {'; '.join(format_cells(cells) for cells in game.lines)}."
        return "A draw: the board is full and no line is finished."
    deed = {
        NextDecision.GIFT: "to give a piece",
        NextDecision.PLACEMENT: f"to place {format_piece(game.hand) if game.hand != NONE else ''}",
        NextDecision.PLY: "to choose a piece and place it",
    }[game.next_decision]
    value = f": {build_badge(solution.value, solution.distance).words}" if solution else ""
    return f"{line.names[game.seat]} {deed}{value}."


def build_steps(line: AnalysisLine, values: AnalysisValues | None) -> list[LineStep]:
    """Build the steps of a line, one for each decision, with the value after the decision if that value is known."""
    steps = []
    for at, word in enumerate(line.words):
        before = line.games[at]
        regret = values.regret(at, before.seat) if values and at >= line.imposed_decision_count else None
        after = values.seat_0[at + 1] if values else None
        kind = "" if after is None else winning_seat_css_class(after)
        mistake = MISTAKE_MARKS.get(regret or 0, "")
        label = _describe_step(line, at, after, regret)
        in_branch = bool(line.branch) and at >= line.fork
        steps.append(LineStep(word, line.with_position(at + 1).url, label, kind, mistake, at + 1 == line.at, in_branch))
    return steps


def _describe_step(line: AnalysisLine, step: int, value_after: int | None, regret: int | None) -> str:
    before, word = line.games[step], line.words[step]
    deeds = {NextDecision.GIFT: "gives", NextDecision.PLACEMENT: "places on"}
    who = "Imposed:" if step < line.imposed_decision_count else line.names[before.seat]
    outcome = "" if value_after is None else ": a draw" if not value_after else f": {line.names[value_after < 0]} wins"
    regret_note = {1: ", one half-point given up", 2: ", two half-points given up"}.get(regret or 0, "")
    return f"ply {len(before.plies)}. {who} {deeds.get(before.next_decision, 'plays')} {word}{outcome}{regret_note}"


def format_evaluation_polylines(line: AnalysisLine, evaluations: LoggedEvaluations) -> list[str]:
    """Format the evaluations of a logged game as points of SVG polylines: one text for each seat.

    The text of a seat has the evaluations that the player in the seat reported. Horizontally, each decision is 1 wide.
    Vertically, 0 is a win of seat 0 and 2 is a win of seat 1. If a player reported fewer than two evaluations, the text
    is "". The list is empty if both texts are "" or the line has a branch.
    """
    if line.branch or not evaluations:
        return []
    polylines, last = list[str](), len(line.words) - 1
    for seat, sign in ((0, 1), (1, -1)):
        points = [
            (min(ply if line.rules.mover_chooses else 2 * ply + 2, last) + 0.5, 1 - sign * evaluation.value)
            for ply, evaluation in sorted(evaluations.items())
            if evaluation.value is not None and (ply + 1) % 2 == seat
        ]
        polylines.append(" ".join(f"{across:g},{down:.3f}" for across, down in points) if len(points) > 1 else "")
    return polylines if any(polylines) else []


def find_mistakes(line: AnalysisLine, values: AnalysisValues | None) -> list[int]:
    """Return the indices of the line's decisions that are known to have given up value.

    Imposed decisions do not count.
    """
    if values is None:
        return []
    chosen = range(line.imposed_decision_count, len(line.words))
    return [at for at in chosen if (values.regret(at, line.games[at].seat) or 0) > 0]


def group_mistakes_by_seat(line: AnalysisLine, values: AnalysisValues | None) -> tuple[list[int], list[int]]:
    """Return the indices of the decisions that ``find_mistakes`` finds, in a list for each seat."""
    mistakes: tuple[list[int], list[int]] = ([], [])
    for at in find_mistakes(line, values):
        mistakes[line.games[at].seat].append(at)
    return mistakes


def describe_mistakes_and_regret(line: AnalysisLine, values: AnalysisValues | None) -> str:
    """Describe each player's known mistakes, and the half-points that these mistakes gave up.

    Return "" while no values are known.
    """
    if values is None:
        return ""
    regrets_by_seat = [
        [values.regret(at, seat) or 0 for at in indices]
        for seat, indices in enumerate(group_mistakes_by_seat(line, values))
    ]
    return "; ".join(
        f"{name} made {format_count_with_noun(len(regrets), 'mistake')}, giving up "
        f"{format_count_with_noun(sum(regrets), 'half-point')}"
        if regrets
        else f"{name} made no mistake"
        for name, regrets in zip(line.names, regrets_by_seat, strict=True)
    )


def describe_next_decision_if_mistake(line: AnalysisLine, values: AnalysisValues | None) -> str:
    """Describe the next decision of the line if it is known to be a mistake; return "" otherwise."""
    if values is None or not line.imposed_decision_count <= line.at < len(line.words):
        return ""
    change = values.find_values_around(line.at, line.game.seat)
    if change is None or not change.regret:
        return ""
    return (
        f"Here {line.names[line.game.seat]} chose {line.words[line.at]}, which turned a {VALUE_NAMES[change.before]} "
        f"into a {VALUE_NAMES[change.after]}."
    )


def format_decisions_so_far(line: AnalysisLine) -> str:
    """Format the decisions from the start of the line to the current position as text, such as ``F@b1 3``."""
    game = line.game
    plies = game.plies[len(line.start.plies) :]
    words: Sequence[str] = [f"{format_piece(piece)}@{format_cell(cell)}" for piece, cell in plies]
    hand = format_decisions((), game.hand, game.rules)
    return " ".join((*words, *hand))
