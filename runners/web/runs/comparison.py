"""The page that compares runs: what differs, the pairings that they share, and their curves over each other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice

import polars as pl

from analytics.questions.columns import (
    MISSING,
    ResultColumn,
    Table,
    format_p_value,
    format_percent,
    format_seconds,
    link_column,
    number_column,
    text_column,
)
from analytics.questions.run_comparison import (
    CODE_PREFIX,
    MODULE_PREFIX,
    RunComparison,
    compare_runs,
    format_difference_interval,
    format_games_a_second,
    format_share_difference,
)
from analytics.questions.sql.database import OpenArchive
from analytics.report import style
from analytics.report.result import Result
from analytics.report.sections.learning import RunCurve, load_curves_of_training_runs
from analytics.report.style import Figure
from analytics.report.vega import quantitative
from analytics.store.archive import find_run_id
from analytics.store.texts import format_count_with_noun, to_line
from quarto.errors import ArenaError, RequestError
from runners.web.archive import urls
from runners.web.archive.archive_page import ArchivePage
from runners.web.runs.curves import MAX_SERIES, build_learning_figures, build_overlay_figure

MAX_ROWS = 12  # pairings that a comparison shows at once; all others are folded
MAX_SETTINGS = 16  # settings that a comparison shows at once
MAX_FIGURES = 4
MAX_COUNTED_GAMES = 3_000_000  # games of which curves are counted while a page waits
MAX_NAME_CHARACTERS = 24  # of a run's name in a heading, and beside a curve
STEPS = 25  # points of a curve over the games of a run
FILE_PREFIX = "file "


def build_comparison_page(opened: OpenArchive, requested_ids: Sequence[str]) -> ArchivePage:
    """Build the page that compares the first of some runs with each of the others.

    Raises ``RequestError`` for an unknown run, for fewer than two runs, and for more than there are colours.
    """
    if len(requested_ids) > MAX_SERIES:
        runs = format_count_with_noun(len(requested_ids), "run")
        raise RequestError(f"{runs} cannot be compared at once: choose at most {MAX_SERIES}")
    comparison = compare_runs(opened, requested_ids)
    names = name_runs(opened, comparison.runs)
    shared = select_shared_rows(comparison.results)
    settings, code = _split_settings(comparison.settings.filter(pl.col("setting") != "games"))
    table = _build_shared_table(shared, comparison, names)
    first_rows = table if len(table.text_rows) <= MAX_ROWS else _build_most_different_table(shared, comparison, names)
    folded = None if first_rows is table else table
    curves, left_out = load_learning_curves(opened, comparison.runs)
    figures = [*build_learning_figures(curves, names), *build_curves(opened, comparison, shared, names, curves)]
    results = Result(table=first_rows, numbers=folded) if table.text_rows else None
    parts: list[Table | Result | Figure | str] = [
        *comparison.agent_match_notes,
        _build_settings_table(settings, comparison, names),
        results or "These runs have no pairing in common.",
        *([Result(figures=figures)] if figures else []),
        *_build_folded_tables(settings, code, comparison, names),
    ]
    lead = f"Each is compared with the first one, `{comparison.runs[0]}`."
    links = {
        f"Run {opened.archive.find_note(run_id).name or names[run_id]}": urls.run_url(run_id)
        for run_id in comparison.runs
    }
    return ArchivePage("Runs compared", lead, links, parts, left_out=left_out)


def load_learning_curves(opened: OpenArchive, run_ids: Iterable[str]) -> tuple[dict[str, RunCurve], list[str]]:
    """Load the learning curves of those runs that were played by trainings, by run id.

    If a file is damaged, there are no curves; the second value has the message.
    """
    try:
        return load_curves_of_training_runs(opened, [opened.archive.load_run(run_id) for run_id in run_ids]), []
    except ArenaError as error:
        return {}, [error.for_command_line]


def name_runs(opened: OpenArchive, run_ids: Iterable[str]) -> dict[str, str]:
    """Return a short name for each run: the name that somebody gave it, or the first digits of its id.

    The names stand in headings and beside curves, so a long one is cut. If two runs have the same name then, the digits
    follow it.
    """
    ids = [find_run_id(opened.archive, run_id) for run_id in run_ids]
    names = {
        run_id: to_line(opened.archive.find_note(run_id).name, MAX_NAME_CHARACTERS) or run_id[:6] for run_id in ids
    }
    counts = Counter(names.values())
    return {run_id: name if counts[name] == 1 else f"{name} ({run_id[:6]})" for run_id, name in names.items()}


def select_shared_rows(results: pl.DataFrame) -> pl.DataFrame:
    """Select the rows of the pairings that at least two of the compared runs have."""
    return results.filter(pl.col("run").n_unique().over("first", "second") > 1)


def _split_settings(settings: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Split the settings that differ into those that a user chose, and the descriptions of code."""
    prefixes = (CODE_PREFIX, MODULE_PREFIX, FILE_PREFIX)
    is_code = pl.any_horizontal(pl.col("setting").str.starts_with(prefix) for prefix in prefixes)
    return settings.filter(~is_code), settings.filter(is_code)


