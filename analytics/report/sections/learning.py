"""Learning curves, as they are stored with the policies that learned in the runs of a report."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

import polars as pl

from analytics.questions.columns import (
    MISSING,
    ResultColumn,
    Table,
    format_interval,
    format_percent,
    format_significant,
    number_column,
    text_column,
)
from analytics.questions.sql.database import OpenArchive
from analytics.report import style
from analytics.report.report_data import ReportData
from analytics.report.result import Result
from analytics.report.section import assign_figure_ids
from analytics.report.style import Figure
from analytics.statistics.tally import wilson_bounds
from analytics.store import policy_store
from analytics.store.policy_cards import PolicyCard
from analytics.store.records import RunRecord
from analytics.store.texts import format_count_with_noun

MAX_POLICIES = 12  # if there are more policies, the newest are shown
MAX_ROWS = 400  # approximate number of rows of the table of values
NEWEST_POLICIES, NEWEST_ROWS = 2, 120  # of the overview; a picture takes 0.07 s


class LearningCurve(NamedTuple):
    """A policy's card and the learning curve of its training."""

    card: PolicyCard
    rows: pl.DataFrame  # in the form of ``analytics.report.style.render_curve_svg``


def build_section_on_trained_policies(data: ReportData) -> Result:
    """Build the section with the learning curves of the policies that learned in these runs."""
    return _build_section(load_training_curves(data), MAX_POLICIES, MAX_ROWS)


def build_learning_overview(data: ReportData) -> Result:
    """Build the section with the learning curves of the newest policies alone, and fewer of their values."""
    return _build_section(load_training_curves(data), NEWEST_POLICIES, NEWEST_ROWS)


def _build_section(all_curves: list[LearningCurve], max_policies: int, max_rows: int) -> Result:
    if not all_curves:
        return Result(missing="no policy was learned in these runs")
    curves = all_curves[-max_policies:]
    newest = (
        f" Shown are the newest {len(curves)} of {len(all_curves)} policies." if len(all_curves) > len(curves) else ""
    )
    note = (
        "The results of agents while they learned, over each whole training: the share of games won with its 95 % "
        f"interval, or fitness by generation.{newest}"
    )
    figures = [build_learning_figure(curve) for curve in curves if not curve.rows.is_empty()]
    return Result(
        note,
        figures=assign_figure_ids("learning", figures),
        numbers=_build_thinned_values_table(curves, max_rows),
        frame=learning_frame(all_curves),
    )


