"""`qarena show`: one logged game, its boards, its plies and what each decision gave up, printed or as a file."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path, PurePath
from typing import NamedTuple

from analytics import open_archive
from analytics.questions import logged_games
from analytics.questions.columns import (
    VALUE_NAMES,
    ResultColumn,
    format_expected_value,
    format_seconds,
    format_short_game_name,
    number_column,
    text_column,
)
from analytics.questions.logged_games import (
    GIFT,
    PLACEMENT,
    ArchivedGame,
    Decision,
    Judgements,
    LoggedEvaluations,
    load_logged_game,
)
from analytics.questions.selection import GameFilter
from analytics.report.answers import build_game_result
from analytics.report.board_svg import render_animated_game_svg
from analytics.store.archive import MAX_NAMED_RUNS, ArchiveStore, find_run_id, unknown_run_error
from analytics.store.texts import format_count_with_noun
from quarto.batch import LINE
from quarto.errors import RequestError
from quarto.game import Game, describe_line
from quarto.notation import COLUMN_LETTERS, ROW_DIGITS, format_piece
from quarto.rules import NONE, SIDE
from runners.terminal import console
from runners.terminal.files import STANDARD_STREAM, TableOutput, write_file
from runners.terminal.tables import output_result

BOARD_WIDTH = 2 + 2 * SIDE
BOARD_GAP = 4  # characters between two boards
DEFAULT_WIDTH = 80  # characters of a row of boards, if the output is no terminal
BOARD_LEGEND = "> marks the last piece, = the pieces of a finished line"
VALUE_LEGEND = (
    "ply: from 0; value: exact value for the player that decides, and what it became; lost: half-points, 1 from a win "
    "to a draw or from a draw to a loss"
)


EVALUATION_LEGEND = (
    "evaluation: the result that the mover expected of its turn, 1 won, 0 drawn, \N{MINUS SIGN}1 lost; "
    "s: seconds that it took"
)


class GameReference(NamedTuple):
    """A reference to a logged game: its run and its id in the run."""

    run_id: str
    game_id: int


def parse_game_reference(archive: ArchiveStore, reference: str, run: str | None) -> GameReference:
    """Parse the name of a game: its run and its id, as tables show them (``15ab38 555``), or the id alone.

    ``run`` may name the run instead. The run may be left out if the archive has only one. Raises ``RequestError`` for
    an invalid reference, and for an unknown or ambiguous run.
    """
    *runs, number = reference.split() or [""]
    named = [*([run] if run is not None else []), *runs]
    if len(named) > 1 or not number.isdecimal():
        raise RequestError(f"{reference!r} is not a game: write the run and the game's id, such as 15ab38 555")
    run_id = find_run_id(archive, named[0]) if named else _find_only_run_id(archive)
    return GameReference(run_id, int(number))


def _find_only_run_id(archive: ArchiveStore) -> str:
    """Return the id of the archive's only run. Raises ``RequestError`` unless there is exactly one."""
    run_ids = archive.list_recorded_run_ids()
    if not run_ids:
        raise unknown_run_error(archive, "", run_ids)
    if len(run_ids) > 1:
        more = ", …" if len(run_ids) > MAX_NAMED_RUNS else ""
        raise RequestError(f"there are several runs, name one: {', '.join(run_ids[:MAX_NAMED_RUNS])}{more}")
    return run_ids[0]


