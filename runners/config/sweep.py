"""Sweeps: the overrides that Hydra receives, the outcome of each job, and a table of all jobs at the end.

A job may run in another process or on another machine, so it writes its record twice: into the archive, for the view
``sweeps``, and into the job's output folder, where the process that started the sweep looks for it.
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
from analytics.questions.columns import ResultColumn, Table
from analytics.store.archive import ArchiveStore
from analytics.store.files.backend import parse_location
from analytics.store.labels import quote_for_hydra
from analytics.store.records import JsonRecord, SweepJob, convert_values, encode_record, load_record
from analytics.store.texts import format_count_with_noun
from quarto.errors import ArenaError, RequestError
from runners.config.application import Application, Launch, enter_launch_folder
from runners.config.arguments import CommandArguments
from runners.config.objectives import SweepTarget
from runners.config.schemas import check_keys_and_values
from runners.config.yaml_options import set_user_folders_returning_added
from runners.terminal import console

# Overrides that do not affect what a job returns: folders, the archive, threads, and the number of trials of a study.
NO_EFFECT_OVERRIDE = re.compile(
    r"\+*(hydra[./](?!sweeper[.=](?!storage=|n_trials=|n_jobs=|max_failure_rate=))|archive[.=]|threads=|progress="
    r"|keep_going=|name=|note=|executor[.=]|ray[.])"
)
# By default the plugin joins any cluster that it finds, reports its start, starts a web server, and limits the memory
# for objects, which Ray refuses when it joins a cluster.
RAY_KEY = "hydra.launcher.ray.init"
RAY_DEFAULTS = {
    "address": "local",
    "include_dashboard": "false",
    "logging_level": "error",
    "object_store_memory": "null",
}
LOGGING_LEVEL_KEY = "hydra.hydra_logging.root.level"  # of the lines that say which job begins
STUDY_RESULT_FILE = "optimization_results.yaml"  # hydra-optuna-sweeper writes it into the sweep's folder


def compute_sweep_id(arguments: Sequence[str], config_name: str = "run") -> str:
    """Compute the id of a sweep from those of its overrides that affect the jobs, whatever the order of the overrides.

    The override that chooses the sweeper is among them, because the sweeper decides which jobs there are.
    ``config_name`` is the name of the command's yaml.
    """
    effective_arguments = sorted(argument for argument in arguments if not NO_EFFECT_OVERRIDE.match(argument))
    return hashlib.sha256(
        "\n".join([*effective_arguments, *([] if config_name == "run" else [config_name])]).encode()
    ).hexdigest()[:12]


def format_job_file_name(launch_id: str, job: int | str) -> str:
    """Return the name of the file that contains a job's record.

    ``job`` is the job's number, or ``*`` for a pattern that matches all jobs. The name contains the id of the launch,
    because several launches may share an output folder.
    """
    return f"job-{launch_id}-{job}.json"


@dataclass(frozen=True)
class Sweep:
    """A sweep that was started by this process."""

    folder: Path  # absolute; an earlier sweep may have used it
    created_folders: Sequence[Path]  # the folders that did not exist, inner ones first
    overrides: Sequence[str]  # all overrides that Hydra receives
    table_subtitle: str  # from whose point of view the table shows results
    study_target: SweepTarget | None  # the value that Optuna optimises
    launch: Launch

    @staticmethod
    def from_request(
        first_config: DictConfig,
        arguments: CommandArguments,
        target: SweepTarget | None,
        application: Application,
        launch: Launch,
        is_quiet: bool = False,
    ) -> Sweep:
        """Build the sweep that a request describes; ``first_config`` is the configuration of the first job.

        If ``is_quiet``, no line says which job begins. Raises ``RequestError`` for a launcher or a sweeper that cannot
        be used here.
        """
        folder = Path(first_config.hydra.sweep.dir).absolute()
        created_folders = [path for path in (folder, *folder.parents) if not path.exists()]
        name = compute_sweep_id(
            [*arguments.overrides, *(f"--config-dir={path}" for path in arguments.config_dirs)], application.config_name
        )
        # The folder is fixed here, because jobs may run in another current folder or at another time.
        added_overrides = [f"hydra.sweep.dir={quote_for_hydra(str(folder))}"]
        if not any(override.startswith("sweep.id=") for override in arguments.overrides):
            # Quoted, because Hydra would read an id of digits and an e as a number.
            added_overrides.append(f"sweep.id={quote_for_hydra(name)}")
        added_overrides += _check_launcher_and_build_overrides(first_config, arguments.overrides)
        added_overrides += _build_quiet_logging_overrides(first_config, is_quiet)
        if is_study := first_config.hydra.runtime.choices["hydra/sweeper"] == "optuna":
            added_overrides += _build_optuna_overrides(first_config, arguments.overrides, target, name)
        return Sweep(
            folder=folder,
            created_folders=created_folders,
            overrides=[*arguments.overrides, *added_overrides],
            table_subtitle=application.table_subtitle,
            study_target=target if is_study else None,
            launch=launch,
        )

    def load_ended_jobs(self) -> list[Job]:
        """Load the records of the jobs of this launch that have ended, sorted by job number."""
        jobs = (load_record(path, Job) for path in self.folder.rglob(format_job_file_name(self.launch.id, "*")))
        return sorted(jobs, key=lambda job: job.record.job)

    def remove_created_folders(self) -> None:
        """Remove the folders that were created for a sweep that Hydra rejected before the first job."""
        (self.folder / "multirun.yaml").unlink(missing_ok=True)
        for folder in self.created_folders:
            with suppress(OSError):  # the folder is not empty
                folder.rmdir()

    def record_failures_and_job_count(self) -> list[Job]:
        """After the last job, record the failed jobs and the number of jobs in the archives, and return all jobs."""
        jobs = self.load_ended_jobs()
        for job in jobs:
            if job.record.status == "failed":
                with suppress(ArenaError):  # there may be no archive
                    job.write_archive_record()
        # The number of jobs is in the records of the first and the last job, so that a later loss of any job shows.
        for job in jobs[:: max(1, len(jobs) - 1)]:
            with suppress(ArenaError):
                job.write_archive_record(jobs=jobs[-1].record.job + 1)
        return jobs

    def build_table(self, jobs: Sequence[Job]) -> Table | None:
        """Build a table of the settings and results of the jobs, or return None if no job has any results."""
        if not any(job.row_count for job in jobs):
            return None
        title = f"Sweep ({self.table_subtitle})" if self.table_subtitle else "Sweep"
        return Table(title, [*_build_setting_columns(jobs), *_build_result_columns(jobs)])

    def describe_notes_and_failures(self, jobs: Sequence[Job]) -> list[str]:
        """Return the notes on the rows of the table, followed by the failures, as sentences."""
        failures = [job.failure_message for job in jobs if job.record.status == "failed"]
        notes = [f"job {job.record.job} {note}" for job in jobs for note in job.notes]
        if failures:
            count = f"{len(failures)} of {format_count_with_noun(len(jobs), 'job')}"
            failures.append(f"{count} failed; the same command again plays only what is missing")
        return [*notes, *failures]

    def describe_best_of_study(self) -> str:
        """Describe the best settings that an Optuna study found, and their value.

        Return an empty text if the sweep does not use Optuna, or if Optuna has written no result.
        """
        if not (self.study_target and (self.folder / STUDY_RESULT_FILE).exists()):
            return ""
        best = OmegaConf.load(self.folder / STUDY_RESULT_FILE)
        settings = " ".join(f"{key}={value}" for key, value in best.best_params.items())
        value = self.study_target.format_value(best.best_value)
        return f"Best of the study: {settings} ({self.study_target.name}: {value})"

    def print_report(self) -> int:
        """Print a table of the jobs' settings and results, then the notes and failures, and return the exit code.

        The exit code is 0 if every job is complete. The jobs are recorded first, see ``record_failures_and_job_count``.
        """
        jobs = self.record_failures_and_job_count()
        if table := self.build_table(jobs):
            console.print_tables([console.build_escaped_table(table.columns, table.title)])
            question = f"SELECT * FROM sweeps WHERE sweep_id = '{jobs[0].record.sweep_id}'"  # noqa: S608  (only shown)
            for root in dict.fromkeys(job.archive for job in jobs if job.row_count):
                console.print_line(f"  {console.format_sql_command(question, parse_location(root))}")
        for note in self.describe_notes_and_failures(jobs):
            console.print_note(note)
        if best := self.describe_best_of_study():
            console.print_line(best)
        return 0 if all(job.record.status == "complete" for job in jobs) else 1


def _build_quiet_logging_overrides(first_config: DictConfig, is_quiet: bool) -> list[str]:
    """Build the override that silences the line which announces each job, for a quiet sweep or one without progress.

    Warnings remain. If the lines are wanted, the list is empty.
    """
    is_wanted = not is_quiet and first_config.get("progress", True)
    if is_wanted or OmegaConf.select(first_config, LOGGING_LEVEL_KEY) is None:
        return []
    return [f"{LOGGING_LEVEL_KEY}=WARNING"]


def _check_launcher_and_build_overrides(first_config: DictConfig, overrides: Sequence[str]) -> list[str]:
    """Build the overrides that a sweep's launcher needs in addition to the user's overrides.

    Raises ``RequestError`` for a launcher that cannot be used here.
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
    given_keys = [override.lstrip("+").partition("=")[0] for override in overrides]
    default_overrides = [
        f"++{RAY_KEY}.{name}={value}" for name, value in RAY_DEFAULTS.items() if f"{RAY_KEY}.{name}" not in given_keys
    ]
    # Jobs read environment variables, which processes of a running cluster do not inherit.
    user_settings = {name: value for name, value in os.environ.items() if name.startswith("QARENA_")}
    return [
        *default_overrides,
        *(f"++{RAY_KEY}.runtime_env.env_vars.{name}={quote_for_hydra(value)}" for name, value in user_settings.items()),
    ]