def select_main_settings(settings: pl.DataFrame) -> pl.DataFrame:
    """Select the settings that a comparison shows at once: the first ones that all runs have.

    A parameter of an agent that one run lacks says no more than the list of agents.
    """
    run_ids = settings.columns[1:]
    return settings.filter(pl.all_horizontal(pl.col(run_id) != MISSING for run_id in run_ids)).head(MAX_SETTINGS)


def _build_settings_table(settings: pl.DataFrame, comparison: RunComparison, names: dict[str, str]) -> Table:
    """Build the table of what differs: the runs themselves, and the settings of which the values are not the same."""
    speeds = {row["run"]: row for row in comparison.speeds.iter_rows(named=True)}
    shown = select_main_settings(settings)
    headings = ["run", "games", "games a second", *shown["setting"]]
    columns = [text_column("setting", headings)]
    for run_id in comparison.runs:
        speed = speeds[run_id]
        pace = MISSING if speed["games_a_second"] is None else format_games_a_second(speed["games_a_second"])
        values = [run_id, f"{speed['games']:,}", pace, *shown[run_id]]
        columns.append(text_column(names[run_id], values))
    rest = settings.height - shown.height
    more = f"; {format_count_with_noun(rest, 'more setting')} below" if rest > 0 else ""
    return Table(f"What differs{more}", columns)


def _build_shared_table(shared: pl.DataFrame, comparison: RunComparison, names: dict[str, str]) -> Table:
    """Build the table of the shared pairings, with a row for each and columns for each run.

    ``shared`` has the columns of ``RunComparison.results``.
    """
    pairings = shared.select("first", "second").unique(maintain_order=True).rows()
    by_key = {(row["first"], row["second"], row["run"]): row for row in shared.iter_rows(named=True)}
    columns = [
        text_column("first", [first for first, _ in pairings]),
        text_column("second", [two for _, two in pairings]),
    ]
    for number, run_id in enumerate(comparison.runs):
        labels = comparison.own_labels[run_id]
        rows = [by_key.get((*pairing, run_id)) for pairing in pairings]
        links = [
            urls.games_url(run=run_id, agent=labels[first], opponent=labels[second]) if row else ""
            for (first, second), row in zip(pairings, rows, strict=True)
        ]
        scores = [MISSING if row is None else format_percent(row["score"]) for row in rows]
        columns.append(link_column(f"{names[run_id]}, %", scores, links, right_aligned=True))
        if number:
            columns += _build_difference_columns(rows)
    legend = "Scores of the first agent. A difference is to the first run, in percentage points, with its p-value."
    return Table("Pairings in common", columns, legend=legend)


def _build_difference_columns(rows: Sequence[dict[str, float | None] | None]) -> list[ResultColumn]:
    """Build the columns with the difference of a run to the first one, its 95 % interval and its p-value."""
    ends = [
        MISSING if row is None else format_difference_interval(row["difference_low"], row["difference_high"])
        for row in rows
    ]
    differences = [None if row is None else row["difference"] for row in rows]
    return [
        number_column("difference", differences, format_share_difference),
        ResultColumn("95 % interval", ends),
        number_column("p", [None if row is None else row["p"] for row in rows], format_p_value),
    ]


def _build_most_different_table(shared: pl.DataFrame, comparison: RunComparison, names: dict[str, str]) -> Table:
    """Build the table of the shared pairings with the smallest p-values."""
    order = shared.group_by("first", "second", maintain_order=True).agg(
        pl.col("p").min(), pl.col("difference").abs().max()
    )
    chosen = order.sort(["p", "difference"], descending=[False, True], nulls_last=True, maintain_order=True).head(
        MAX_ROWS
    )
    rows = chosen.select("first", "second").join(shared, ["first", "second"], maintain_order="left_right")
    table = _build_shared_table(rows, comparison, names)
    title = f"Pairings in common: the {MAX_ROWS} of {order.height:,} that differ most clearly"
    return Table(title, table.columns, legend=table.legend)


def _build_folded_tables(
    settings: pl.DataFrame, code: pl.DataFrame, comparison: RunComparison, names: dict[str, str]
) -> list[Result]:
    """Build the parts that a reader opens: other settings, code, speed, and regret by ply where runs share agents."""
    rest = settings.join(select_main_settings(settings), "setting", "anti", maintain_order="left")
    speeds = comparison.speeds
    tables = [
        _build_texts_table("More settings that differ", rest, comparison.runs, names),
        _build_texts_table("Code that differs", code, comparison.runs, names),
        Table(
            "Speed",
            [
                text_column("run", [names[run_id] for run_id in speeds["run"]]),
                number_column("games", speeds["games"]),
                number_column("seconds", speeds["seconds"], format_seconds),
            ],
        ),
    ]
    return [Result(numbers=table, title=table.title) for table in tables if table.text_rows]


def _build_texts_table(title: str, rows: pl.DataFrame, run_ids: Sequence[str], names: dict[str, str]) -> Table:
    columns = [
        text_column("setting", rows["setting"]),
        *(text_column(names[run_id], rows[run_id]) for run_id in run_ids),
    ]
    return Table(title, columns)


