"""Starting a command that Hydra carries out: its request is checked, then a job of Hydra, or its sweep, begins."""

from __future__ import annotations

import datetime as dt
import os
import sys
import uuid
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import hydra
from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.types import Override
from hydra.core.utils import run_job
from hydra.errors import HydraException
from hydra.types import HydraContext, RunMode
from omegaconf import DictConfig

from analytics.store.files.backend import expand_home
from analytics.store.labels import format_quoting_advice
from quarto.errors import RequestError
from runners.config.application import (
    COMMAND_VARIABLE,
    LAUNCH_VARIABLE,
    Application,
    CommandOutcome,
    PreparedRequest,
    enter_launch_folder,
    print_resume_hint,
)
from runners.config.arguments import CommandArguments, check_group_choices, explain_config_errors, format_config_error
from runners.config.callbacks import Callbacks
from runners.config.local_jobs import run_local_jobs, runs_jobs_locally
from runners.config.sweep_values import compose_other_configs, keep_first_values, parse_overrides
from runners.config.yaml_options import CONF_FOLDER, check_option, search_user_folders
from runners.hosting.interruption import exit_code
from runners.terminal import console

if TYPE_CHECKING:
    import typer

    from runners.config.sweep import Sweep

FOLDER_VARIABLES = (
    "QARENA_CACHE",
    "QARENA_TABLEBASE",
)  # environment variables: a launcher's processes may be elsewhere
DROPPED_GAMES_NOTE = "what was not committed yet is dropped, all else is in the archive"


def launch(
    application: Application,
    context: typer.Context,
    arguments: CommandArguments,
    multirun: bool = False,
    config_to_print: str | None = None,
    help: bool = False,  # noqa: A002
) -> int:
    """Let Hydra carry out a command. Returns the exit code.

    Raises ``ArenaError`` with a message of one line for any error.
    """
    command = context.command_path.partition(" ")[2]
    check_agent_words(arguments.agents, application.schema, command)
    _set_environment(console.format_shell_line(sys.argv[1:]))
    with search_user_folders(arguments.config_dirs), explain_config_errors(arguments.overrides):
        if help:
            from runners.config.help_page import print_help

            with initialize_config_dir(str(CONF_FOLDER), version_base="1.3"):
                print_help(application, context, arguments)
            return 0
        if config_to_print:
            _run_hydra(application.config_name, ["--cfg", config_to_print, *arguments.overrides], lambda _cfg: None)
            return 0
        try:
            return _run_request(application, arguments, multirun or command == "sweep")
        except KeyboardInterrupt:
            return print_resume_hint(DROPPED_GAMES_NOTE)


def check_agent_words(labels: Sequence[str], schema: type[Any], command: str) -> None:
    """Check words that were taken for agents. Raises ``RequestError`` for a key, and where there are no agents."""
    keys = schema.__dataclass_fields__
    for word, following in zip(labels, [*labels[1:], "VALUE"], strict=False):
        if word in keys:
            raise RequestError(f"{word!r} is a key: write {word}={following}, without spaces")
        if "agents" not in keys:
            raise RequestError(f"{word!r} is not key=value: 'qarena {command} --help' lists the keys")


def _set_environment(command: str) -> None:
    """Set the environment variables that jobs read, in this process and in those that a launcher starts.

    ``command`` is the command line without the program.
    """
    now = dt.datetime.now(dt.UTC).astimezone()
    os.environ.setdefault("HYDRA_FULL_ERROR", "1")  # Hydra raises instead of printing and leaving
    for name in FOLDER_VARIABLES:
        if name in os.environ:
            os.environ[name] = str(expand_home(os.environ[name]).absolute())
    os.environ[COMMAND_VARIABLE] = command
    os.environ[LAUNCH_VARIABLE] = f"{now:%Y-%m-%d}/{now:%H-%M-%S}-{uuid.uuid4().hex[:6]}"


def _run_request(application: Application, arguments: CommandArguments, multirun: bool) -> int:
    """Check a request and carry it out; returns the exit code."""
    for label in arguments.agents:
        check_option("agent", label.partition("(")[0].strip())  # before numba and Polars are loaded
    with initialize_config_dir(str(CONF_FOLDER), version_base="1.3"):
        first, given = compose_first_job(application.config_name, arguments.overrides, multirun)
        if first.hydra.mode != RunMode.MULTIRUN:
            finished = _run_single_request(application.check_and_prepare(first, first.hydra), first)
        else:
            sweep, run_jobs = _prepare_sweep(application, arguments, first, given)
    if first.hydra.mode == RunMode.MULTIRUN:
        return max(_run_sweep(sweep, run_jobs), sweep.print_report())
    finished.show()
    return print_resume_hint() if finished.interrupted else finished.exit_code