def _build_optuna_overrides(
    first_config: DictConfig, overrides: Sequence[str], target: SweepTarget | None, default_study_name: str
) -> list[str]:
    """Build the overrides that the Optuna sweeper needs in addition to the user's overrides.

    They set the direction of the optimisation and the name of the study. Raises ``RequestError`` if ``target`` is None,
    because the jobs then have no value to optimise, or if the user has chosen the opposite direction.
    """
    if target is None:
        raise RequestError("hydra/sweeper=optuna needs a value to optimise, and the jobs of this command have none")
    for override in overrides:
        key, _, value = override.partition("=")
        if key == "hydra.sweeper.direction" and value != target.direction:
            raise RequestError(
                f"{override} contradicts the objective {target.name}, which is to {target.direction}: leave it out"
            )
    warnings.simplefilter("ignore")  # warnings of Optuna, the plugin and SQLAlchemy address their developers
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    # The default name is the sweep's id, so other settings make another study.
    study = first_config.hydra.sweeper.study_name or default_study_name
    return [f"hydra.sweeper.direction={target.direction}", f"hydra.sweeper.study_name={study}"]


class Job(JsonRecord, frozen=True):
    """A job of a sweep, in the form in which it is stored in its output folder."""

    folder: str  # the job's output folder
    launch_id: str
    archive: str  # folder or URL
    record: SweepJob
    columns: Sequence[ResultColumn] = ()  # the job's rows in the table
    notes: Sequence[str] = ()  # what a reader of these rows should know

    @staticmethod
    def from_config(cfg: DictConfig, hydra_cfg: HydraConf, games: int, launch_id: str) -> Job:
        """Build the job that Hydra is about to run, which requests ``games`` games of each pairing."""
        settings = list_typed_settings(cfg, hydra_cfg)
        request = {"sweep_id": cfg.sweep.id, "job": hydra_cfg.job.num, "overrides": settings, "games": max(0, games)}
        record = convert_values(request | {"status": "failed"}, SweepJob)
        return Job(hydra_cfg.runtime.output_dir, launch_id, str(cfg.archive.root), record)

    def record_and_print_failure(self, error: Exception) -> None:
        """Record that the job failed, and print the reason. ``Sweep.print_report`` prints it again at the end."""
        text = str(error) if isinstance(error, ArenaError) else f"{type(error).__name__}: {error}"
        console.print_note(self.write_outcome(error=" ".join(text.split())).failure_message)

    def write_outcome(self, columns: Sequence[ResultColumn] = (), notes: Sequence[str] = (), **outcome: Any) -> Job:
        """Write the job with its rows to its output folder and its record to the archive, and return the job.

        ``outcome`` are further fields of the record.
        """
        job = structs.replace(self, columns=columns, notes=notes, record=structs.replace(self.record, **outcome))
        (Path(self.folder) / format_job_file_name(self.launch_id, self.record.job)).write_bytes(encode_record(job))
        try:
            job.write_archive_record()
        except ArenaError:
            if job.record.status != "failed":  # a job may have failed because of its archive
                raise
        return job

    def write_archive_record(self, **changes: Any) -> None:
        """Write the job's record to its archive, with ``changes`` instead of the values of some fields."""
        ArchiveStore.open(parse_location(self.archive)).write_sweep_job(structs.replace(self.record, **changes))

    @property
    def failure_message(self) -> str:
        """The settings of a failed job and the reason for its failure."""
        settings = " ".join(f"{key}={value}" for key, value in self.record.overrides.items())
        return f"job {self.record.job} failed ({settings}): {self.record.error}"

    @property
    def row_count(self) -> int:
        """The number of rows that the job has in the table."""
        return len(self.columns[0].texts) if self.columns else 0