def output_game(root: PurePath, reference: str, run: str | None, output: TableOutput, animate: bool = False) -> None:
    """Print a logged game board by board, or write the result of ``Archive.game`` to a file.

    If ``animate`` is true, the output is a picture of one board on which the game is played. Raises ``RequestError`` if
    the game does not exist.
    """
    if animate and output.form != "svg":
        raise RequestError("--animate is about a picture: write --output FILE.svg, or --format svg")
    run_id, game_id = parse_game_reference(ArchiveStore.open(root), reference, run)
    with open_archive(root) as opened:
        game = load_logged_game(opened, run_id, game_id)
        judgements = logged_games.read_judgements(opened, run_id, game_id)
        evaluations = logged_games.read_evaluations(opened, run_id, game_id)
        name = opened.archive.find_note(run_id).name
    title = f"Game {format_short_game_name(run_id, game_id)}: {_describe_players(game)}; {game.record.rules.name} rules"
    title += f"; run {name!r}" if name else ""
    if animate:
        moving = render_animated_game_svg(logged_games.replay_game_after_each_ply(game)[-1], game.agents, title)
        write_file(output.path or Path(STANDARD_STREAM), moving.encode())
    elif output.is_table_for_people_on_stdout:
        console.print_line(title)
        _print_game(game, judgements, evaluations, output.wide)
    else:
        output_result(build_game_result(game, judgements, evaluations), output)
    if output.is_table_for_people_on_stdout and not logged_games.is_fully_judged(game, judgements):
        some = f"{len(judgements)} of {logged_games.count_free_decisions(game)} decisions are judged"
        command = console.format_annotate_command(root, GameFilter(f"game_id = {game.game_id}", (run_id,)))
        console.print_note(f"{some}; this judges the rest, and the games in the same file: {command}")


def _print_game(
    game: ArchivedGame, judgements: Judgements, evaluations: LoggedEvaluations, wide: bool | None = None
) -> None:
    """Print the boards, the plies and the mistakes of a game.

    If ``wide`` is true, the table of plies keeps all its columns, however narrow the terminal is.
    """
    for row in render_boards(game, shutil.get_terminal_size().columns if sys.stdout.isatty() else DEFAULT_WIDTH):
        console.print_line(row)
    console.print_line(BOARD_LEGEND)
    columns = [*_build_ply_columns(game, judgements), *_build_value_and_seconds_columns(game, evaluations)]
    console.print_tables([console.build_escaped_table(columns)], wide=wide)
    if judgements:
        console.print_line(VALUE_LEGEND)
    if evaluations:
        console.print_line(EVALUATION_LEGEND)
    console.print_line(_describe_ending(game))
    for line in _describe_players_mistakes(game, judgements):
        console.print_line(line)


def _describe_players(game: ArchivedGame) -> str:
    player_0, player_1 = (f"{agent} (seat {seat})" for seat, agent in enumerate(game.agents))
    if game.record.rules.mover_chooses:
        return f"{player_1} places the first piece, {player_0} the second"
    return f"{player_0} gives the first piece, {player_1} places it"


# Boards.