def compose_first_job(config: str, overrides: Sequence[str], multirun: bool) -> tuple[DictConfig, list[Override]]:
    """The configuration of a single request, or of a sweep's first job, with Hydra's own under ``hydra``.

    Each setting that varies has the first of its values. Whether it is a sweep is ``hydra.mode`` then, which a yaml may
    set too. The overrides come parsed with it. Raises ``RequestError`` for several values that are no sweep.
    """
    given = parse_overrides(overrides)
    check_group_choices(config, given)
    cfg = compose(config, overrides=keep_first_values(given), return_hydra_config=True)
    mode = cfg.hydra.mode
    if multirun and mode == RunMode.RUN:
        raise RequestError("hydra.mode=RUN contradicts a sweep: leave it out, or use the command without -m")
    if not multirun and mode != RunMode.MULTIRUN:
        for override in given:
            if override.is_sweep_override():
                typed = str(override.input_line)
                text = f"; {format_quoting_advice(typed, in_shell=True)}" if " " in typed or "/" in typed else ""
                raise RequestError(f"{typed}: several values are a sweep, qarena sweep … or -m{text}")
        cfg.hydra.mode = RunMode.RUN
        return cfg, given
    if params := cfg.hydra.sweeper.get("params"):
        given = [*parse_overrides(f"{key}={value}" for key, value in params.items()), *given]
        cfg = compose(config, overrides=keep_first_values(given), return_hydra_config=True)
    cfg.hydra.mode = RunMode.MULTIRUN
    return cfg, given


def _run_single_request(prepared_request: PreparedRequest, cfg: DictConfig) -> CommandOutcome:
    """Carry out a request that is ready as a job of Hydra, with its folder and log. Raises what the work raised.

    ``hydra.main`` would compose the configuration twice more: half a second on a slow machine.
    """
    outcome: list[CommandOutcome | Exception] = []

    def task(_cfg: DictConfig) -> None:
        try:
            with enter_launch_folder():
                outcome.append(prepared_request())
        except Exception as error:  # noqa: BLE001  (to one that leaves a task Hydra adds lines of its own)
            outcome.append(error)

    callbacks: Any = Callbacks(cfg)  # Hydra has no public name for the list of them
    about = {"config": cfg, "config_name": cfg.hydra.job.config_name}
    callbacks.notify("on_run_start", **about)
    hydra_context = HydraContext(GlobalHydra.instance().config_loader(), callbacks)
    done = run_job(task, cfg, "hydra.run.dir", job_subdir_key=None, hydra_context=hydra_context)
    callbacks.notify("on_run_end", **about, job_return=done)
    (found,) = outcome
    if isinstance(found, Exception):
        raise found
    return found


def execute_sweep(application: Application, arguments: CommandArguments, command: str) -> tuple[Sweep, int]:
    """Carry out the jobs of a sweep that a program asks for. Return it, and an exit code: 0 if all jobs were begun.

    ``command`` is the command line that does the same, without the program; the records of runs name it. Raises what
    Hydra raises, and ``RequestError``, if that was before the first job.
    """
    _set_environment(command)
    with initialize_config_dir(str(CONF_FOLDER), version_base="1.3"):
        first, given = compose_first_job(application.config_name, arguments.overrides, multirun=True)
        sweep, run_jobs = _prepare_sweep(application, arguments, first, given)
    return sweep, _run_sweep(sweep, run_jobs)


def _prepare_sweep(
    application: Application, arguments: CommandArguments, first: DictConfig, given: Sequence[Override]
) -> tuple[Sweep, Callable[[], None]]:
    """Check all jobs of a sweep; return the sweep, and what carries out its jobs outside of Hydra's context."""
    from runners.config.sweep import Sweep, run_sweep_job  # a single request needs none of it

    for cfg in [first, *compose_other_configs(application.config_name, first, given)]:
        application.check_sweep_job(cfg, cfg.hydra)
    sweep = Sweep.from_request(first, arguments, application.build_sweep_target(first, first.hydra), application)
    task = partial(run_sweep_job, application)

    def run_jobs() -> None:
        if not runs_jobs_locally(first):
            _run_hydra(application.config_name, ["--multirun", *sweep.overrides], task)
            return
        with initialize_config_dir(str(CONF_FOLDER), version_base="1.3"):
            run_local_jobs(application.config_name, sweep.overrides, task)

    return sweep, run_jobs


def _run_sweep(sweep: Sweep, run_jobs: Callable[[], None]) -> int:
    """Carry out the jobs of a sweep. Returns an exit code, if the jobs do not tell another one; raises as above."""
    try:
        run_jobs()
    except KeyboardInterrupt:
        return print_resume_hint(DROPPED_GAMES_NOTE)
    except SystemExit as left:  # of a job that was interrupted
        return left.code if isinstance(left.code, int) else exit_code()
    except Exception as error:
        if not sweep.load_ended_jobs():  # else jobs failed, and the report names each of them
            sweep.remove_folders()
            if sweep.study_target and not isinstance(error, HydraException):  # of whatever database or sampler it is
                reason = " ".join(str(error).split()).partition(" (Background on")[0]
                raise RequestError(f"hydra/sweeper=optuna cannot begin: {reason}") from error
            raise
        if isinstance(error, HydraException):
            console.print_note(f"the sweep ended before its last job: {format_config_error(error, sweep.overrides)}")
            return 1
    return 0


def _run_hydra(config_name: str, arguments: Sequence[str], task: Callable[[DictConfig], Any]) -> None:
    """Let Hydra do a task with these arguments, which it reads from ``sys.argv``."""
    before, sys.argv = sys.argv, ["qarena", *arguments]
    try:
        # A path: as a package, a folder named conf in ``sys.path`` could hide it.
        hydra.main(version_base="1.3", config_path=str(CONF_FOLDER), config_name=config_name)(task)()
    finally:
        sys.argv = before
        HydraConfig.instance().cfg = None  # its folders are not those of a later launch in this process
