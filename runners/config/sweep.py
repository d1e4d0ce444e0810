"""Sweeps: what Hydra is told, the outcome of each job, and a table of all jobs at the end.

A job may run in another process or on another machine. So it writes its record twice. One is in the archive, for the
view ``sweeps``. The process that started the sweep finds the other in the job's output folder.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import sys
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hydra.conf import HydraConf
from hydra.core.hydra_config import HydraConfig
from msgspec import structs
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from agents.base.parameters import format_parameter
from analytics.questions.columns import ResultColumn, Table, format_count_with_noun
from analytics.store.archive import ArchiveStore
from analytics.store.files.backend import parse_location
from analytics.store.labels import quote_for_hydra
from analytics.store.records import JsonRecord, SweepJob, convert_values, encode_record, load_record
from quarto.errors import ArenaError, RequestError
from runners.config.application import Application, Launch, enter_launch_folder
from runners.config.arguments import CommandArguments
from runners.config.objectives import SweepTarget
from runners.config.schemas import check_keys_and_values
from runners.config.yaml_options import set_user_folders
from runners.terminal import console

# Folders, archive, threads, executor, progress and keep_going do not affect what a job returns, nor does the extent of
# a study.
NO_EFFECT_OVERRIDE = re.compile(
    r"\+*(hydra[./](?!sweeper[.=](?!storage=|n_trials=|n_jobs=|max_failure_rate=))|archive[.=]|threads=|progress="
    r"|keep_going=|executor[.=]|ray[.])"
)
# By default the plugin joins whatever cluster it finds, reports its start, has a web server, and limits the memory for
# objects, which Ray refuses if it joins a cluster.
RAY_KEY = "hydra.launcher.ray.init"
RAY_DEFAULTS = {
    "address": "local",
    "include_dashboard": "false",
    "logging_level": "error",
    "object_store_memory": "null",
}
STUDY_RESULT_FILE = "optimization_results.yaml"  # hydra-optuna-sweeper writes it into the sweep's folder


def compute_sweep_id(arguments: Sequence[str], config_name: str = "run") -> str:
    """The id of a sweep. It does not depend on the order of overrides, nor on what has no effect on its jobs.

    It does depend on the sweeper, which decides what the jobs are.
    """
    kept = sorted(argument for argument in arguments if not NO_EFFECT_OVERRIDE.match(argument))
    return hashlib.sha256("\n".join([*kept, *([] if config_name == "run" else [config_name])]).encode()).hexdigest()[
        :12
    ]


def format_job_file_name(launch_id: str, job: int | str) -> str:
    """The name of a job's record in its output folder. Jobs of other launches have others in the same folder."""
    return f"job-{launch_id}-{job}.json"


