"""`qarena mistakes`: the regret of each agent, and the hardest positions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path, PurePath

import polars as pl

from analytics import open_archive
from analytics.query.game_filter import GameFilter
from analytics.query.mistakes import (
    HardPosition,
    decision_summaries,
    hardest_positions,
    judged_agents,
)
from analytics.query.selection import repeated_games
from analytics.report import style
from analytics.report.figures import regret
from analytics.report.figures.reported_games import ReportedGames, reported_games
from analytics.report.page import mistakes_page
from analytics.results.columns import ResultColumn, column, decision_columns, game_name, words
from analytics.sql.views import among, literal
from analytics.store.archive import Archive
from quarto.errors import RequestError
from runners.perfect.annotate import same_games
from runners.perfect.solvers import VALUE_NAMES
from runners.terminal import console
from runners.terminal.files import PRINTED, TableOutput, write_file
from runners.terminal.tables import write

REGRET_LEGEND = (
    "regret: exact value that a decision gave up, 1 from a win to a draw or from a draw to a loss, 2 from a win to a "
    "loss; blunders: decisions that gave up something"
)
PLY_LEGEND = "ply: from 0, the number of pieces on the board; otherwise as above"
HARD_LEGEND = (
    "value: for the player that decides; saving: choices that keep it, of all; missed: blunders in this position; game "
    "and ply: one of them ('qarena show' prints the game)"
)


def show_mistakes(
    root: PurePath,
    games: GameFilter,
    positions: int,
    html: Path | None,
    svg: Path | None,
    output: TableOutput = PRINTED,
) -> None:
    """Print the regret of each agent and the hardest positions, or of the agent in ``games`` alone.

    Another ``output`` gets the regrets alone, those of all plies with ``ply`` null. Raises ``RequestError`` if nothing
    is annotated.
    """
    archive = Archive.open(root)
    records = games.records(archive)
    runs, rules = [record.run_id for record in records], {record.rules.name for record in records}
    chosen = among(runs) if games.agent is None else f"{among(runs)} AND agent = {literal(games.agent)}"
    counted = f"qarena annotate{same_games(root, games.runs)} --choices"
    with open_archive(root) as opened:
        names = judged_agents(opened, chosen)
        totals, by_ply = (decision_summaries(opened, chosen, each, names) for each in (False, True))
        if totals.is_empty():
            raise RequestError(
                f"no decisions of these runs are judged in archive {root}: run '{counted}' first (without --choices it "
                "is faster, and the hardest positions are missing: docs/decisions.md)"
            )
        notes = [*names.notes, *repeated_games(opened, runs)]
        hard = hardest_positions(opened, chosen, positions) if positions and output.is_printed else []
        if html or svg:
            _write(reported_games(opened, among(runs)), totals["agent"], html, svg)
    if len(rules) > 1:
        notes.append(f"these are decisions under different rules, {', '.join(sorted(rules))}: --rules NAME chooses one")
    for note in notes:
        console.print_note(note)
    if not output.is_printed:
        write(pl.concat([totals, by_ply]), output)
        return
    _show(decision_columns(totals), "Regret in half-points a decision", REGRET_LEGEND)
    _show(decision_columns(by_ply), "By ply", PLY_LEGEND)
    if hard:
        _show(_hard_columns(hard), "Hardest positions, up to symmetry", HARD_LEGEND)
    elif positions:
        console.print_note(f"the hardest positions need counted choices: run '{counted}'")


def _show(columns: Sequence[ResultColumn], title: str, legend: str) -> None:
    """Print a table, and below it a line that says what its columns mean."""
    console.show([console.tabulated(columns, title)])
    console.print_line(legend)


def _write(chosen: ReportedGames, agents: pl.Series, page: Path | None, picture: Path | None) -> None:
    """Blunders of agents by ply, as a page and as SVG. Raises ``FailureError`` when a file cannot be written."""
    frame = regret.mistakes_frame(chosen, by_ply=True).filter(pl.col("agent").is_in(agents.implode()))
    if page:
        write_file(page, mistakes_page(frame, chosen).encode())
    if picture:
        write_file(picture, style.svg(regret.mistakes_picture(frame, chosen)).encode())


def _hard_columns(found: Sequence[HardPosition]) -> list[ResultColumn]:
    return [
        words("position", [each.text for each in found]),
        words("decision", [each.kind for each in found]),
        words("value", [VALUE_NAMES[each.value] for each in found]),
        ResultColumn("saving", [f"{each.saving} of {each.choices}" for each in found]),
        column("missed", [each.missed for each in found]),
        words("game", [game_name(each.run_id, each.game_id) for each in found]),
        column("ply", [each.ply for each in found]),
    ]
