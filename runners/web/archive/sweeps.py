"""The list of sweeps, and the page of one: its jobs, and its picture if one or two settings vary."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import polars as pl

from analytics.questions.columns import (
    MISSING,
    ResultColumn,
    Table,
    format_percent,
    interval_column,
    link_column,
    number_column,
    text_column,
)
from analytics.questions.pairings import PairingResult, load_results_requested_by_jobs
from analytics.questions.quantities import format_quantity, format_quantity_heading, scale_quantity
from analytics.questions.sql.database import OpenArchive
from analytics.questions.sql.views import parse_setting
from analytics.report.style import Figure
from analytics.store.records import SweepJob
from analytics.store.texts import format_count_with_noun
from quarto.errors import NotFoundError, suggest_valid_names
from runners.web.archive import urls
from runners.web.archive.archive_page import ArchivePage
from runners.web.archive.charts import ChartPlan, build_chart
from runners.web.archive.runs import format_minute

MAX_ROWS = 200
MAX_ERRORS = 20
SCORE = "score, %"
_NOT_SETTINGS = ("archive.root", "archive", "progress")  # these say where and how a job runs, not what it plays


class SweepRow(NamedTuple):
    """A sweep as a row of a list."""

    sweep_id: str
    jobs: int
    complete: int
    settings: tuple[str, ...]  # those that vary
    objective: str
    created: str  # when the first run began


def list_sweeps(opened: OpenArchive) -> tuple[SweepRow, ...]:
    """Return the rows of all sweeps, with the newest first."""
    jobs_by_sweep: dict[str, list[SweepJob]] = {}
    for job in opened.archive.load_sweep_jobs():
        jobs_by_sweep.setdefault(job.sweep_id, []).append(job)
    return tuple(
        sorted(
            (_build_sweep_row(opened, *sweep) for sweep in jobs_by_sweep.items()),
            key=lambda row: row.created,
            reverse=True,
        )
    )


def _build_sweep_row(opened: OpenArchive, sweep_id: str, jobs: Sequence[SweepJob]) -> SweepRow:
    records = [opened.archive.find_run(job.run_id) for job in jobs if job.run_id]
    created = min((format_minute(record.created) for record in records if record), default="")
    complete = sum(job.status == "complete" for job in jobs)
    objective = next((job.objective for job in jobs if job.objective), "")
    return SweepRow(sweep_id, len(jobs), complete, tuple(_list_varying_settings(jobs)), objective, created)


def build_sweeps_table(rows: Sequence[SweepRow]) -> Table:
    """Build a table of sweeps."""
    jobs = [f"{row.jobs:,}" if row.complete == row.jobs else f"{row.complete:,} of {row.jobs:,}" for row in rows]
    columns = [
        link_column("sweep", [row.sweep_id for row in rows], [urls.sweep_url(row.sweep_id) for row in rows], code=True),
        text_column("what varies", [", ".join(row.settings) or "nothing" for row in rows]),
        ResultColumn("jobs", jobs),
        text_column("objective", [row.objective or "·" for row in rows]),
        text_column("begun (UTC)", [row.created or "·" for row in rows]),
    ]
    return Table("Sweeps, the newest first", columns)


def build_sweep_page(opened: OpenArchive, sweep_id: str) -> ArchivePage:
    """Build the page of a sweep with its picture and its jobs. Raises ``NotFoundError`` if the sweep does not exist."""
    jobs = [job for job in opened.archive.load_sweep_jobs() if job.sweep_id == sweep_id]
    if not jobs:
        sweep_ids = {job.sweep_id for job in opened.archive.load_sweep_jobs()}
        raise NotFoundError(
            f"sweep {sweep_id!r} is not in archive {opened.archive.root}{suggest_valid_names(sweep_id, sweep_ids)}"
        )
    settings = _list_varying_settings(jobs)
    job_results = load_results_requested_by_jobs(opened.archive, jobs)
    shared_names = [name for name in jobs[0].overrides if name not in (*settings, *_NOT_SETTINGS)]
    shared = ", ".join(f"`{name}={jobs[0].overrides[name]}`" for name in sorted(shared_names))
    lead = f"{', '.join(settings[:-2])}{', ' if settings[2:] else ''}{' and '.join(settings[-2:]) or 'Nothing'} varied"
    lead += f"; the same in all jobs: {shared}" if shared else ""
    parts = [_build_figure(settings, job_results), _build_jobs_table(settings, job_results), *_build_error_tables(jobs)]
    return ArchivePage(f"Sweep `{sweep_id}`", lead, parts=parts)


def _build_error_tables(jobs: Sequence[SweepJob]) -> list[Table]:
    """Return a list with the table of failed jobs and their errors; the list is empty if no job failed."""
    failed = [job for job in jobs if job.error]
    limit_note = "" if len(failed) <= MAX_ERRORS else f": the first {MAX_ERRORS} of {len(failed)}, see the view sweeps"
    first_jobs = failed[:MAX_ERRORS]
    columns = [
        text_column("job", [str(job.job) for job in first_jobs]),
        text_column("error", [job.error for job in first_jobs]),
    ]
    return [Table(f"Why jobs failed{limit_note}", columns)] if failed else []


def _list_varying_settings(jobs: Sequence[SweepJob]) -> list[str]:
    """Return the names of the settings that differ between jobs, in the order in which the user gave them."""
    names = dict.fromkeys(name for job in jobs for name in job.overrides)
    return [name for name in names if name not in _NOT_SETTINGS and len({job.overrides.get(name) for job in jobs}) > 1]


JobResults = Sequence[tuple[SweepJob, list[PairingResult]]]


def _find_objective(job_results: JobResults) -> str | None:
    return next((job.objective for job, _ in job_results if job.objective), None)


def _is_judged_by_score(job_results: JobResults) -> bool:
    """Return whether the jobs are judged by the first agent's score and no job has several pairings."""
    return all(len(pairings) == 1 for _, pairings in job_results if pairings) and _find_objective(job_results) in (
        None,
        "score",
    )