def render_boards(game: ArchivedGame, width: int) -> list[str]:
    """Render the board after each ply as lines of text.

    As many boards are placed side by side as fit into ``width`` characters.
    """
    boards = [_render_board_below_ply_number(position) for position in logged_games.replay_game_after_each_ply(game)]
    across = max(1, (width + BOARD_GAP) // (BOARD_WIDTH + BOARD_GAP))
    return [
        (" " * BOARD_GAP).join(line.ljust(BOARD_WIDTH) for line in lines).rstrip()
        for first in range(0, len(boards), across)
        for lines in zip(*boards[first : first + across], strict=True)
    ]


def _render_board_below_ply_number(game: Game) -> list[str]:
    """Render a board as lines of text, below a line with the number of the last ply."""
    won, last = {cell for line in game.lines for cell in line}, game.plies[-1][1]
    rows = [f"ply {len(game.plies) - 1}", "  " + "".join(f" {letter}" for letter in COLUMN_LETTERS)]
    for row, digit in enumerate(ROW_DIGITS):
        cells = range(SIDE * row, SIDE * row + SIDE)
        marks = ("=" if cell in won else ">" if cell == last else " " for cell in cells)
        pieces = ("." if game.board[cell] == NONE else format_piece(game.board[cell]) for cell in cells)
        rows.append(f"{digit} " + "".join(mark + piece for mark, piece in zip(marks, pieces, strict=True)))
    return [*rows, ""]


# Plies.


def _build_ply_columns(game: ArchivedGame, judgements: Judgements) -> list[ResultColumn]:
    """Build columns in which each row is a ply: the gift, the placement and, if any decision is judged, the values."""
    decisions = logged_games.list_decisions(game, judgements)
    gifts = [decision for decision in decisions if decision.kind == GIFT]
    placements = [decision for decision in decisions if decision.kind == PLACEMENT]
    return [
        number_column("ply", range(len(game.plies))),
        *(_build_decision_columns("giver", "piece", gifts, bool(judgements)) if gifts else []),
        *_build_decision_columns("mover", "cell" if gifts else "ply", placements, bool(judgements)),
    ]


def _build_decision_columns(
    player_heading: str, choice_heading: str, decisions: Sequence[Decision], with_values: bool
) -> list[ResultColumn]:
    columns = [
        text_column(player_heading, [decision.agent for decision in decisions]),
        text_column(choice_heading, [decision.choice for decision in decisions]),
    ]
    if with_values:
        columns.append(text_column("value", map(_format_value_or_change, decisions)))
        columns.append(ResultColumn("lost", [_format_regret(decision) for decision in decisions]))
    return columns


def _build_value_and_seconds_columns(game: ArchivedGame, evaluations: LoggedEvaluations) -> list[ResultColumn]:
    """Build two columns: the value that the mover reported for each turn, and the seconds that the turn took.

    Without evaluations, there are no columns.
    """
    by_ply = [evaluations.get(ply) for ply in range(len(game.plies))] if evaluations else []
    if not by_ply:
        return []
    values = [
        "" if evaluation is None or evaluation.value is None else format_expected_value(evaluation.value)
        for evaluation in by_ply
    ]
    return [
        ResultColumn("evaluation", values),
        ResultColumn("s", ["" if evaluation is None else format_seconds(evaluation.seconds) for evaluation in by_ply]),
    ]


def _format_value_or_change(decision: Decision) -> str:
    """Format the exact value before a decision and, if the decision gave something up, the value after it."""
    judgement = decision.judgement
    if judgement is None or decision.imposed:
        return "imposed" if decision.imposed else "·"
    before, after = VALUE_NAMES[judgement.before], VALUE_NAMES[judgement.after]
    return f"{before} → {after}" if judgement.regret else before


def _format_regret(decision: Decision) -> str:
    return str(decision.judgement.regret) if decision.judgement is not None and decision.judgement.regret else ""


def _describe_ending(game: ArchivedGame) -> str:
    """Describe who won and with which line, or how else the game ended."""
    ended, last = Game(game.record.rules, game.plies), len(game.plies) - 1
    if game.winner == NONE:
        return f"A draw: the board is full after ply {last}, and no line is finished."
    winner, loser = game.agents[game.winner], game.agents[1 - game.winner]
    if ended.ending == LINE:
        lines = "; ".join(describe_line(ended, line) for line in ended.lines)
        return f"{winner} (seat {game.winner}) wins at ply {last}: {lines}."
    return f"{winner} (seat {game.winner}) wins: {loser} forfeits ({game.ending.removeprefix('forfeit_')})."


def _describe_players_mistakes(game: ArchivedGame, judgements: Judgements) -> list[str]:
    """Return a sentence about the regret of each player, or an empty list if no decision is judged."""
    regrets_by_seat: list[list[int]] = [[], []]
    for decision in logged_games.list_decisions(game, judgements):
        if decision.judgement is not None and decision.judgement.regret:
            regrets_by_seat[decision.seat].append(decision.judgement.regret)
    return [
        f"{agent} (seat {seat}) lost {format_count_with_noun(sum(regrets), 'half-point')} in "
        f"{format_count_with_noun(len(regrets), 'mistake')}."
        for seat, (agent, regrets) in enumerate(zip(game.agents, regrets_by_seat, strict=True))
        if judgements
    ]
