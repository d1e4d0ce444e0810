"""Mistakes in logged games: the worst first, each with the page that shows it on the board."""

from __future__ import annotations

from analytics.query.game_filter import GameFilter
from analytics.report.content import Cell, PageTable
from analytics.sql.database import OpenArchive
from analytics.sql.views import among
from runners.browse import links
from runners.browse.runs import chosen_records

MOST_ROWS = 25
VALUES = {1: "win", 0: "draw", -1: "loss"}


def worst(opened: OpenArchive, wanted: GameFilter, kind: str = "", ply: int | None = None) -> PageTable:
    """The mistakes of some games, those that gave up most first, then the latest in a game.

    ``kind`` is gift or placement, ``ply`` counts from 0. Raises ``RequestError`` for a run that is not there.
    """
    records = chosen_records(opened, wanted)
    found = opened.sql(
        "SELECT run_id, game_id, ply, kind, agent, value_before, value_after FROM decisions "  # noqa: S608  (ids)
        f"WHERE regret > 0 AND {among(record.run_id for record in records)} "
        "AND ($agent IS NULL OR agent = $agent) AND ($kind = '' OR kind = $kind) AND ($ply IS NULL OR ply = $ply) "
        f"ORDER BY regret DESC, ply DESC, run_id, game_id LIMIT {MOST_ROWS}",
        {"agent": wanted.agent, "kind": kind, "ply": ply},
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
    return PageTable("The largest mistakes, the latest in a game first", _HEADINGS, rows, (1, 2, 4))


_HEADINGS = ("game", "agent", "decision", "ply", "value")