@dataclass(frozen=True)
class Sweep:
    """A sweep that this process starts."""

    folder: Path  # absolute; it may have served another sweep before
    created_folders: Sequence[Path]  # the folders that did not exist, inner ones first
    overrides: Sequence[str]  # all that Hydra is told
    table_subtitle: str  # whose view the table takes
    study_target: SweepTarget | None  # that Optuna seeks
    launch: Launch

    @staticmethod
    def from_request(
        first_config: DictConfig,
        arguments: CommandArguments,
        target: SweepTarget | None,
        application: Application,
        launch: Launch,
    ) -> Sweep:
        """The sweep that a request asks for; ``first_config`` is the configuration of its first job.

        Raises ``RequestError`` for a launcher or a sweeper that cannot work here.
        """
        folder = Path(first_config.hydra.sweep.dir).absolute()
        created = [each for each in (folder, *folder.parents) if not each.exists()]
        name = compute_sweep_id(
            [*arguments.overrides, *(f"--config-dir={each}" for each in arguments.config_dirs)], application.config_name
        )
        more = [
            f"hydra.sweep.dir={quote_for_hydra(str(folder))}"
        ]  # jobs may run in another current folder, or at another time
        if not any(each.startswith("sweep.id=") for each in arguments.overrides):
            more.append(f"sweep.id={quote_for_hydra(name)}")  # quoted, because an id of digits and an e is no number
        more += _build_launcher_overrides(first_config, arguments.overrides)
        if is_study := first_config.hydra.runtime.choices["hydra/sweeper"] == "optuna":
            more += _build_optuna_overrides(first_config, arguments.overrides, target, name)
        return Sweep(
            folder=folder,
            created_folders=created,
            overrides=[*arguments.overrides, *more],
            table_subtitle=application.table_subtitle,
            study_target=target if is_study else None,
            launch=launch,
        )

    def load_ended_jobs(self) -> list[Job]:
        """This launch's jobs that have ended, in the order of their numbers."""
        found = (load_record(path, Job) for path in self.folder.rglob(format_job_file_name(self.launch.id, "*")))
        return sorted(found, key=lambda each: each.record.job)

    def remove_folders(self) -> None:
        """Remove the folder of a sweep that Hydra refused before its first job."""
        (self.folder / "multirun.yaml").unlink(missing_ok=True)
        for each in self.created_folders:
            with suppress(OSError):  # it is not empty
                each.rmdir()

    def record_jobs(self) -> list[Job]:
        """Record failures and the number of jobs in their archives, once the last job has ended; return all jobs."""
        jobs = self.load_ended_jobs()
        for job in jobs:
            if job.record.status == "failed":
                with suppress(ArenaError):  # there may be no archive
                    job.write_archive_record()
        for job in jobs[:: max(1, len(jobs) - 1)]:  # the first and the last: whichever job is lost later is missed
            with suppress(ArenaError):
                job.write_archive_record(jobs=jobs[-1].record.job + 1)
        return jobs

    def build_table(self, jobs: Sequence[Job]) -> Table | None:
        """Build the table of the jobs' settings and results; None if no job has results."""
        if not any(job.row_count for job in jobs):
            return None
        title = f"Sweep ({self.table_subtitle})" if self.table_subtitle else "Sweep"
        return Table(title, [*_build_setting_columns(jobs), *_build_result_columns(jobs)])

    def describe_jobs(self, jobs: Sequence[Job]) -> list[str]:
        """List what to know about rows of the table, then each failure."""
        failures = [job.failure_message for job in jobs if job.record.status == "failed"]
        notes = [f"job {job.record.job} {note}" for job in jobs for note in job.notes]
        if failures:
            count = f"{len(failures)} of {format_count_with_noun(len(jobs), 'job')}"
            failures.append(f"{count} failed; the same command again plays only what is missing")
        return [*notes, *failures]

    def describe_best(self) -> str:
        """Return the best settings of a study with their value; nothing of a sweep that is none."""
        if not (self.study_target and (self.folder / STUDY_RESULT_FILE).exists()):
            return ""
        best = OmegaConf.load(self.folder / STUDY_RESULT_FILE)
        settings = " ".join(f"{key}={value}" for key, value in best.best_params.items())
        value = self.study_target.format_value(best.best_value)
        return f"Best of the study: {settings} ({self.study_target.name}: {value})"

    def print_report(self) -> int:
        """Print a table of the jobs' settings and results, then the failures again; returns the exit code."""
        jobs = self.record_jobs()
        if table := self.build_table(jobs):
            console.print_tables([console.build_table(table.columns, table.title)])
            question = f"SELECT * FROM sweeps WHERE sweep_id = '{jobs[0].record.sweep_id}'"  # noqa: S608  (only shown)
            for root in dict.fromkeys(each.archive for each in jobs if each.row_count):
                console.print_line(f"  {console.format_sql_command(question, parse_location(root))}")
        for note in self.describe_jobs(jobs):
            console.print_note(note)
        if best := self.describe_best():
            console.print_line(best)
        return 0 if all(each.record.status == "complete" for each in jobs) else 1


