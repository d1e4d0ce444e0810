"""Hydra applications: the parts that all of them share, and `qarena run` and `qarena sweep`.

The task functions live here, at module level, because launchers that use other processes import them by name. What
plays is imported when something is to be played: Hydra answers ``--help`` and refuses most wrong requests before that.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import logging
import os
import re
import shlex
import sys
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import hydra
from hydra.conf import HydraConf
from hydra.core.hydra_config import HydraConfig
from hydra.experimental.callback import Callback
from omegaconf import DictConfig

from quarto.errors import ArenaError
from runners.arena.config_groups import CONF, NOT_PARAMETERS, settings_of
from runners.arena.schemas import RunConfig, check_values
from runners.arena.storage import ArchiveConfig
from runners.hydra_app import sweep_folders
from runners.hydra_app.error_messages import Keys, explained, own_settings
from runners.terminal import console
from runners.terminal.progress import progress_bar

if TYPE_CHECKING:
    from runners.arena.config import Request
    from runners.arena.experiment import Experiment

INTERRUPTED = 130  # the shell's convention: 128 + SIGINT

# Environment variables, so that processes that a launcher starts have them too: the command as it was typed, and the
# name of this launch's output folders, which must differ between two launches in the same second.
COMMAND, LAUNCH = "QARENA_COMMAND", "QARENA_LAUNCH"


class OneLine(logging.Formatter):
    """Formats log records without tracebacks, which are in the job's log file."""

    def format(self, record: logging.LogRecord) -> str:
        return f"{record.levelname.lower()}: {record.getMessage()}"


class Refused(SystemExit):
    """Carries an error out of Hydra, which turns exceptions of callbacks into warnings and adds lines to others."""

    def __init__(self, error: Exception) -> None:
        super().__init__(1)
        self.error = error


class EarlyChecks(Callback):
    """Refuses a wrong request before Hydra creates any folder, and remembers the folder of a sweep's jobs."""

    def check(self, config: DictConfig) -> None:
        """Raises ``ArenaError`` for a request that cannot be carried out."""
        raise NotImplementedError

    def on_run_start(self, config: DictConfig, **_kwargs: Any) -> None:
        try:
            self.check(config)
        except Exception as error:
            raise Refused(error) from error

    def on_multirun_start(self, config: DictConfig, **_kwargs: Any) -> None:
        sweep_folders.begin(Path(config.hydra.sweep.dir))


class Checks(EarlyChecks):
    """Checks of experiments."""

    prepared: Experiment | None = None  # kept from the check, so that the agents are made once

    def check(self, config: DictConfig) -> None:
        check_values(config, RunConfig)
        from runners.arena.experiment import prepare

        Checks.prepared = prepare(_request(config, config.hydra))


class Finished(NamedTuple):
    """The outcome of a task."""

    run_id: str | None
    interrupted: bool  # it is not complete
    stopped: bool  # because the user asked to
    score: float | None  # for sweepers that optimise
    show: Callable[[], None]
    row: Mapping[str, str] | None = None  # in a sweep's table; None: the pairings of the run are shown


Task = Callable[[DictConfig], float | None]


class Application(NamedTuple):
    """A command that Hydra runs."""

    config: str  # the yaml in conf/
    alone: Task  # of a single run
    job: Task  # of each job of a multirun
    keys: Keys  # to suggest for an unknown key
    words: int = 1  # of the command's name


def launch(application: Application, arguments: Sequence[str], typed: Sequence[str], multirun: bool = False) -> int:
    """Run an application with ``arguments`` for Hydra, flags first. Returns the exit code.

    ``typed`` is the command as the user typed it, without the program's name. Raises ``ArenaError`` with a message of
    one line for any error.
    """
    now = dt.datetime.now(dt.UTC).astimezone()
    os.environ.setdefault("HYDRA_FULL_ERROR", "1")  # Hydra raises instead of printing and leaving
    os.environ[COMMAND] = shlex.join(typed)
    os.environ[LAUNCH] = f"{now:%Y-%m-%d}/{now:%H-%M-%S}-{uuid.uuid4().hex[:6]}"
    sweep_folders.forget()
    if multirun:
        given = any(argument.startswith("sweep.id=") for argument in arguments)
        own = [f"sweep.id={_sweep_id(arguments, application.config)}"]
        arguments = ["--multirun", *arguments, *([] if given else own)]
    command = " ".join(typed[: application.words])
    with _argv([f"qarena {command}", *arguments]), explained(command, arguments, application.keys):
        try:
            _start(application.config, application.job if multirun else application.alone)
        except Refused as refused:
            raise refused.error from None
        except KeyboardInterrupt:
            _say_how_to_resume()
            return max(INTERRUPTED, _report())
        except SystemExit:
            _report()
            raise
        except Exception:
            if not sweep_folders.records():  # else jobs failed, and the report below names each of them
                sweep_folders.withdraw()
                raise
    return _report()


