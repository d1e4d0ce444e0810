"""A logged game ply by ply, with the annotated value of each decision."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from analytics.sql.database import OpenArchive
from quarto.notation import format_cell, format_piece
from runners.browse.games import ArchivedGame

GIFT, PLACEMENT = "gift", "placement"


class ValueChange(NamedTuple):
    """A decision against perfect play."""

    before: int  # value for the player that decides: 1 won, 0 drawn, -1 lost
    after: int

    @property
    def regret(self) -> int:
        """Half-points given up."""
        return self.before - self.after


Judgements = Mapping[tuple[int, str], ValueChange]  # by ply and kind


class Decision(NamedTuple):
    """A gift or a placement of a game."""

    ply: int
    kind: str
    seat: int
    agent: str
    choice: str  # the piece or the cell
    imposed: bool
    judgement: ValueChange | None  # None: not judged


def annotated(opened: OpenArchive, run_id: str, game_id: int) -> Judgements:
    """The judgements of a game that are in the archive."""
    found = opened.sql(
        "SELECT ply, kind, value_before, value_after FROM decisions WHERE run_id = ? AND game_id = ?", [run_id, game_id]
    )
    return {(ply, kind): ValueChange(before, after) for ply, kind, before, after in found.iter_rows()}


def is_judged(game: ArchivedGame, judged: Judgements) -> bool:
    """Whether every decision of a game that was free is judged."""
    return all(key in judged for key in _free(game))


def free_decisions(game: ArchivedGame) -> int:
    """The number of decisions of a game that were free: imposed plies are none."""
    return sum(1 for _ in _free(game))


def _free(game: ArchivedGame) -> Iterator[tuple[int, str]]:
    for ply in range(game.opening, len(game.plies)):
        if not game.record.rules.mover_chooses:
            yield ply, GIFT
        yield ply, PLACEMENT


def decisions(game: ArchivedGame, judged: Judgements) -> list[Decision]:
    """All decisions of a game in the order of play."""
    found = []
    for ply, (piece, cell) in enumerate(game.plies):
        imposed, mover = ply < game.opening, (ply + 1) % 2
        if not game.record.rules.mover_chooses:
            giver = 1 - mover
            gift = judged.get((ply, GIFT))
            found.append(Decision(ply, GIFT, giver, game.agents[giver], format_piece(piece), imposed, gift))
            choice = format_cell(cell)
        else:
            choice = f"{format_piece(piece)}@{format_cell(cell)}"
        placed = judged.get((ply, PLACEMENT))
        found.append(Decision(ply, PLACEMENT, mover, game.agents[mover], choice, imposed, placed))
    return found