def _build_thinned_values_table(curves: list[LearningCurve], max_rows: int) -> Table:
    """Build the table of the values of learning curves.

    If there are many values, only every n-th step of each curve is kept, with the same n for all curves. This n is the
    smallest that leaves fewer than ``max_rows`` values, or a few more, because the first step of each curve is kept.
    """
    frame = learning_frame(curves)
    step = pl.int_range(pl.len()).over("policy_id", "series")
    rows = frame.filter(step % (1 + len(frame) // max_rows) == 0)
    columns = [text_column(name, rows[name]) for name in ("policy", "series")]
    values, ends = [], []
    for name, value, low, high in rows.select("series", "value", "low", "high").iter_rows():
        format_value = format_percent if name in SHARES or name.startswith("v ") else format_significant
        values.append(MISSING if value is None else format_value(value))
        ends.append(MISSING if low is None else format_interval(low, high, format_value))
    columns += [
        number_column("step", rows["step"]),
        ResultColumn("value", values),
        ResultColumn("95 % interval", ends),
    ]
    return Table("Values of the curves; win rates and scores in %", columns)


def build_learning_figure(curve: LearningCurve) -> Figure:
    """Build the figure of a learning curve."""
    card, learned = curve.card, curve.card.learned
    note = (
        f"{card.kind}, {card.rules['name']} rules, seed {learned['seed']}, "
        f"{format_count_with_noun(learned['games'], 'game')}"
    )
    size = style.PANEL_WIDTH - 15, style.PANEL_HEIGHT
    return Figure(f"{card.name}, {learned['trainer']}", style.build_curve_chart(curve.rows, *size), note=note)


def select_policies_trained_in_runs(data: ReportData) -> list[PolicyCard]:
    """Select the cards of policies that learned in one of the runs of ``data`` and have a curve, oldest first.

    Raises ``FailureError`` for a damaged card.
    """
    return _select_cards_with_curves(data.opened, data.records)


def _select_cards_with_curves(opened: OpenArchive, run_ids: Collection[str]) -> list[PolicyCard]:
    return [
        card
        for card in opened.archive.load_cards()
        if not set(card.learned["run_ids"]).isdisjoint(run_ids) and "curve.parquet" in card.files
    ]


def load_training_curves(data: ReportData) -> list[LearningCurve]:
    """Load the whole learning curve of each card from ``select_policies_trained_in_runs``, oldest first.

    Raises ``FailureError`` for a damaged card, and ``RequestError`` for a damaged curve.
    """
    archive = data.opened.archive
    return [
        LearningCurve(card, policy_store.read_table(archive, card, "curve"))
        for card in select_policies_trained_in_runs(data)
    ]


class RunCurve(NamedTuple):
    """The learning curve of a run's training: the series that measures its success, with its unit and intervals."""

    policy_id: str  # runs of one training have the same
    measure: str  # one of ``MEASURES``
    block_games: int  # games behind each value but the last; 0: not known
    rows: pl.DataFrame  # the columns ``step``, ``value``, ``low`` and ``high`` of ``learning_frame``


MEASURES = ("win_rate", "strength", "best")  # series by which trainings are judged; a curve has at most one of them


def load_curves_of_training_runs(opened: OpenArchive, records: Iterable[RunRecord]) -> dict[str, RunCurve]:
    """Load the learning curve of each run that was played by a training and has one, by run id.

    If several policies learned in a run, because the training went on, the curve is that of the longest training. A
    policy that was derived from logged games has no curve of a training.

    Raises ``FailureError`` for a damaged card, and ``RequestError`` for a damaged curve.
    """
    curves = dict[str, RunCurve]()
    curves_by_policy = dict[str, RunCurve | None]()
    run_ids = [record.run_id for record in records if record.training]
    cards = _select_cards_with_curves(opened, run_ids)
    cards.sort(key=lambda card: int(card.learned["games"]))  # stable: the newest of equally long ones is the last
    for card in reversed(cards):
        missing_run_ids = [run_id for run_id in run_ids if run_id in card.learned["run_ids"] and run_id not in curves]
        if not missing_run_ids:
            continue
        if card.policy_id not in curves_by_policy:
            rows = policy_store.read_table(opened.archive, card, "curve")
            curves_by_policy[card.policy_id] = _build_run_curve(LearningCurve(card, rows))
        curve = curves_by_policy[card.policy_id]
        if curve is not None:
            curves |= dict.fromkeys(missing_run_ids, curve)
    return curves


def _build_run_curve(curve: LearningCurve) -> RunCurve | None:
    """Build the curve of a run from that of its policy, with as many points as a picture shows; None: no success."""
    measure = next((name for name in MEASURES if name in curve.rows.columns), None)
    if measure is None or curve.rows.is_empty():
        return None
    if measure == "win_rate":
        curve = curve._replace(rows=style.sum_curve_into_equal_rows(curve.rows))
    rows = learning_frame([curve]).filter(pl.col("series") == measure).select("step", "value", "low", "high")
    block_games = int(curve.rows["games"][0]) if measure == "win_rate" else 0
    return RunCurve(curve.card.policy_id, measure, block_games, rows)


def learning_frame(curves: list[LearningCurve]) -> pl.DataFrame:
    """Return all curves as one frame, with a row for each step of each series.

    Columns:

    - ``policy``, ``policy_id`` (String);
    - ``series`` (String): ``win_rate``, or the name of a fitness, error or score;
    - ``step`` (Int64): the number of games learned from, or the number of the generation or pass;
    - ``value`` (Float64);
    - ``low``, ``high`` (Float64): the ends of the value's 95 % interval: Wilson's interval for win rates, the stored
      interval for scores, and null for a series without intervals.
    """
    frames = [pl.DataFrame(schema=CURVES)]
    for card, curve in curves:
        rows = _pivot_passes_to_generations(curve) if "pass" in curve.columns else curve
        by_games = "win_rate" in rows.columns
        step = pl.col("first_game") + pl.col("games") if by_games else pl.col("generation")
        lines = [name for name, kind in rows.schema.items() if kind == pl.Float64]
        names = ["win_rate"] if by_games else [name for name in lines if not name.endswith((" low", " high"))]
        common = {"policy": pl.lit(card.name), "policy_id": pl.lit(card.policy_id), "step": step}
        for name in names:
            low, high = _find_interval(rows, name)
            series = rows.select(**common, series=pl.lit(name), value=name, low=low, high=high)
            frames.append(series.select(pl.col(column).cast(kind) for column, kind in CURVES.items()))
    return pl.concat(frames)


def _find_interval(rows: pl.DataFrame, name: str) -> tuple[pl.Series, pl.Series]:
    """Return the lower and the upper ends of the 95 % intervals of a series; both are null if it has no intervals."""
    if name == "win_rate":
        low, high = wilson_bounds(rows["wins"], rows["games"])
        return pl.Series(low), pl.Series(high)
    if f"{name} low" in rows.columns:
        return rows[f"{name} low"], rows[f"{name} high"]
    missing = pl.Series([None] * len(rows), dtype=pl.Float64)
    return missing, missing


def _pivot_passes_to_generations(rows: pl.DataFrame) -> pl.DataFrame:
    """Convert a learning curve by passes over the games to the form of a learning curve by generations.

    ``rows`` has a row for each pass and number of pieces on the board, and a column for each kind of error. The result
    has one row for each pass, whose number is in the column ``generation``, and one column for each combination of a
    kind of error and a number of pieces, such as ``won, 9 pieces``.
    """
    errors = [name for name, kind in rows.schema.items() if kind == pl.Float64]
    long = rows.unpivot(errors, index=["pieces", "pass"], variable_name="error").drop_nulls()
    named = long.with_columns(series=pl.format("{}, {} pieces", "error", "pieces"))
    return named.pivot("series", index="pass", values="value", maintain_order=True).rename({"pass": "generation"})


CURVES = {**dict.fromkeys(("policy", "policy_id", "series"), pl.String()), "step": pl.Int64()} | dict.fromkeys(
    ("value", "low", "high"), pl.Float64()
)
SHARES = ("win_rate", "strength")  # series that are shares or scores, besides those against an opponent, "v random"
