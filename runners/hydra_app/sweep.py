"""Sweeps: the outcome of each job of a Hydra multirun, and a table of all jobs at the end.

A job may run in another process or on another machine. It therefore writes its record twice: into the archive, for the
view ``sweeps``, and into its output folder, where the process that started the sweep finds it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePath

from hydra.conf import HydraConf
from msgspec import structs
from omegaconf import DictConfig

from analytics.files.location import location_of
from analytics.results.columns import ResultColumn, pairing_columns
from analytics.results.pairings import PairingResult, pairings_frame, results
from analytics.store.archive import Archive
from analytics.store.json_records import JsonRecord, dump, load, typed
from analytics.store.records import SweepJob
from quarto.errors import ArenaError
from runners.hydra_app.finished import Finished, Value
from runners.hydra_app.sweep_start import record_name
from runners.terminal import console
from runners.terminal.console import TerminalTable


@dataclass(frozen=True)
class Job:
    """A job of a sweep."""

    record: SweepJob
    folder: Path  # of its output
    root: PurePath  # of its archive


def job_of(cfg: DictConfig, hydra_cfg: HydraConf, games: int) -> Job:
    """The job that Hydra is about to run, which asks for ``games`` games of each pairing."""
    overrides = dict(override.lstrip("+").split("=", 1) for override in hydra_cfg.overrides.task if "=" in override)
    overrides.pop("sweep.id", None)
    asked = {"sweep_id": cfg.sweep.id, "job": hydra_cfg.job.num, "overrides": overrides, "games": max(0, games)}
    record = typed(asked | {"status": "failed"}, SweepJob)
    return Job(record, Path(hydra_cfg.runtime.output_dir), location_of(cfg.archive.root))


def completed(job: Job, finished: Finished) -> None:
    """Record that a job is complete, its value, and its row in the table at the end."""
    record, value = structs.replace(job.record, status="complete", run_id=finished.run_id), finished.value
    if value is not None:
        record = structs.replace(record, objective=value.objective, value=value.number)
    _keep(job, record, finished.row, value)


def interrupted(job: Job, run_id: str | None) -> None:
    """Record that a job was interrupted; the games that it played are in the archive."""
    _keep(job, structs.replace(job.record, status="interrupted", run_id=run_id))


def failed(job: Job, error: Exception) -> None:
    """Record that a job failed, and print why; ``report`` prints it again at the end."""
    text = str(error) if isinstance(error, ArenaError) else f"{type(error).__name__}: {error}"
    record = structs.replace(job.record, status="failed", error=" ".join(text.split()))
    console.print_note(_failure(record))
    _keep(job, record)


def _failure(record: SweepJob) -> str:
    settings = " ".join(f"{key}={value}" for key, value in record.overrides.items())
    return f"job {record.job} failed ({settings}): {record.error}"


def _keep(job: Job, record: SweepJob, row: Mapping[str, str] | None = None, value: Value | None = None) -> None:
    shown = {value.heading: value.text} if value is not None and value.heading else {}
    (job.folder / record_name(record.job)).write_bytes(dump(KeptJob(str(job.root), record, row, shown)))
    try:
        Archive.open(job.root).save_sweep_job(record)
    except ArenaError:
        if record.status != "failed":  # a job may have failed because of its archive
            raise


class KeptJob(JsonRecord, frozen=True):
    """The record that a job wrote into its output folder."""

    archive: str  # its folder
    record: SweepJob
    row: Mapping[str, str] | None
    value: Mapping[str, str]  # its heading and its text; empty if the row has it already

    @property
    def root(self) -> PurePath:
        """Its archive."""
        return location_of(self.archive)


def jobs_in(folder: Path) -> list[KeptJob]:
    """The records of this launch's jobs in the folder of its sweep, in the order of their numbers."""
    found = (load(path, KeptJob) for path in folder.rglob(record_name("*")))
    return sorted(found, key=lambda each: each.record.job)


