"""The value that agents give up compared with perfect play, over all plies and by ply."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import polars as pl

from analytics.questions.columns import (
    VALUE_NAMES,
    ResultColumn,
    Table,
    format_short_game_name,
    number_column,
    regret_and_blunder_columns,
    text_column,
)
from analytics.questions.mistakes import Mistake, find_worst_mistakes, summarise_decisions
from analytics.questions.selection import describe_pairings_of_identical_games
from analytics.questions.sql.views import quote_text_or_number
from analytics.report import style
from analytics.report.advice import Advice
from analytics.report.report_data import ReportData
from analytics.report.result import Result
from analytics.report.section import agent_figures, agent_table, build_section_by_ply
from analytics.report.style import Figure
from analytics.report.vega import Spec, inline_data, layer, nominal, quantitative, range_end

REGRET_LEGEND = (
    "regret: exact value that a decision gave up, 1 from a win to a draw or from a draw to a loss, 2 from a win to a "
    "loss; blunders: decisions that gave up something"
)
PLY_LEGEND = "ply: from 0, the number of pieces on the board; otherwise as above"
WORST_LEGEND = Advice(
    "most regret first, then the easiest; value: before the mistake, for the player that decides; saving: choices that "
    "keep it, of all; missed: blunders in this position; game and ply: the worst one",
    "'qarena show' prints the game",
    "archive.game(run, id) shows the game",
)
WORST_SCHEMA = {
    **dict.fromkeys(("position", "kind"), pl.String()),
    **dict.fromkeys(("regret", "value", "saving", "choices", "missed"), pl.Int64()),
    "run_id": pl.String(),
    **dict.fromkeys(("game_id", "ply"), pl.Int64()),
}
MAX_NAMED_RUNS = 3  # in the advice to judge games
KINDS = ["gift", "placement"]
HEADROOM = 1.25  # height of the figures in units of the largest share; intervals are cut there


def build_mistakes_section(data: ReportData) -> Result:
    """Build the section about the regret and the blunders of agents, over all plies and by ply."""
    note = (
        "Decisions judged by the exact value of the position. The pictures show blunders by ply. Solid lines with dots "
        "are gifts, dashed lines with squares placements, bands 95 % intervals."
    )
    missing = _advise_annotation(data, "no decision of these games is judged")
    return build_section_by_ply(data, mistakes_frame, missing, _build_parts, note)


def _advise_annotation(data: ReportData, text: str, choices: bool = False) -> Advice:
    """Add to a remark the command and the Python call that judge the games; with ``choices``, they count choices, too.

    The call names the archive and the runs of the section, because judging all games of an archive may take hours. If
    these are all runs of the archive, none is named; otherwise, at most the first ``MAX_NAMED_RUNS`` are. With
    ``choices``, the command names the same archive and runs. Without ``choices``, it names neither, because the remark
    is then also part of report pages, which may be read where the archive is not.
    """
    archive, run_ids = data.opened.archive, [*data.records]
    if len(run_ids) == len(archive.list_recorded_run_ids()):
        run_ids = []
    arguments = [f"run={run_ids[0]!r}"] if len(run_ids) == 1 else [f"run={run_ids[:MAX_NAMED_RUNS]}"] if run_ids else []
    call = archive.format_call("annotate", *arguments, *["choices=True"] * choices)
    command = "'qarena annotate'"
    if choices:
        options = "".join(f" --run {run_id}" for run_id in run_ids[:MAX_NAMED_RUNS])
        command = archive.format_command(f"annotate{options} --choices")
    more = " for the first runs" if len(run_ids) > MAX_NAMED_RUNS else ""
    return Advice(text, f"{command} does that{more}", f"{call} does that{more}, then archive.refresh()")


def _build_parts(totals: pl.DataFrame, by_ply: pl.DataFrame, data: ReportData) -> tuple[Table, Table, list[Figure]]:
    table, table_by_ply = (
        replace(agent_table(data, caption, frame, regret_and_blunder_columns(frame)[1:]), legend=legend)
        for caption, frame, legend in (
            ("Regret in half-points a decision", totals, REGRET_LEGEND),
            ("By ply", by_ply, PLY_LEGEND),
        )
    )
    return table, table_by_ply, _build_figures(by_ply, data)


def build_mistakes_result(data: ReportData, max_positions: int) -> Result:
    """Build the result for mistakes: the section, the ``max_positions`` worst positions, and warnings."""
    section = build_mistakes_section(data)
    if section.missing:
        return section
    condition = data.selection.condition
    if data.agent is not None:
        condition = f"({condition}) AND agent = {quote_text_or_number(data.agent)}"
    worst = find_worst_mistakes(data.opened, condition, max_positions) if max_positions else []
    warnings: list[str] = [
        *data.agent_names.notes,
        *describe_pairings_of_identical_games(data.opened, data.records),
    ]
    if len(data.rules) > 1:
        text = f"these are decisions under different rules, {', '.join(data.rules)}"
        warnings.append(Advice(text, "--rules NAME chooses one", "rules=NAME chooses one"))
    if any(mistake.saving is None for mistake in worst):
        text = "choices that keep the value are not counted everywhere"
        warnings.append(_advise_annotation(data, text, choices=True))
    tables = [build_worst_mistakes_table(worst)] if worst else []
    return replace(section, others=tables, warnings=warnings, frames={"worst": _build_worst_mistakes_frame(worst)})


def _build_worst_mistakes_frame(mistakes: Sequence[Mistake]) -> pl.DataFrame:
    """Build the frame of the positions with the most regret.

    Each row is a position. It names the game by the full id of its run and the game's id.
    """
    return pl.DataFrame(
        [
            (mistake.position_text, *(getattr(mistake, name) for name in WORST_SCHEMA if name != "position"))
            for mistake in mistakes
        ],
        WORST_SCHEMA,
        orient="row",
    )


def build_worst_mistakes_table(mistakes: Sequence[Mistake]) -> Table:
    """Build the table of the positions with the most regret, one row for each mistake."""
    columns = [
        text_column("position", [mistake.position_text for mistake in mistakes]),
        text_column("decision", [mistake.kind for mistake in mistakes]),
        ResultColumn("regret", [f"{mistake.regret}" for mistake in mistakes]),
        text_column("value", [VALUE_NAMES[mistake.value] for mistake in mistakes]),
        ResultColumn(
            "saving",
            [f"{'?' if mistake.saving is None else mistake.saving} of {mistake.choices}" for mistake in mistakes],
        ),
        number_column("missed", [mistake.missed for mistake in mistakes]),
        text_column("game", [format_short_game_name(mistake.run_id, mistake.game_id) for mistake in mistakes]),
        number_column("ply", [mistake.ply for mistake in mistakes]),
    ]
    return Table("Worst mistakes, positions up to symmetry", columns, legend=WORST_LEGEND)


def mistakes_frame(data: ReportData, by_ply: bool) -> pl.DataFrame:
    """Return a summary of the requested agents' decisions, with the columns of ``summarise_decisions``.

    The frame has no rows if no decision was judged.
    """
    decisions = summarise_decisions(data.opened, data.selection.condition, by_ply, data.agent_names)
    return data.sort_by_rank(data.select_rows_of_requested_agents(decisions))


def _build_figures(frame: pl.DataFrame, data: ReportData) -> list[Figure]:
    """Build a figure for each agent with the share of blunders by ply and its interval; all have the same scale."""
    largest = frame["blunders"].max()
    top = min(1.0, HEADROOM * float(largest)) if isinstance(largest, float) and largest > 0 else 1.0
    cut = frame.with_columns(pl.col("blunders_high").clip(upper_bound=top))
    return agent_figures(data, "mistakes", cut, _build_chart, top)


def _build_chart(rows: pl.DataFrame, colour: str, max_share: float) -> Spec:
    """Build the chart of an agent's share of blunders by ply, for gifts and for placements, with intervals.

    The scale ends at ``max_share``.
    """
    axis = {"title": "blunders", "axis": style.SHARE_AXIS, "scale": {"domain": [0, max_share], "nice": False}}
    return {**style.PANEL, **_build_lines_by_kind(rows, "blunders", colour, axis)}


def build_regret_chart(rows: pl.DataFrame) -> Spec:
    """Build the chart of an agent's mean regret by ply, for gifts and for placements, with intervals."""
    axis = {"title": "regret, half-points", "axis": {"tickCount": 4, **style.PLAIN_AXIS}}
    size = {"width": style.WIDTH, "height": style.PANEL_HEIGHT}
    return {**size, **_build_lines_by_kind(rows, "regret", style.FIRST_COLOUR, axis)}


def _build_lines_by_kind(rows: pl.DataFrame, column: str, colour: str, axis: Spec) -> Spec:
    """Build a line for gifts and a line for placements by ply, each with its interval.

    ``column`` is shown, and its interval is in the columns that end in ``_low`` and ``_high``. ``axis`` has the
    properties of the vertical axis.
    """
    height = quantitative(column, **axis)
    dashes = nominal("kind", scale={"domain": KINDS, "range": [[1, 0], [4, 3]]}, legend=None)
    shapes = nominal("kind", scale={"domain": KINDS, "range": ["circle", "square"]}, legend=None)
    band = {"y": quantitative(f"{column}_low", title=axis["title"]), "y2": range_end(f"{column}_high")}
    return {
        "data": inline_data(rows),
        "encoding": {"x": style.ply_axis(0), "detail": nominal("kind")},
        "layer": [
            layer("area", band, color=colour, opacity=0.16),
            layer("line", {"y": height, "strokeDash": dashes}, color=colour, strokeWidth=2),
            layer("point", {"y": height, "shape": shapes}, color=colour, filled=True, size=26, opacity=1),
        ],
    }