def _report() -> int:
    """Report on the sweep that this process started, if there is one; returns the exit code."""
    if not sweep_folders.folders:
        return 0
    from runners.hydra_app.sweep import report

    return report()


def _start(config: str, task: Task) -> None:
    """Let Hydra run ``task``. ``conf`` is a path: as a package, a folder of that name in ``sys.path`` could hide it."""
    hydra.main(version_base="1.3", config_path=str(CONF), config_name=config)(task)()


def finish_alone(execute: Callable[[], Finished]) -> float | None:
    """Carry out a single run and show its outcome; returns the score, for sweepers that optimise."""
    try:
        finished = execute()
    except ArenaError as error:
        raise Refused(error) from error  # to any other exception Hydra adds lines of its own
    finished.show()
    if finished.interrupted:
        sys.exit(_say_how_to_resume())
    return finished.score


def finish_job(cfg: DictConfig, games: int, execute: Callable[[], Finished]) -> float | None:
    """Carry out a job of a sweep and keep its outcome for the table at the end; returns the score."""
    from runners.hydra_app import sweep

    job = sweep.job_of(cfg, HydraConfig.get(), games)
    try:
        finished = execute()
    except Exception as error:
        sweep.failed(job, error)
        raise
    except KeyboardInterrupt:
        sweep.interrupted(job, None)
        raise
    if finished.interrupted:
        sweep.interrupted(job, finished.run_id)
    else:
        sweep.completed(job, finished.run_id, finished.row)
    if finished.stopped:
        sys.exit(_say_how_to_resume())
    return finished.score


def _run_task(cfg: DictConfig) -> float | None:
    return finish_alone(lambda: _execute(cfg, Checks.prepared))


def _sweep_task(cfg: DictConfig) -> float | None:
    return finish_job(cfg, cfg.games, lambda: _execute(cfg))


def _execute(cfg: DictConfig, prepared: Experiment | None = None) -> Finished:
    from runners.arena.experiment import carry_out, interruptible, prepare

    experiment = prepared or prepare(_request(cfg, HydraConfig.get()))
    for note in experiment.request.notes:
        console.print_note(note)
    with interruptible() as stop, progress_bar("playing", "games", experiment.request.progress) as progress:
        outcome = carry_out(experiment, typed_command(), stop, progress)
    score = outcome.results[0].score.mean if outcome.results else None
    return Finished(outcome.run_id, outcome.interrupted, outcome.stopped, score, lambda: console.show_outcome(outcome))


def typed_command() -> str:
    """The command as it was typed."""
    return f"qarena {os.environ[COMMAND]}"


def _request(cfg: DictConfig, hydra_cfg: HydraConf | DictConfig) -> Request:
    from runners.arena.config import request_of

    return request_of(cfg, hydra_cfg.runtime.choices, hydra_cfg.overrides.task)


def _say_how_to_resume() -> int:
    console.print_note(
        f"interrupted; everything played is in the archive. To go on:\n  {console.program()} {os.environ[COMMAND]}"
    )
    return INTERRUPTED


def _sweep_id(arguments: Sequence[str], config: str = "run") -> str:
    """The id of a sweep. It does not depend on the order of overrides, nor on folders, archive, threads or progress."""
    kept = sorted(a for a in arguments if not re.match(r"\+*(hydra[./]|archive[.=]|threads=|progress=)", a))
    return hashlib.sha256("\n".join([*kept, *([] if config == "run" else [config])]).encode()).hexdigest()[:12]


@contextmanager
def _argv(arguments: list[str]) -> Iterator[None]:
    """Replace ``sys.argv``, from which Hydra reads its arguments, inside the context."""
    before, sys.argv = sys.argv, arguments
    try:
        yield
    finally:
        sys.argv = before


def _keys(unknown: str, arguments: Sequence[str]) -> list[str]:
    """The keys that the user may have meant by an unknown one: those of an agent, or those of the configuration."""
    seat, _, _ = unknown.partition(".")
    if seat in ("a", "b"):
        chosen = [argument.partition("=")[2] for argument in arguments if argument.startswith(f"agent@{seat}=")]
        agent = chosen[-1] if chosen else {"a": "rule_based", "b": "random"}[seat]
        settings = own_settings("agent", agent, arguments) or settings_of("agent", agent)
        return [f"{seat}.name", *(f"{seat}.{key}" for key in settings if key not in NOT_PARAMETERS)]
    keys = [each.name for each in fields(RunConfig)] + [f"archive.{each.name}" for each in fields(ArchiveConfig)]
    return [key for key in keys if key not in ("a", "b", "sweep", "archive")] + ["agent@a", "agent@b", "experiment"]


RUN = Application("run", _run_task, _sweep_task, _keys)
