"""Mistakes in logged games: the worst first, each with the page that shows it on the board."""

from __future__ import annotations

from dataclasses import dataclass

from analytics.query.mistakes import among
from analytics.report.content import Cell, Table
from analytics.sql.database import OpenArchive
from runners.browse import links
from runners.browse.runs import chosen_records

MOST_ROWS = 25
VALUES = {1: "win", 0: "draw", -1: "loss"}


@dataclass(frozen=True)
class MistakeFilter:
    """The mistakes that are listed."""

    rules: str = ""
    run: str = ""
    trainings: bool = False
    agent: str = ""  # label
    kind: str = ""  # gift or placement
    ply: int | None = None  # from 0


def worst(opened: OpenArchive, wanted: MistakeFilter) -> Table:
    """The mistakes that meet filters, those that gave up most first, then the latest in a game.

    Raises ``RequestError`` for a run that is not there.
    """
    records = chosen_records(opened, wanted.rules, wanted.run, wanted.trainings)
    found = opened.sql(
        "SELECT run_id, game_id, ply, kind, agent, value_before, value_after FROM decisions "  # noqa: S608  (ids)
        f"WHERE regret > 0 AND {among([record.run_id for record in records])} "
        "AND ($agent = '' OR agent = $agent) AND ($kind = '' OR kind = $kind) AND ($ply IS NULL OR ply = $ply) "
        f"ORDER BY regret DESC, ply DESC, run_id, game_id LIMIT {MOST_ROWS}",
        {"agent": wanted.agent, "kind": wanted.kind, "ply": wanted.ply},
    )
    rows: list[list[str | Cell]] = [
        [
            Cell(
                f"{row['run_id'][:6]} {row['game_id']}",
                code=True,
                link=links.game_page(row["run_id"], row["game_id"], row["ply"]),
            ),
            row["agent"],
            row["kind"],
            str(row["ply"] + 1),
            f"{VALUES[row['value_before']]} → {VALUES[row['value_after']]}",
        ]
        for row in found.iter_rows(named=True)
    ]
    return Table("The largest mistakes, the latest in a game first", _HEADINGS, rows, (1, 2, 4))


_HEADINGS = ("game", "agent", "decision", "ply", "value")
