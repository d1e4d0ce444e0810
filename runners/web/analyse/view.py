"""A position of a line as its page shows it: every cell and every gift with its value, the decisions, the mistakes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from quarto.notation import format_cell, format_piece
from quarto.rules import CELLS, NONE, PIECES
from quarto.solver.solver import Solution, SolvedTurn
from runners.perfect.solve import cell_order
from runners.perfect.solvers import VALUE_NAMES, best_first
from runners.play.game import Game, NextDecision, cells_text
from runners.web.analyse.line import AnalysisLine, words_of
from runners.web.analyse.solving import SolvedPosition, Values
from runners.web.tiles import MISTAKES, Badge, DecisionTile, LineStep, filled_cell, kind_of, named, taken_piece


class TurnsTable(NamedTuple):
    """All turns of a position: a row for each cell, best first, and a column for each gift."""

    pieces: list[str]
    rows: list[tuple[str, str, Badge, int | None, list[Badge | None]]]  # cell, page, its best, its safe gifts, by piece


def badge(value: int, distance: int | None) -> Badge:
    """The badge of a value, 1, 0 or -1, and of the number of placements until the end, None where it is not known."""
    kind = VALUE_NAMES[value]
    if value == 0 or distance is None:
        return Badge(kind, kind, kind)
    return Badge(kind, f"{kind} {distance}", f"{kind} in {distance}")


def best_turns(turns: Iterable[SolvedTurn]) -> dict[tuple[int, int], SolvedTurn]:
    """The best turn for each decision: (NONE, gift), (cell, NONE), and (cell, piece) where the mover chooses both."""
    found: dict[tuple[int, int], SolvedTurn] = {}
    for turn in sorted(turns, key=best_first):
        for key in {(turn.cell, turn.gift), (turn.cell, NONE)}:
            found.setdefault(key, turn)
    return found


def tiles(line: AnalysisLine, solution: Solution | None, chosen: int) -> tuple[list[DecisionTile], list[DecisionTile]]:
    """The cells and the pieces of a position of a line; ``chosen`` is the piece to place where the mover chooses."""
    game, best, kept = line.game, best_turns(solution.turns) if solution else {}, kept_shares(solution)
    following = line.words[line.at] if line.at < len(line.words) else ""
    return (
        [_cell(line, game, cell, best, kept, following, chosen) for cell in range(CELLS)],
        [_piece(line, game, piece, best, following, chosen) for piece in range(PIECES)],
    )


Best = Mapping[tuple[int, int], SolvedTurn]


def _badge_of(best: Best, key: tuple[int, int]) -> Badge | None:
    return badge(best[key].value, best[key].distance) if key in best else None


def kept_shares(solution: Solution | None) -> dict[int, float]:
    """For each cell the share of its gifts that keep the value of the position, where they differ."""
    if solution is None:
        return {}
    by_cell: dict[int, list[bool]] = {}
    for turn in solution.turns:
        if NONE not in (turn.cell, turn.gift):
            by_cell.setdefault(turn.cell, []).append(turn.value == solution.value)
    shares = {cell: sum(kept) / len(kept) for cell, kept in by_cell.items()}
    return shares if len({*shares.values()}) > 1 else {}


def _cell(
    line: AnalysisLine, game: Game, cell: int, best: Best, kept: Mapping[int, float], following: str, chosen: int
) -> DecisionTile:
    name, filled = format_cell(cell), filled_cell(game, cell, marks_last=bool(line.at))
    if filled is not None:
        return filled
    word, key = "", (cell, NONE)
    if game.asked is NextDecision.PLACEMENT:
        word = name
    elif game.asked is NextDecision.PLY and chosen != NONE:
        word, key = f"{format_piece(chosen)}@{name}", (cell, chosen)
    shown = _badge_of(best, key) if game.asked is not NextDecision.GIFT else None
    label = f"{name}, empty{f': {shown.words}' if shown else ''}"
    played, href = bool(word) and word == following, line.chosen(word).url if word else ""
    return DecisionTile(name, NONE, label, href=href, badge=shown, played=played, kept=kept.get(cell))


def _piece(line: AnalysisLine, game: Game, piece: int, best: Best, following: str, chosen: int) -> DecisionTile:
    name, taken = format_piece(piece), taken_piece(game, piece)
    if taken is not None:
        return taken
    if game.asked is NextDecision.GIFT:
        shown = _badge_of(best, (NONE, piece))
        label = f"Give {named(piece)}{f': {shown.words}' if shown else ''}"
        return DecisionTile(name, piece, label, href=line.chosen(name).url, badge=shown, played=name == following)
    if game.asked is NextDecision.PLY:
        of_piece = [turn for (_, gift), turn in best.items() if gift == piece]
        shown = badge(of_piece[0].value, of_piece[0].distance) if of_piece else None
        href = f"{line.url}{'&' if '?' in line.url else '?'}piece={name}"
        label = f"Place {named(piece)}{f': {shown.words}' if shown else ''}"
        held, played = "hand" if piece == chosen else "left", following.startswith(f"{name}@")
        return DecisionTile(name, piece, label, href=href, badge=shown, played=played, held=held)
    return DecisionTile(name, piece, named(piece))


def turns_of(line: AnalysisLine, solved: SolvedPosition | None) -> TurnsTable | None:
    """The table of turns, where a placement is to be decided and its gift with it."""
    game = line.game
    if solved is None or not solved.solution.turns or solved.solution.turns[0].cell == NONE:
        return None
    solution = solved.solution
    by_cell: dict[int, dict[int, SolvedTurn]] = {}
    for turn in sorted(solution.turns, key=best_first):
        by_cell.setdefault(turn.cell, {})[turn.gift] = turn
    pieces = sorted({turn.gift for turn in solution.turns} - {NONE})
    rows = []
    for cell in sorted(by_cell, key=lambda each: cell_order(list(by_cell[each].values()))):
        turns = by_cell[cell]
        first = next(iter(turns.values()))
        of_pieces = [badge(turns[p].value, turns[p].distance) if p in turns else None for p in pieces]
        name = format_cell(cell)
        word = name if game.asked is NextDecision.PLACEMENT else f"{format_piece(first.gift)}@{name}"
        count = solved.safe_after.get(cell) if first.gift != NONE else None
        rows.append((name, line.chosen(word).url, badge(first.value, first.distance), count, of_pieces))
    return TurnsTable([format_piece(piece) for piece in pieces], rows)


def gifts_text(game: Game, solved: SolvedPosition | None) -> str:
    """The share of the gifts that are safe and of those that keep the value."""
    if game.asked is not NextDecision.GIFT or solved is None:
        return ""
    solution, left, safe = solved.solution, len(game.left), solved.safe.bit_count()
    text = f"Safe gifts: {safe} of {left} ({100 * safe / left:.0f} %)"
    if not solution.turns:
        return f"{text}."
    kept = sum(turn.value == solution.value for turn in solution.turns)
    return f"{text}. Gifts that keep the value: {kept} of {left}."


def sentence(line: AnalysisLine, solution: Solution | None) -> str:
    """The next decision, whose it is, and the value of the position."""
    game = line.game
    if game.asked is NextDecision.NOTHING:
        if game.lines:
            return f"Seat {game.winner} has won: {'; '.join(cells_text(each) for each in game.lines)}."
        return "A draw: the board is full and no line is finished."
    deed = {
        NextDecision.GIFT: "to give a piece",
        NextDecision.PLACEMENT: f"to place {format_piece(game.hand) if game.hand != NONE else ''}",
        NextDecision.PLY: "to choose a piece and place it",
    }[game.asked]
    value = f": {badge(solution.value, solution.distance).words}" if solution else ""
    return f"Seat {game.seat} {deed}{value}."


def steps(line: AnalysisLine, values: Values | None) -> list[LineStep]:
    """The decisions of a line with their values, as far as they are known."""
    found = []
    for at, word in enumerate(line.words):
        before = line.games[at]
        regret = values.regret(at, before.seat) if values else None
        after = values.seat_0[at + 1] if values else None
        kind = "" if after is None else kind_of(after)
        mistake = MISTAKES.get(regret or 0, "")
        label = _step_label(before, word, after, regret)
        in_branch = bool(line.branch) and at >= line.fork
        found.append(LineStep(word, line.stepped(at + 1).url, label, kind, mistake, at + 1 == line.at, in_branch))
    return found


OUTCOMES = {1: "seat 0 wins", 0: "a draw", -1: "seat 1 wins"}


def _step_label(before: Game, word: str, after: int | None, regret: int | None) -> str:
    deed = (
        "gives"
        if before.asked is NextDecision.GIFT
        else "places on"
        if before.asked is NextDecision.PLACEMENT
        else "plays"
    )
    value = "" if after is None else f": {OUTCOMES[after]}"
    lost = {1: ", one half-point given up", 2: ", two half-points given up"}.get(regret or 0, "")
    return f"{len(before.plies) + 1}. Seat {before.seat} {deed} {word}{value}{lost}"


def mistakes(line: AnalysisLine, values: Values | None) -> list[int]:
    """The positions before the decisions that gave something up, as far as they are known."""
    if values is None:
        return []
    return [at for at in range(len(line.words)) if (values.regret(at, line.games[at].seat) or 0) > 0]


def mistake_text(line: AnalysisLine, values: Values | None) -> str:
    """A sentence about what the line does next, if it gives something up."""
    if values is None or line.at >= len(line.words):
        return ""
    regret, seat = values.regret(line.at, line.game.seat), line.game.seat
    if not regret:
        return ""
    before, after = values.seat_0[line.at], values.seat_0[line.at + 1]
    if before is None or after is None:
        return ""
    sign = 1 if seat == 0 else -1
    return (
        f"Here seat {seat} chose {line.words[line.at]}, which turned a {VALUE_NAMES[sign * before]} into a "
        f"{VALUE_NAMES[sign * after]}."
    )


def game_text(line: AnalysisLine) -> str:
    """The decisions so far, as text."""
    game = line.game
    plies = game.plies[len(line.start.plies) :]
    words: Sequence[str] = [f"{format_piece(piece)}@{format_cell(cell)}" for piece, cell in plies]
    hand = words_of((), game.hand, game.rules)
    return " ".join((*words, *hand))
