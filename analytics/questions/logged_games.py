"""One logged game: its agents, its plies, and the exact values of its decisions where the archive has them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import polars as pl

from analytics.questions.selection import find_game_files, read_file_rows, read_plies
from analytics.questions.sql.database import OpenArchive
from analytics.store.records import RunRecord
from quarto.errors import NotFoundError
from quarto.game import Game
from quarto.notation import format_cell, format_piece
from quarto.rules import NONE


class ArchivedGame(NamedTuple):
    """A logged game with its run and its agents."""

    record: RunRecord
    game_id: int
    agents: tuple[str, str]  # by seat
    winner: int
    ending: str
    opening: int  # plies that were imposed
    plies: tuple[tuple[int, int], ...]  # piece, cell


def load_logged_game(opened: OpenArchive, run_id: str, game_id: int) -> ArchivedGame:
    """Load the game with this id from a run. Raises ``NotFoundError`` if the archive has no such game."""
    record = opened.archive.load_requested_run(run_id)
    game_rows = (
        opened.retry_if_file_missing(lambda: _read_game_row_or_empty_frame(opened, run_id, game_id))
        if 0 <= game_id < 1 << 63
        else pl.DataFrame()
    )
    if game_rows.is_empty():
        raise NotFoundError(f"run {run_id} has no game {game_id} in this archive")
    game, plies = game_rows.row(0, named=True), read_plies(opened, [(run_id, game_id)])
    return ArchivedGame(
        record,
        game_id,
        (game["agent_0"], game["agent_1"]),
        game["winner"],
        game["ending"],
        game["opening"],
        tuple(plies.get((run_id, game_id), ())),
    )


def _read_game_row_or_empty_frame(opened: OpenArchive, run_id: str, game_id: int) -> pl.DataFrame:
    columns = ("agent_0", "agent_1", "winner", "ending", "opening")
    files = find_game_files(opened, "games", run_id, [game_id])
    return read_file_rows(opened, files, columns, f"game_id = {game_id}") if files else pl.DataFrame()


GIFT, PLACEMENT = "gift", "placement"


class ValueChange(NamedTuple):
    """The exact values of the positions before and after a decision, for the player that decides."""

    before: int  # value for the player that decides: 1 won, 0 drawn, -1 lost
    after: int

    @property
    def regret(self) -> int:
        """The value that the decision gave up, in half-points."""
        return self.before - self.after


Judgements = Mapping[tuple[int, str], ValueChange]  # by ply and kind


class Decision(NamedTuple):
    """A gift or a placement in a logged game, with the exact values before and after it, if these are known."""

    ply: int
    kind: str
    seat: int
    agent: str
    choice: str  # the piece or the cell
    imposed: bool
    judgement: ValueChange | None  # None: not judged


def read_judgements(opened: OpenArchive, run_id: str, game_id: int) -> Judgements:
    """Read the stored exact values before and after each decision of a game, by ply and kind of decision.

    The result is empty if no values are stored.
    """
    rows = opened.sql(
        "SELECT ply, kind, value_before, value_after FROM decisions WHERE run_id = ? AND game_id = ?", [run_id, game_id]
    )
    return {(ply, kind): ValueChange(before, after) for ply, kind, before, after in rows.iter_rows()}


class LoggedEvaluation(NamedTuple):
    """What an agent reported about one of its turns."""

    value: float | None  # the result that it expected, from 1, won, to -1, lost
    visits: int | None
    seconds: float


LoggedEvaluations = Mapping[int, LoggedEvaluation]  # by the ply that the turn placed; a first gift has the ply before


def read_evaluations(opened: OpenArchive, run_id: str, game_id: int) -> LoggedEvaluations:
    """Read the stored evaluations of a game's turns, by ply; the result is empty if none are stored."""
    rows = opened.sql(
        "SELECT ply, value, visits, seconds FROM evaluations WHERE run_id = ? AND game_id = ?", [run_id, game_id]
    )
    return {ply: LoggedEvaluation(*evaluation) for ply, *evaluation in rows.iter_rows()}


def replay_game_after_each_ply(game: ArchivedGame) -> list[Game]:
    """Return the states of a game, one after each ply."""
    return [Game(game.record.rules, game.plies[: ply + 1]) for ply in range(len(game.plies))]


def is_fully_judged(game: ArchivedGame, judgements: Judgements) -> bool:
    """Return whether exact values are stored for every free decision of a game."""
    return all(key in judgements for key in _list_free_decisions(game))


def count_free_decisions(game: ArchivedGame) -> int:
    """Count the decisions of a game in plies that were not imposed."""
    return sum(1 for _ in _list_free_decisions(game))


def _list_free_decisions(game: ArchivedGame) -> Iterator[tuple[int, str]]:
    for ply in range(game.opening, len(game.plies)):
        if not game.record.rules.mover_chooses:
            yield ply, GIFT
        yield ply, PLACEMENT


def list_decisions(game: ArchivedGame, judgements: Judgements) -> list[Decision]:
    """List all decisions of a game in the order of play, each with its exact values if ``judgements`` has them."""
    decisions = []
    for ply, (piece, cell) in enumerate(game.plies):
        imposed, mover = ply < game.opening, (ply + 1) % 2
        if not game.record.rules.mover_chooses:
            giver = 1 - mover
            gift = judgements.get((ply, GIFT))
            decisions.append(Decision(ply, GIFT, giver, game.agents[giver], format_piece(piece), imposed, gift))
            choice = format_cell(cell)
        else:
            choice = f"{format_piece(piece)}@{format_cell(cell)}"
        placement = judgements.get((ply, PLACEMENT))
        decisions.append(Decision(ply, PLACEMENT, mover, game.agents[mover], choice, imposed, placement))
    return decisions


def describe_winner(winner: int, agents: Sequence[str]) -> str:
    """Return the label of the winner, or ``draw`` if nobody won.

    ``winner`` is the winner's seat, or -1 for a draw, and ``agents`` has the labels by seat.
    """
    return "draw" if winner == NONE else agents[winner]
