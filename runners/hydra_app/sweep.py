"""Sweeps: the outcome of each job of a Hydra multirun, and a table of all jobs at the end.

A job may run in another process or on another machine. So it writes its record twice. One is in the archive, for the
view ``sweeps``. The process that started the sweep finds the other in the job's output folder.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from hydra.conf import HydraConf
from msgspec import structs
from omegaconf import DictConfig

from analytics.files.backend import location_of
from analytics.results.columns import ResultColumn
from analytics.store.archive import Archive
from analytics.store.records import JsonRecord, SweepJob, dump, load, typed
from quarto.errors import ArenaError
from runners.hydra_app.sweep_start import record_name
from runners.terminal import console


class Job(JsonRecord, frozen=True):
    """A job of a sweep, as it is written into its output folder."""

    folder: str  # of its output
    archive: str  # its folder or URL
    record: SweepJob
    columns: Sequence[ResultColumn] = ()  # of its rows in the table
    notes: Sequence[str] = ()  # what to know about its rows

    @staticmethod
    def begun(cfg: DictConfig, hydra_cfg: HydraConf, games: int) -> Job:
        """The job that Hydra is about to run, which asks for ``games`` games of each pairing."""
        overrides = dict(override.lstrip("+").split("=", 1) for override in hydra_cfg.overrides.task if "=" in override)
        overrides.pop("sweep.id", None)
        asked = {"sweep_id": cfg.sweep.id, "job": hydra_cfg.job.num, "overrides": overrides, "games": max(0, games)}
        return Job(hydra_cfg.runtime.output_dir, str(cfg.archive.root), typed(asked | {"status": "failed"}, SweepJob))

    def failed(self, error: Exception) -> None:
        """Record that a job failed, and print why; ``report`` prints it again at the end."""
        text = str(error) if isinstance(error, ArenaError) else f"{type(error).__name__}: {error}"
        console.print_note(self.keep(error=" ".join(text.split())).failure)

    def keep(self, columns: Sequence[ResultColumn] = (), notes: Sequence[str] = (), **outcome: Any) -> Job:
        """Write the job with its rows and with these fields of its record, and return it."""
        job = structs.replace(self, columns=columns, notes=notes, record=structs.replace(self.record, **outcome))
        (Path(self.folder) / record_name(self.record.job)).write_bytes(dump(job))
        try:
            job.store()
        except ArenaError:
            if job.record.status != "failed":  # a job may have failed because of its archive
                raise
        return job

    def store(self, **changed: Any) -> None:
        """Write its record into its archive."""
        Archive.open(location_of(self.archive)).save_sweep_job(structs.replace(self.record, **changed))

    @property
    def failure(self) -> str:
        """Why it failed."""
        settings = " ".join(f"{key}={value}" for key, value in self.record.overrides.items())
        return f"job {self.record.job} failed ({settings}): {self.record.error}"

    @property
    def rows(self) -> int:
        """Its rows in the table."""
        return len(self.columns[0].texts) if self.columns else 0


def jobs_in(folder: Path) -> list[Job]:
    """This launch's jobs in the folder of its sweep, in the order of their numbers."""
    found = (load(path, Job) for path in folder.rglob(record_name("*")))
    return sorted(found, key=lambda each: each.record.job)


def report(folder: Path, view: str) -> int:
    """Print a table of the jobs' settings and results, then the failures again; returns the exit code."""
    jobs = jobs_in(folder)
    failures = [each for each in jobs if each.record.status == "failed"]
    for each in failures:
        with suppress(ArenaError):  # there may be no archive
            each.store()
    for each in jobs[:1]:  # a job that is lost later, be it the last one, is then missed
        with suppress(ArenaError):
            each.store(jobs=jobs[-1].record.job + 1)
    if any(each.rows for each in jobs):
        console.show([console.tabulated([*_settings(jobs), *_results(jobs)], f"Sweep ({view})" if view else "Sweep")])
        question = f"SELECT * FROM sweeps WHERE sweep_id = '{jobs[0].record.sweep_id}'"  # noqa: S608  (only shown)
        for root in dict.fromkeys(each.archive for each in jobs if each.rows):
            console.print_line(f"  {console.sql_command(question, location_of(root))}")
    for note in (f"job {each.record.job} {note}" for each in jobs for note in each.notes):
        console.print_note(note)
    for each in failures:
        console.print_note(each.failure)
    if failures:
        console.print_note(
            f"{len(failures)} of {len(jobs)} jobs failed; the same command again plays only what is missing"
        )
    return 0 if all(each.record.status == "complete" for each in jobs) else 1


def _results(jobs: Sequence[Job]) -> list[ResultColumn]:
    """The columns of all jobs' rows; a job that lacks one has empty texts in it."""
    own = [{column.heading: column for column in each.columns} for each in jobs]
    forms = {heading: column for columns in own for heading, column in columns.items()}
    return [
        form._replace(
            texts=[
                text
                for job, columns in zip(jobs, own, strict=True)
                for text in (columns[heading].texts if heading in columns else [""] * job.rows)
            ],
            right=all(columns[heading].right for columns in own if heading in columns),
        )
        for heading, form in forms.items()
    ]


def _settings(jobs: Sequence[Job]) -> list[ResultColumn]:
    """The columns of each row's job number and of the settings that vary between jobs."""
    keys = list(dict.fromkeys(key for job in jobs for key in job.record.overrides))
    varied = [key for key in keys if len({job.record.overrides.get(key) for job in jobs}) > 1] or keys
    rows = [job.record for job in jobs for _ in range(job.rows)]
    settings = [ResultColumn(key, [job.overrides.get(key, "") for job in rows], right=False) for key in varied]
    return [ResultColumn("job", [str(job.job) for job in rows]), *settings]