def list_typed_settings(cfg: DictConfig, hydra_cfg: HydraConf) -> dict[str, str]:
    """Return the settings that the user typed for a job, by key. Values that refer to other keys are resolved."""
    settings = {}
    overrides: Any = OmegaConf.to_container(hydra_cfg.overrides.task, resolve=False)
    for override in overrides:
        key, equals, text = override.lstrip("+").partition("=")
        if equals and not key.startswith("~") and key != "sweep.id":
            settings[key] = _format_setting(cfg, hydra_cfg.runtime.choices, key, text)
    return settings


def _format_setting(cfg: DictConfig, choices: Mapping[str, str], key: str, text: str) -> str:
    """Format the value that ``key`` has in a job. For a group this is the option that was chosen.

    ``text`` is the value as the user typed it, which is returned if the value cannot be found.
    """
    if key in choices:
        return format_parameter(choices[key])
    with suppress(OmegaConfBaseException):  # the job itself says why a value cannot be found
        value = OmegaConf.select(cfg, key)
        if not OmegaConf.is_config(value):
            return format_parameter(value)
        return json.dumps(OmegaConf.to_container(value, resolve=True), ensure_ascii=False, separators=(",", ":"))
    return text


def run_sweep_job(application: Application, launch: Launch, cfg: DictConfig) -> float | None:
    """Carry out a job of a sweep, store its outcome for the table at the end, and return the value of the job.

    Hydra passes the value to the sweeper.
    """
    set_user_folders_returning_added(launch.user_folders)  # this may be a process that a launcher started
    with enter_launch_folder():
        hydra_cfg = HydraConfig.get()
        job = Job.from_config(cfg, hydra_cfg, application.count_requested_games(cfg), launch.id)
        try:
            check_keys_and_values(cfg, application.schema)
            outcome = application.prepare(cfg, hydra_cfg, launch)()
        except Exception as error:
            job.record_and_print_failure(error)
            raise
        except KeyboardInterrupt:
            job.write_outcome(status="interrupted")
            raise
        status, objective_value = "interrupted" if outcome.interrupted else "complete", outcome.objective_value
        value_fields = objective_value._asdict() if objective_value else {}
        job.write_outcome(outcome.columns, outcome.notes, status=status, run_id=outcome.run_id, **value_fields)
    if outcome.stopped:
        sys.exit(launch.print_resume_hint())
    return objective_value and objective_value.value