def _build_launcher_overrides(first_config: DictConfig, overrides: Sequence[str]) -> list[str]:
    """Further overrides that the launcher of a sweep needs.

    Raises ``RequestError`` for a launcher that cannot work here.
    """
    launcher = first_config.hydra.runtime.choices.get("hydra/launcher")
    for program in ("srun", "sbatch") if launcher == "submitit_slurm" else ():
        if shutil.which(program) is None:
            raise RequestError(
                f"hydra/launcher=submitit_slurm needs Slurm: {program} is not on PATH; submit from a machine of the "
                "cluster, or use hydra/launcher=submitit_local"
            )
    if launcher != "basic":
        console.print_note(f"{launcher}: the jobs' output folders are in {first_config.hydra.sweep.dir}")
    if launcher != "ray":
        return []
    given = [override.lstrip("+").partition("=")[0] for override in overrides]
    more = [f"++{RAY_KEY}.{name}={value}" for name, value in RAY_DEFAULTS.items() if f"{RAY_KEY}.{name}" not in given]
    # Processes of a cluster that is there already need the settings of the user that jobs read.
    own = {name: value for name, value in os.environ.items() if name.startswith("QARENA_")}
    return [
        *more,
        *(f"++{RAY_KEY}.runtime_env.env_vars.{name}={quote_for_hydra(value)}" for name, value in own.items()),
    ]


def _build_optuna_overrides(
    first_config: DictConfig, overrides: Sequence[str], target: SweepTarget | None, default_study_name: str
) -> list[str]:
    """Further overrides that the sweeper of Optuna needs: the direction, and a name for the study.

    Raises ``RequestError`` if there is nothing to optimise, or in the other direction.
    """
    if target is None:
        raise RequestError("hydra/sweeper=optuna needs a value to optimise, and the jobs of this command have none")
    for given in overrides:
        key, _, value = given.partition("=")
        if key == "hydra.sweeper.direction" and value != target.direction:
            raise RequestError(
                f"{given} contradicts the objective {target.name}, which is to {target.direction}: leave it out"
            )
    warnings.simplefilter("ignore")  # those of Optuna, the plugin and SQLAlchemy are for their developers
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = (
        first_config.hydra.sweeper.study_name or default_study_name
    )  # without a name, other settings are another study
    return [f"hydra.sweeper.direction={target.direction}", f"hydra.sweeper.study_name={study}"]


class Job(JsonRecord, frozen=True):
    """A job of a sweep, as it is written into its output folder."""

    folder: str  # of its output
    launch_id: str
    archive: str  # its folder or URL
    record: SweepJob
    columns: Sequence[ResultColumn] = ()  # of its rows in the table
    notes: Sequence[str] = ()  # what to know about its rows

    @staticmethod
    def from_config(cfg: DictConfig, hydra_cfg: HydraConf, games: int, launch_id: str) -> Job:
        """The job that Hydra is about to run, which asks for ``games`` games of each pairing."""
        settings = list_settings(cfg, hydra_cfg)
        asked = {"sweep_id": cfg.sweep.id, "job": hydra_cfg.job.num, "overrides": settings, "games": max(0, games)}
        record = convert_values(asked | {"status": "failed"}, SweepJob)
        return Job(hydra_cfg.runtime.output_dir, launch_id, str(cfg.archive.root), record)

    def record_and_print_failure(self, error: Exception) -> None:
        """Record that a job failed, and print why; ``Sweep.report`` prints it again at the end."""
        text = str(error) if isinstance(error, ArenaError) else f"{type(error).__name__}: {error}"
        console.print_note(self.write_outcome(error=" ".join(text.split())).failure_message)

    def write_outcome(self, columns: Sequence[ResultColumn] = (), notes: Sequence[str] = (), **outcome: Any) -> Job:
        """Write the job with its rows and with these fields of its record, and return it."""
        job = structs.replace(self, columns=columns, notes=notes, record=structs.replace(self.record, **outcome))
        (Path(self.folder) / format_job_file_name(self.launch_id, self.record.job)).write_bytes(encode_record(job))
        try:
            job.write_archive_record()
        except ArenaError:
            if job.record.status != "failed":  # a job may have failed because of its archive
                raise
        return job

    def write_archive_record(self, **changes: Any) -> None:
        """Write its record into its archive."""
        ArchiveStore.open(parse_location(self.archive)).write_sweep_job(structs.replace(self.record, **changes))

    @property
    def failure_message(self) -> str:
        """Why it failed."""
        settings = " ".join(f"{key}={value}" for key, value in self.record.overrides.items())
        return f"job {self.record.job} failed ({settings}): {self.record.error}"

    @property
    def row_count(self) -> int:
        """Its rows in the table."""
        return len(self.columns[0].texts) if self.columns else 0