def build_curves(
    opened: OpenArchive,
    comparison: RunComparison,
    shared: pl.DataFrame,
    names: dict[str, str],
    learning_curves: Mapping[str, RunCurve],
) -> Iterable[Figure]:
    """Yield the pictures in which the curves of the games lie over each other, the most telling ones first.

    If the runs of the shared pairing all have learning curves by games, there are no curves of scores along these runs,
    because they would show the same.
    """
    games = int(comparison.speeds["games"].sum())
    pairings = shared.select("first", "second").unique(maintain_order=True).rows()
    lone = all(len(opened.archive.load_run(run_id).pairings) == 1 for run_id in comparison.runs)
    learned = all(run_id in learning_curves and learning_curves[run_id].block_games for run_id in shared["run"])
    if len(pairings) == 1 and lone and not learned and games <= MAX_COUNTED_GAMES:
        yield _build_progress_figure(opened, shared, names)
    yield from islice(_build_regret_figures(comparison, names), MAX_FIGURES)
    if games <= MAX_COUNTED_GAMES:
        yield _build_lengths_figure(opened, comparison, names)


def _build_progress_figure(opened: OpenArchive, shared: pl.DataFrame, names: dict[str, str]) -> Figure:
    """Build the picture of the score of the first agent along the games of the only pairing that the runs share."""
    frames = []
    for first, second, run_id in shared.select("first", "second", "run").iter_rows():
        record = opened.archive.load_run(run_id)
        frame = opened.sql(
            "SELECT avg(score) AS score, $games_a_pair * max(place) AS games FROM "
            "(SELECT *, row_number() OVER (ORDER BY pair_id) AS place, count(*) OVER () AS total FROM "
            "(SELECT pair_id, first, second, (coalesce(score_0, score_1) + coalesce(score_1, score_0)) / 2 AS score "
            "FROM pairs WHERE run_id = $run)) "
            "GROUP BY floor((place - 1) * $steps / total) ORDER BY games",
            {"steps": STEPS, "run": run_id, "games_a_pair": record.unit_line.games_a_pair},
        )
        labels = record.pairings[0]
        is_swapped = labels != (first, second) and labels[0] == second
        score = 1 - pl.col("score") if is_swapped else pl.col("score")
        frames.append(frame.select(pl.lit(names[run_id]).alias("series"), "games", score))
    first, second = shared.row(0)[:2]
    axes = (
        quantitative("games", title="games", axis={**style.PLAIN_AXIS, "tickCount": 5, "grid": False}),
        quantitative("score", title=f"score of {first}"[:40], axis=style.SHARE_AXIS, scale={"zero": False}),
    )
    title = f"Score of {first} against {second} along the run"
    note = f"Each point is the mean of a {STEPS}th of the games."
    return build_overlay_figure(title, pl.concat(frames), [*names.values()], axes, "progress", note)


def _build_regret_figures(comparison: RunComparison, names: dict[str, str]) -> Iterable[Figure]:
    """Yield a picture for each agent and kind of decision that was judged in at least two runs."""
    regret = comparison.regret
    for (agent, kind), rows in regret.group_by("agent", "kind", maintain_order=True):
        judged = [run_id for run_id in comparison.runs if rows[run_id].null_count() < rows.height]
        if len(judged) < 2:
            continue
        points = pl.concat(
            rows.select(pl.lit(names[run_id]).alias("series"), "ply", pl.col(run_id).alias("regret")).drop_nulls()
            for run_id in judged
        )
        axes = (
            style.ply_axis(0),
            quantitative("regret", title="half-points", axis={"tickCount": 4, **style.PLAIN_AXIS}),
        )
        title, name = f"Regret of {agent}, {kind}s", f"regret{len(names)}{kind}{len(judged)}{hash_name(f'{agent}')}"
        yield build_overlay_figure(title, points, [*names.values()], axes, name)


def hash_name(text: str) -> str:
    """Return letters and digits that stand for a text in the ids of a page."""
    return "".join(letter if letter.isascii() and letter.isalnum() else f"{ord(letter):x}" for letter in text)


def _build_lengths_figure(opened: OpenArchive, comparison: RunComparison, names: dict[str, str]) -> Figure:
    """Build the picture of the share of games by their number of plies."""
    run_ids = ", ".join(f"'{run_id}'" for run_id in comparison.runs)
    counts = opened.sql(
        "SELECT run_id, plies, count(*) AS games FROM games "  # noqa: S608  (ids of runs)
        f"WHERE run_id IN ({run_ids}) GROUP BY ALL ORDER BY ALL"
    )
    rows = counts.select(
        pl.col("run_id").replace_strict(names).alias("series"),
        "plies",
        (pl.col("games") / pl.col("games").sum().over("run_id")).alias("share"),
    )
    axes = (
        quantitative("plies", title="plies", axis={**style.PLAIN_AXIS, "values": [*range(4, 17, 2)], "grid": False}),
        quantitative("share", title="games", axis=style.SHARE_AXIS),
    )
    return build_overlay_figure("Lengths of the games", rows, [*names.values()], axes, "lengths")