def _build_jobs_table(settings: Sequence[str], job_results: JobResults) -> Table:
    """Build a table with a row for each pairing of each job.

    If a job has no results, its status is shown in place of the first agent.
    """
    nothing: list[PairingResult | None] = [None]
    rows = [(job, pairing) for job, pairings in job_results for pairing in pairings or nothing]
    first_rows = rows[:MAX_ROWS]
    jobs, pairings = [job for job, _ in first_rows], [pairing for _, pairing in first_rows]
    scores, objective = [pairing.score if pairing else None for pairing in pairings], _find_objective(job_results)
    pages = [urls.run_url(job.run_id) if job.run_id else "" for job in jobs]
    values = [MISSING if job.value is None else format_quantity(objective or "", job.value) for job in jobs]
    columns = [
        link_column("job", [str(job.job) for job in jobs], pages),
        *(text_column(name, [job.overrides.get(name, MISSING) for job in jobs]) for name in settings),
        *(
            []
            if _is_judged_by_score(job_results)
            else [ResultColumn(format_quantity_heading(objective or "objective"), values)]
        ),
        text_column("first agent", [pairing.first if pairing else job.status for job, pairing in first_rows]),
        text_column("second agent", [pairing.second if pairing else MISSING for pairing in pairings]),
        number_column("games", [pairing.games if pairing else None for pairing in pairings]),
        number_column(SCORE, [score.mean if score else None for score in scores], format_percent),
        interval_column(
            [score.low if score else None for score in scores], [score.high if score else None for score in scores]
        ),
    ]
    limit_note = "" if len(rows) <= MAX_ROWS else f" (the first {MAX_ROWS} of {len(rows):,} rows)"
    return Table(f"Jobs{limit_note}", columns)


def _build_figure(settings: Sequence[str], job_results: JobResults) -> Figure | str:
    """Draw the picture of a sweep, or return a sentence with the reason why there is none."""
    if len(settings) not in (1, 2):
        reason = "no setting varies" if not settings else f"{format_count_with_noun(len(settings), 'setting')} vary"
        return f"No picture: {reason}: a picture needs one or two."
    rows, y = _build_points_and_value_name(settings, job_results)
    if rows.height < 2:
        return "No picture: fewer than two jobs have a value."
    interval_of = ("low", "high") if "low" in rows.columns else (None, None)
    if len(settings) == 1:
        numeric = rows.schema[settings[0]].is_numeric()
        if numeric:
            rows = rows.sort(settings[0])
        plan = ChartPlan("line" if numeric else "points", settings[0], y, None, *interval_of)
        note = "The band is the 95 % interval." if numeric else "Lines are 95 % intervals."
        figure = build_chart(rows, plan, f"{y} by {settings[0]}")
        return figure if interval_of[0] is None else replace(figure, note=note)
    wide = max(settings, key=lambda name: rows[name].n_unique())
    x, other = wide, next(name for name in settings if name != wide)
    figure = build_chart(
        rows.sort(settings), ChartPlan("heat map", x, other, y, *interval_of), f"{y} by {x} and {other}"
    )
    pale = " A tile is pale if its 95 % interval holds the mean." if interval_of[0] else ""
    return replace(figure, note=f"Blue is above the mean of all, orange below it.{pale}")


def _build_points_and_value_name(settings: Sequence[str], job_results: JobResults) -> tuple[pl.DataFrame, str]:
    """Build a frame with a row for each job that has a value, and return the frame with the name of the value.

    The value is the first agent's score, with its interval, if the jobs are judged by this score and no job has several
    pairings; otherwise, it is the value that the job returned for the sweep's objective, such as regret.
    """
    objective, by_score = _find_objective(job_results), _is_judged_by_score(job_results)
    name = SCORE if by_score else format_quantity_heading(objective or "value")
    rows: list[dict[str, Any]] = []
    for job, pairings in job_results:
        point: dict[str, Any] = _parse_settings(job.overrides, settings)
        if by_score and pairings:
            score = pairings[0].score
            rows.append({**point, SCORE: 100 * score.mean, "low": 100 * score.low, "high": 100 * score.high})
        elif not by_score and job.value is not None:
            rows.append({**point, name: scale_quantity(objective or "", job.value)})
    # All rows are read to find the type of a column, because a setting may be a number in a hundred jobs and then a
    # text. A number that no type can hold becomes null, where ``strict`` would raise.
    return pl.DataFrame(rows, strict=False, infer_schema_length=None), name


def _parse_settings(overrides: Mapping[str, str], names: Sequence[str]) -> dict[str, Any]:
    values = {name: parse_setting(overrides[name]) if name in overrides else None for name in names}
    return {
        name: value
        if isinstance(value, int | float) and not isinstance(value, bool)
        else _format_setting_as_text_or_json(value)
        for name, value in values.items()
    }


def _format_setting_as_text_or_json(value: object) -> str:
    """Format the value of a setting that is not a number: strings as they are, other values as JSON.

    None is written as ``not set``.
    """
    return value if isinstance(value, str) else "not set" if value is None else json.dumps(value)
