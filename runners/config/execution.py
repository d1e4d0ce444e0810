"""Carrying out a command through Hydra: check the request, then run it as one job or as the jobs of a sweep."""

from __future__ import annotations

import os
import sys
import threading
import uuid
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import hydra
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.core.utils import run_job
from hydra.errors import HydraException
from hydra.types import HydraContext, RunMode
from omegaconf import DictConfig

from analytics.store.files.backend import expand_home_if_known
from quarto.errors import RequestError
from runners.config.application import Application, CommandOutcome, Launch, PreparedRequest, enter_launch_folder
from runners.config.arguments import CommandArguments, format_config_error
from runners.config.callbacks import Callbacks
from runners.config.composing import FirstJob, compose_first_job, format_config, initialize_hydra, open_config_folders
from runners.config.local_jobs import run_local_jobs, runs_jobs_locally
from runners.config.schemas import check_keys_and_values
from runners.config.sweep_values import compose_other_configs
from runners.config.yaml_options import CONF_FOLDER, check_option, list_user_folders
from runners.hosting.interruption import exit_code
from runners.terminal import console

if TYPE_CHECKING:
    from collections.abc import Iterator

    import typer

    from runners.config.sweep import Sweep

FOLDER_VARIABLES = ("QARENA_CACHE", "QARENA_TABLEBASE")  # environment variables whose values are folders
DROPPED_GAMES_NOTE = "what was not committed yet is dropped, all else is in the archive"
_hydra_main_lock = threading.Lock()  # ``hydra.main`` reads ``sys.argv``, which the whole process shares


def run_hydra_command(
    application: Application,
    context: typer.Context,
    arguments: CommandArguments,
    multirun: bool = False,
    config_to_print: str | None = None,
    help: bool = False,  # noqa: A002
) -> int:
    """Let Hydra carry out a command, and return the exit code.

    With ``help`` the help page of the command is printed instead. With ``config_to_print`` the part of the
    configuration that it names is printed instead (see ``format_config``). Raises ``ArenaError`` with a one-line
    message for any error.
    """
    command = context.command_path.partition(" ")[2]
    multirun = multirun or command == "sweep"
    _make_folder_variables_absolute()
    with open_config_folders(arguments, application.schema, command):
        if help:
            from runners.config.help_page import print_help

            with initialize_hydra():
                print_help(application, context, arguments)
            return 0
        if config_to_print:
            with initialize_hydra():
                first_job = compose_first_job(application.config_name, arguments.overrides, multirun)
            console.print_line(format_config(first_job.config, config_to_print).rstrip("\n"))
            return 0
        launch = Launch(arguments.typed, tuple(list_user_folders()), uuid.uuid4().hex[:12])
        try:
            return _run_request(application, arguments, multirun, launch)
        except KeyboardInterrupt:
            return launch.print_resume_hint(DROPPED_GAMES_NOTE)


def _make_folder_variables_absolute() -> None:
    """Make the folders in environment variables absolute, because subprocesses may start in a different folder."""
    for name in FOLDER_VARIABLES:
        if name in os.environ:
            os.environ[name] = str(expand_home_if_known(os.environ[name]).absolute())


def _run_request(application: Application, arguments: CommandArguments, multirun: bool, launch: Launch) -> int:
    """Check a request, carry it out, and return the exit code."""
    for label in arguments.agents:
        check_option("agent", label.partition("(")[0].strip())  # before numba and Polars are loaded
    with initialize_hydra():
        first_job = compose_first_job(application.config_name, arguments.overrides, multirun)
        first = first_job.config
        if first.hydra.mode != RunMode.MULTIRUN:
            check_keys_and_values(first, application.schema)
            outcome = _run_single_request(application.prepare(first, first.hydra, launch), first)
        else:
            sweep, run_jobs = _prepare_sweep(application, arguments, first_job, launch)
    if first.hydra.mode == RunMode.MULTIRUN:
        return _run_sweep_and_report(sweep, run_jobs)
    outcome.show()
    return launch.print_resume_hint() if outcome.interrupted else outcome.exit_code


def execute_sweep(application: Application, arguments: CommandArguments) -> tuple[Sweep, int]:
    """Carry out the jobs of a sweep that was requested from Python, and return the sweep with an exit code.

    The exit code is 0 if every job began. Raises ``RequestError``, and errors of Hydra that occur before the first job
    begins.
    """
    _make_folder_variables_absolute()
    launch = Launch(arguments.typed, tuple(list_user_folders()), uuid.uuid4().hex[:12])
    with initialize_hydra():
        first_job = compose_first_job(application.config_name, arguments.overrides, multirun=True)
        sweep, run_jobs = _prepare_sweep(application, arguments, first_job, launch, is_quiet=True)
    return sweep, _run_sweep(sweep, run_jobs)


