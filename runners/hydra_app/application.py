"""Hydra as an application: what `qarena run`, `qarena sweep` and `qarena train` have in common, and the first two.

The task functions live here, at module level, because launchers that use other processes import them by name.
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
from typing import Any, NamedTuple

import hydra
from hydra.conf import HydraConf
from hydra.core.hydra_config import HydraConfig
from hydra.experimental.callback import Callback
from omegaconf import DictConfig

from quarto.errors import ArenaError
from runners.arena.config import ArchiveConfig, Request, RunConfig, agent_settings, request_of
from runners.arena.config_groups import CONF
from runners.arena.experiment import Experiment, carry_out, interruptible, prepare
from runners.arena.spec import NOT_PARAMETERS
from runners.hydra_app import sweep
from runners.hydra_app.error_messages import Keys, explained, own_settings
from runners.terminal import console

INTERRUPTED = 130  # the shell's convention: 128 + SIGINT

# Environment variables, for processes that a launcher starts: the command as it was typed, and a name for the folders
# of this launch. Two in the same second must not share one.
COMMAND, LAUNCH = "QARENA_COMMAND", "QARENA_LAUNCH"


class OneLine(logging.Formatter):
    """Log records without their tracebacks: those are in the job's file."""

    def format(self, record: logging.LogRecord) -> str:
        return f"{record.levelname.lower()}: {record.getMessage()}"


class Refused(SystemExit):
    """Leaves Hydra at once: it turns a callback's exceptions into warnings, and adds to what a job raises."""

    def __init__(self, error: Exception) -> None:
        super().__init__(1)
        self.error = error


class EarlyChecks(Callback):
    """Refuses a wrong request before Hydra has made any folder, and remembers where a sweep's jobs put theirs."""

    def check(self, config: DictConfig) -> None:
        """Raises ``ArenaError`` for a request that cannot be met."""
        raise NotImplementedError

    def on_run_start(self, config: DictConfig, **_kwargs: Any) -> None:
        try:
            self.check(config)
        except Exception as error:
            raise Refused(error) from error

    def on_multirun_start(self, config: DictConfig, **_kwargs: Any) -> None:
        sweep.begin(Path(config.hydra.sweep.dir))


class Checks(EarlyChecks):
    """Those of experiments."""

    prepared: Experiment | None = None  # what was checked, so that agents are not made twice

    def check(self, config: DictConfig) -> None:
        Checks.prepared = prepare(_request(config, config.hydra))


class Finished(NamedTuple):
    """What one task came to, whatever it was."""

    run_id: str | None
    interrupted: bool  # something is missing
    stopped: bool  # somebody asked to stop
    score: float | None  # for sweepers that optimise
    show: Callable[[], None]
    row: Mapping[str, str] | None = None  # of a sweep's table, where that does not show the pairings of runs


Task = Callable[[DictConfig], float | None]


class Application(NamedTuple):
    """A command that Hydra runs."""

    config: str  # of conf/
    alone: Task
    job: Task  # of a multirun
    keys: Keys  # which could have been meant by an unknown one
    words: int = 1  # of the command's name


def launch(application: Application, arguments: Sequence[str], typed: Sequence[str], multirun: bool = False) -> int:
    """Hand ``arguments`` (flags first) to Hydra; ``typed`` came after the program's name. Returns the exit code.

    Raises ``ArenaError`` with one line for whatever went wrong.
    """
    now = dt.datetime.now(dt.UTC).astimezone()
    os.environ.setdefault("HYDRA_FULL_ERROR", "1")  # Hydra raises instead of printing and leaving
    os.environ[COMMAND] = shlex.join(typed)
    os.environ[LAUNCH] = f"{now:%Y-%m-%d}/{now:%H-%M-%S}-{uuid.uuid4().hex[:6]}"
    sweep.forget()
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
            return max(INTERRUPTED, sweep.report())
        except SystemExit:
            if sweep.folders:
                sweep.report()
            raise
        except Exception:
            if not sweep.finished():  # else: jobs failed, each is told of below
                sweep.withdraw()
                raise
    return sweep.report() if sweep.folders else 0


def _start(config: str, task: Task) -> None:
    """Let Hydra run ``task``. By path, since a folder named ``conf`` on the import path would hide the package."""
    hydra.main(version_base="1.3", config_path=str(CONF), config_name=config)(task)()


def finish_alone(execute: Callable[[], Finished]) -> float | None:
    """Do what a command asks for and show what it came to; its score, for sweepers that optimise."""
    try:
        finished = execute()
    except ArenaError as error:
        raise Refused(error) from error  # as an exception it would pass through Hydra, which adds lines of its own
    finished.show()
    if finished.interrupted:
        sys.exit(_say_how_to_resume())
    return finished.score


def finish_job(cfg: DictConfig, games: int, execute: Callable[[], Finished]) -> float | None:
    """Do one job of a sweep and keep what it came to for the table at the end."""
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
    experiment = prepared or prepare(_request(cfg, HydraConfig.get()))
    for note in experiment.request.notes:
        console.say(note)
    with interruptible() as stop, console.progress(experiment.request.progress) as progress:
        outcome = carry_out(experiment, typed_command(), stop, progress)
    score = outcome.results[0].score.mean if outcome.results else None
    return Finished(outcome.run_id, outcome.interrupted, outcome.stopped, score, lambda: console.show_outcome(outcome))


def typed_command() -> str:
    """The command as it was typed."""
    return f"qarena {os.environ[COMMAND]}"


def _request(cfg: DictConfig, hydra_cfg: HydraConf | DictConfig) -> Request:
    return request_of(cfg, hydra_cfg.runtime.choices, hydra_cfg.overrides.task)


def _say_how_to_resume() -> int:
    console.say(
        f"interrupted; everything played is in the archive. To go on:\n  {console.program()} {os.environ[COMMAND]}"
    )
    return INTERRUPTED


def _sweep_id(arguments: Sequence[str], config: str = "run") -> str:
    """The same for the same sweep, whatever the order of its overrides and wherever folders and archive are."""
    kept = sorted(a for a in arguments if not re.match(r"\+*(hydra[./]|archive\.|threads=|progress=)", a))
    return hashlib.sha256("\n".join([*kept, *([] if config == "run" else [config])]).encode()).hexdigest()[:12]


@contextmanager
def _argv(arguments: list[str]) -> Iterator[None]:
    """``sys.argv``, which is where Hydra reads its arguments, for the time being."""
    before, sys.argv = sys.argv, arguments
    try:
        yield
    finally:
        sys.argv = before


def _keys(unknown: str, arguments: Sequence[str]) -> list[str]:
    """What could have been meant by an unknown key: the keys of an agent, or what can be set or chosen."""
    seat, _, _ = unknown.partition(".")
    if seat in ("a", "b"):
        chosen = [argument.partition("=")[2] for argument in arguments if argument.startswith(f"agent@{seat}=")]
        agent = chosen[-1] if chosen else {"a": "rule_based", "b": "random"}[seat]
        settings = own_settings("agent", agent, arguments) or agent_settings(agent)
        return [f"{seat}.name", *(f"{seat}.{key}" for key in settings if key not in NOT_PARAMETERS)]
    keys = [each.name for each in fields(RunConfig)] + [f"archive.{each.name}" for each in fields(ArchiveConfig)]
    return [key for key in keys if key not in ("a", "b", "sweep", "archive")] + ["agent@a", "agent@b", "experiment"]


RUN = Application("run", _run_task, _sweep_task, _keys)