def list_settings(cfg: DictConfig, hydra_cfg: HydraConf) -> dict[str, str]:
    """List the keys that a job was given with their values in it, also where an override takes another key's value."""
    settings = {}
    given: Any = OmegaConf.to_container(hydra_cfg.overrides.task, resolve=False)
    for override in given:
        key, equals, text = override.lstrip("+").partition("=")
        if equals and not key.startswith("~") and key != "sweep.id":
            settings[key] = _format_setting(cfg, hydra_cfg.runtime.choices, key, text)
    return settings


def _format_setting(cfg: DictConfig, choices: Mapping[str, str], key: str, text: str) -> str:
    """The value of a key in a job as a text; of a group the option that was chosen."""
    if key in choices:
        return format_parameter(choices[key])
    with suppress(OmegaConfBaseException):  # the job itself says why a value cannot be found
        value = OmegaConf.select(cfg, key)
        if not OmegaConf.is_config(value):
            return format_parameter(value)
        return json.dumps(OmegaConf.to_container(value, resolve=True), ensure_ascii=False, separators=(",", ":"))
    return text


def run_sweep_job(application: Application, launch: Launch, cfg: DictConfig) -> float | None:
    """Hydra's task in a sweep: carry out a job, keep its outcome for the table at the end, return its value."""
    set_user_folders(launch.user_folders)  # this may be a process that a launcher started
    with enter_launch_folder():
        hydra_cfg = HydraConfig.get()
        job = Job.from_config(cfg, hydra_cfg, application.count_requested_games(cfg), launch.id)
        try:
            check_keys_and_values(cfg, application.schema)
            finished = application.prepare(cfg, hydra_cfg, launch)()
        except Exception as error:
            job.record_and_print_failure(error)
            raise
        except KeyboardInterrupt:
            job.write_outcome(status="interrupted")
            raise
        status, judged = "interrupted" if finished.interrupted else "complete", finished.objective_value
        recorded = judged._asdict() if judged else {}
        job.write_outcome(finished.columns, finished.notes, status=status, run_id=finished.run_id, **recorded)
    if finished.stopped:
        sys.exit(launch.print_resume_hint())
    return judged and judged.value


def _build_result_columns(jobs: Sequence[Job]) -> list[ResultColumn]:
    """The columns of all jobs' rows; a job that lacks one has empty texts in it."""
    own = [{column.heading: column for column in each.columns} for each in jobs]
    forms = {heading: column for columns in own for heading, column in columns.items()}
    return [
        form._replace(
            texts=[
                text
                for job, columns in zip(jobs, own, strict=True)
                for text in (columns[heading].texts if heading in columns else [""] * job.row_count)
            ],
            right_aligned=all(columns[heading].right_aligned for columns in own if heading in columns),
        )
        for heading, form in forms.items()
    ]


def _build_setting_columns(jobs: Sequence[Job]) -> list[ResultColumn]:
    """The columns of each row's job number and of the settings that vary between jobs."""
    keys = list(dict.fromkeys(key for job in jobs for key in job.record.overrides))
    varied = [key for key in keys if len({job.record.overrides.get(key) for job in jobs}) > 1] or keys
    rows = [job.record for job in jobs for _ in range(job.row_count)]
    settings = [ResultColumn(key, [job.overrides.get(key, "") for job in rows], right_aligned=False) for key in varied]
    return [ResultColumn("job", [str(job.job) for job in rows]), *settings]