def _prepare_sweep(
    application: Application,
    arguments: CommandArguments,
    first_job: FirstJob,
    launch: Launch,
    is_quiet: bool = False,
) -> tuple[Sweep, Callable[[], None]]:
    """Check the jobs of a sweep, and return the sweep with a function that carries out its jobs.

    The function must be called while Hydra is not initialised. If ``is_quiet``, it prints no line for each job.
    """
    from runners.config.sweep import Sweep, run_sweep_job  # a single request needs none of it

    first = first_job.config
    for cfg in [first, *compose_other_configs(application.config_name, first, first_job.overrides)]:
        application.check_sweep_job(cfg, cfg.hydra)
    target = application.build_sweep_target(first, first.hydra)
    sweep = Sweep.from_request(first, arguments, target, application, launch, is_quiet)
    run_jobs = initialize_hydra()(run_local_jobs) if runs_jobs_locally(first) else _run_hydra_sweep
    task = partial(run_sweep_job, application, launch)
    return sweep, partial(run_jobs, application.config_name, sweep.overrides, task)


def _run_single_request(prepared_request: PreparedRequest, cfg: DictConfig) -> CommandOutcome:
    """Carry out a checked request as a job of Hydra, with an output folder and a log file.

    Raises the errors of the request. ``hydra.main`` is not used because it would compose the configuration twice more,
    which takes half a second on a slow machine.
    """
    outcome: list[CommandOutcome | Exception] = []

    def task(_cfg: DictConfig) -> None:
        try:
            with enter_launch_folder():
                outcome.append(prepared_request())
        except Exception as error:  # noqa: BLE001  (Hydra adds lines of its own to an error that leaves a task)
            outcome.append(error)

    callbacks: Any = Callbacks(cfg)  # Hydra has no public name for the list of them
    job_description = {"config": cfg, "config_name": cfg.hydra.job.config_name}
    callbacks.notify("on_run_start", **job_description)
    hydra_context = HydraContext(GlobalHydra.instance().config_loader(), callbacks)
    job_return = run_job(task, cfg, "hydra.run.dir", job_subdir_key=None, hydra_context=hydra_context)
    callbacks.notify("on_run_end", **job_description, job_return=job_return)
    (result,) = outcome
    if isinstance(result, Exception):
        raise result
    return result


def _run_sweep_and_report(sweep: Sweep, run_jobs: Callable[[], None]) -> int:
    """Carry out the jobs of a sweep, print a report on them, and return the exit code.

    Raises errors of Hydra that occur before the first job begins.
    """
    return max(_run_sweep(sweep, run_jobs), sweep.print_report())


def _run_sweep(sweep: Sweep, run_jobs: Callable[[], None]) -> int:
    """Carry out the jobs of a sweep, and return the exit code.

    The exit code is 0 even if jobs failed, because the report shows these failures. Raises errors of Hydra that occur
    before the first job begins.
    """
    try:
        run_jobs()
    except KeyboardInterrupt:
        return sweep.launch.print_resume_hint(DROPPED_GAMES_NOTE)
    except SystemExit as exit_request:  # from a job that was interrupted
        return exit_request.code if isinstance(exit_request.code, int) else exit_code()
    except Exception as error:
        if not sweep.load_ended_jobs():  # otherwise jobs failed, and the report names each of them
            sweep.remove_created_folders()
            if sweep.study_target and not isinstance(error, HydraException):  # from any database or sampler
                reason = " ".join(str(error).split()).partition(" (Background on")[0]
                raise RequestError(f"hydra/sweeper=optuna cannot begin: {reason}") from error
            raise
        if isinstance(error, HydraException):
            console.print_note(f"the sweep ended before its last job: {format_config_error(error, sweep.overrides)}")
            return 1
    return 0


def _run_hydra_sweep(config_name: str, overrides: Sequence[str], task: Callable[[DictConfig], Any]) -> None:
    """Let ``hydra.main`` carry out a sweep whose launcher or sweeper is a plugin.

    Sweeps in several threads run one after the other, because ``hydra.main`` reads ``sys.argv``, which they share.
    """
    with _hydra_main_lock, _hydra_arguments(["--multirun", *overrides]):
        try:
            hydra.main(version_base="1.3", config_path=str(CONF_FOLDER), config_name=config_name)(task)()
        finally:
            HydraConfig.instance().cfg = None  # a later launch in this process has other folders


@contextmanager
def _hydra_arguments(arguments: Sequence[str]) -> Iterator[None]:
    """Set ``sys.argv`` for ``hydra.main`` inside the context, and make it raise errors instead of printing them."""
    saved_arguments, full_error = sys.argv, os.environ.get("HYDRA_FULL_ERROR")
    sys.argv, os.environ["HYDRA_FULL_ERROR"] = ["qarena", *arguments], "1"
    try:
        yield
    finally:
        sys.argv = saved_arguments
        if full_error is None:
            del os.environ["HYDRA_FULL_ERROR"]
        else:
            os.environ["HYDRA_FULL_ERROR"] = full_error