def report(folder: Path) -> int:
    """Print a table of the jobs' settings and results, then the failures again; returns the exit code."""
    jobs = jobs_in(folder)
    failures = [each for each in jobs if each.record.status == "failed"]
    for each in failures:
        with suppress(ArenaError):  # there may be no archive
            Archive.open(each.root).save_sweep_job(each.record)
    if jobs:  # a job that is lost later, be it the last one, is then missed
        first, number = jobs[0], jobs[-1].record.job + 1
        with suppress(ArenaError):
            Archive.open(first.root).save_sweep_job(structs.replace(first.record, jobs=number))
    if any(each.row for each in jobs):
        console.show([_table_of_rows(jobs)])
    else:
        _report_pairings(jobs)
    for each in failures:
        console.print_note(_failure(each.record))
    if failures:
        console.print_note(
            f"{len(failures)} of {len(jobs)} jobs failed; the same command again plays only what is missing"
        )
    return 0 if all(each.record.status == "complete" for each in jobs) else 1


def _report_pairings(jobs: Sequence[KeptJob]) -> None:
    """Print the pairings of the jobs' runs, and queries that show more."""
    played = [each for each in jobs if each.record.run_id]
    outcomes = [(each, results(Archive.open(each.root), str(each.record.run_id))) for each in played]
    if outcomes:
        console.show([_table(jobs, outcomes)])
        for root in sorted({each.root for each in played}):
            question = f"SELECT * FROM sweeps WHERE sweep_id = '{jobs[0].record.sweep_id}'"  # noqa: S608  (only shown)
            console.print_line(f"  {console.sql_command(question, root)}")
    for record, found in ((each.record, found) for each, found in outcomes):
        if any(result.games > record.games + record.games % 2 for result in found):
            console.print_note(
                f"job {record.job} asked for {record.games:,} games a pairing; its run holds more, and all are counted"
            )


def _table(jobs: Sequence[KeptJob], outcomes: Sequence[tuple[KeptJob, Sequence[PairingResult]]]) -> TerminalTable:
    """One row a pairing of a job. A job's value is in the row of its first pairing."""
    rows = [(job, result) for job, pairing_results in outcomes for result in pairing_results]
    shown = pairing_columns(pairings_frame([result for _, result in rows]), with_scores=False)
    firsts = [number == 0 or rows[number - 1][0] is not job for number, (job, _) in enumerate(rows)]
    headings = dict.fromkeys(heading for job, _ in rows for heading in job.value)
    values = [
        ResultColumn(
            heading, [job.value.get(heading, "") if first else "" for first, (job, _) in zip(firsts, rows, strict=True)]
        )
        for heading in headings
    ]
    settings = _settings([each.record for each in jobs], [job.record for job, _ in rows])
    return console.tabulated([*settings, *shown, *values], "Sweep (the first agent's view; win, draw and loss in %)")


def _table_of_rows(jobs: Sequence[KeptJob]) -> TerminalTable:
    """One row a job, as it recorded it."""
    rows = [(each.record, each.row) for each in jobs if each.row]
    names = dict.fromkeys(name for _, row in rows for name in row)
    texts = {name: [row.get(name, "") for _, row in rows] for name in names}
    shown = [
        ResultColumn(name, values, right=not any(value[:1].isalpha() for value in values))
        for name, values in texts.items()
    ]
    return console.tabulated([*_settings([each.record for each in jobs], [job for job, _ in rows]), *shown], "Sweep")


def _settings(jobs: Sequence[SweepJob], rows: Sequence[SweepJob]) -> list[ResultColumn]:
    """The columns of each row's job number and of the settings that vary between jobs."""
    keys = list(dict.fromkeys(key for job in jobs for key in job.overrides))
    varied = [key for key in keys if len({job.overrides.get(key) for job in jobs}) > 1] or keys
    settings = [ResultColumn(key, [job.overrides.get(key, "") for job in rows], right=False) for key in varied]
    return [ResultColumn("job", [str(job.job) for job in rows]), *settings]