def _build_result_columns(jobs: Sequence[Job]) -> list[ResultColumn]:
    """Build the columns with the results of all jobs. Where a job has no value for a column, its cells are empty."""
    columns_of_jobs = [{column.heading: column for column in job.columns} for job in jobs]
    forms = {heading: column for columns in columns_of_jobs for heading, column in columns.items()}
    return [
        form._replace(
            texts=[
                text
                for job, columns in zip(jobs, columns_of_jobs, strict=True)
                for text in (columns[heading].texts if heading in columns else [""] * job.row_count)
            ],
            right_aligned=all(columns[heading].right_aligned for columns in columns_of_jobs if heading in columns),
        )
        for heading, form in forms.items()
    ]


def _build_setting_columns(jobs: Sequence[Job]) -> list[ResultColumn]:
    """Build a column with the number of each row's job, and a column for each setting that varies between the jobs."""
    keys = list(dict.fromkeys(key for job in jobs for key in job.record.overrides))
    varied_keys = [key for key in keys if len({job.record.overrides.get(key) for job in jobs}) > 1] or keys
    rows = [job.record for job in jobs for _ in range(job.row_count)]
    settings = [
        ResultColumn(key, [job.overrides.get(key, "") for job in rows], right_aligned=False) for key in varied_keys
    ]
    return [ResultColumn("job", [str(job.job) for job in rows]), *settings]
