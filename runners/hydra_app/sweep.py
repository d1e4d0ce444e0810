"""Sweeps: what each job of a Hydra multirun came to, told at once, and all of it in one table at the end.

A job may run in another process or on another machine. It therefore leaves its record twice: in the archive, for the
view ``sweeps``, and in the folder that Hydra gave it, where the process that started the sweep finds it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from hydra.conf import HydraConf
from omegaconf import DictConfig
from rich.table import Table

from quarto.errors import ArenaError
from runners.terminal import console

if TYPE_CHECKING:
    from analytics.query.results import PairingResult
    from analytics.store.records import SweepJob

RECORD = "job.json"

folders: list[Path] = []  # of the sweeps that this process started
_made: list[Path] = []  # those and their parents that Hydra had to make, inner ones first


@dataclass(frozen=True)
class Job:
    """A job of a sweep, where it is kept, and where it plays to."""

    record: SweepJob
    folder: Path
    root: Path


def forget() -> None:
    """A new launch in the same process."""
    folders.clear()
    _made.clear()


def begin(folder: Path) -> None:
    """Hydra is about to start a sweep in ``folder``."""
    folders.append(folder)
    _made.extend(path for path in (folder, *folder.parents) if not path.exists())


def withdraw() -> None:
    """Hydra has refused a sweep before any job of it: leave nothing behind."""
    for folder in folders:
        (folder / "multirun.yaml").unlink(missing_ok=True)
    for path in _made:
        with suppress(OSError):  # somebody else has put something there
            path.rmdir()


def job_of(cfg: DictConfig, hydra_cfg: HydraConf, games: int) -> Job:
    """The job that Hydra is about to run, which asks for so many ``games`` of each pairing."""
    from analytics.store.records import SweepJob

    overrides = dict(override.lstrip("+").split("=", 1) for override in hydra_cfg.overrides.task if "=" in override)
    overrides.pop("sweep.id", None)
    record = SweepJob(cfg.sweep.id, hydra_cfg.job.num, overrides, status="failed", games=max(0, games))
    return Job(record, Path(hydra_cfg.runtime.output_dir), Path(cfg.archive.root))


def completed(job: Job, run_id: str | None, row: Mapping[str, str] | None = None) -> None:
    """The job has played all it was asked for; ``row`` is its own of the table at the end."""
    _keep(job, replace(job.record, status="complete", run_id=run_id), row)


def interrupted(job: Job, run_id: str | None) -> None:
    """The job was cut short; what it played is in the archive."""
    _keep(job, replace(job.record, status="interrupted", run_id=run_id))


def failed(job: Job, error: Exception) -> None:
    """The job failed: said at once, and again at the end."""
    text = str(error) if isinstance(error, ArenaError) else f"{type(error).__name__}: {error}"
    record = replace(job.record, status="failed", error=" ".join(text.split()))
    console.say(_failure(record))
    _keep(job, record)


def _failure(record: SweepJob) -> str:
    settings = " ".join(f"{key}={value}" for key, value in record.overrides.items())
    return f"job {record.job} failed ({settings}): {record.error}"


def _keep(job: Job, record: SweepJob, row: Mapping[str, str] | None = None) -> None:
    from analytics.store.archive import Archive

    kept = {"archive": str(job.root), "record": record.as_mapping(), "row": row}
    (job.folder / RECORD).write_text(json.dumps(kept, indent=1), encoding="utf-8")
    try:
        Archive.open(job.root).save_sweep_job(record)
    except ArenaError:
        if record.status != "failed":  # a job may well have failed because of its archive
            raise


class _Kept(NamedTuple):
    """What a job has left."""

    record: SweepJob
    root: Path  # of the archive
    row: Mapping[str, str] | None


def _records() -> list[_Kept]:
    """What the jobs of this process's sweeps have left, in the order of their numbers."""
    from analytics.store.records import SweepJob

    found = []
    for folder in folders:
        for path in folder.rglob(RECORD):
            kept: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            found.append(_Kept(SweepJob(**kept["record"]), Path(kept["archive"]), kept["row"]))
    return sorted(found, key=lambda each: each.record.job)


def finished() -> bool:
    """Whether any job got as far as leaving its record."""
    return any(path for folder in folders for path in folder.rglob(RECORD))


def report() -> int:
    """Print what varied against what came out, then the failures again; returns the exit code."""
    from analytics.store.archive import Archive

    records = _records()
    failures = [record for record, _, _ in records if record.status == "failed"]
    for record, root, _ in records:
        if record.status == "failed":
            with suppress(ArenaError):  # when it failed there may have been no archive yet
                Archive.open(root).save_sweep_job(record)
    if any(row for _, _, row in records):
        console.show([_table_of_rows(records)])
    else:
        _report_pairings(records)
    for record in failures:
        console.say(_failure(record))
    if failures:
        console.say(f"{len(failures)} of {len(records)} jobs failed; the same command again plays only what is missing")
    return 1 if failures else 0


def _report_pairings(records: Sequence[_Kept]) -> None:
    """The pairings of the jobs' runs, and what to ask next."""
    from analytics.query.results import results
    from analytics.store.archive import Archive

    outcomes = [(record, results(Archive.open(root), record.run_id)) for record, root, _ in records if record.run_id]
    if outcomes:
        console.show([_table([record for record, _, _ in records], outcomes)])
        roots = {root for record, root, _ in records if record.run_id}
        question = f"SELECT * FROM sweeps WHERE sweep_id = '{records[0].record.sweep_id}'"  # noqa: S608  (only shown)
        for root in sorted(roots):
            console.out().print(f"  {console.sql_command(question, root)}", markup=False, soft_wrap=True)
    for record, found in outcomes:
        if any(result.games > record.games + record.games % 2 for result in found):
            console.say(
                f"job {record.job} asked for {record.games:,} games a pairing; its run holds more, all of them counted"
            )


def _table(jobs: Sequence[SweepJob], outcomes: Sequence[tuple[SweepJob, Sequence[PairingResult]]]) -> Table:
    """One row a pairing of a job."""
    rows = [(job, result) for job, pairing_results in outcomes for result in pairing_results]
    shown = console.pairing_columns([result for _, result in rows])
    return console.tabulated(
        [*_settings(jobs, [job for job, _ in rows]), *shown], "Sweep (the first agent's view, in %)"
    )


def _table_of_rows(records: Sequence[_Kept]) -> Table:
    """One row a job, as it left it."""
    rows = [(record, row) for record, _, row in records if row]
    names = dict.fromkeys(name for _, row in rows for name in row)
    texts = {name: [row.get(name, "") for _, row in rows] for name in names}
    shown = [
        console.Column(name, values, right=not any(value[:1].isalpha() for value in values))
        for name, values in texts.items()
    ]
    return console.tabulated([*_settings([each.record for each in records], [job for job, _ in rows]), *shown], "Sweep")


def _settings(jobs: Sequence[SweepJob], rows: Sequence[SweepJob]) -> list[console.Column]:
    """The number of each row's job, and what varied between all of them."""
    keys = list(dict.fromkeys(key for job in jobs for key in job.overrides))
    varied = [key for key in keys if len({job.overrides.get(key) for job in jobs}) > 1] or keys
    settings = [console.Column(key, [job.overrides.get(key, "") for job in rows], right=False) for key in varied]
    return [console.Column("job", [str(job.job) for job in rows]), *settings]
