"""Hydra as an application: what `qarena run` and `qarena sweep` start, and how Hydra's errors become one line.

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
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import hydra
from hydra.conf import HydraConf
from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException, MissingConfigException, OverrideParseException
from hydra.experimental.callback import Callback
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from quarto.errors import ArenaError, FailureError, RequestError, nearest
from runners import display, sweep
from runners.config import CONF, ArchiveConfig, Request, RunConfig, agent_settings, request_of
from runners.experiment import Experiment, Outcome, carry_out, interruptible, prepare
from runners.spec import NOT_PARAMETERS

EXTRAS = {("hydra/launcher", "joblib"): "joblib"}  # options of Hydra's groups that a package brings, by our extra
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


class Checks(Callback):
    """Refuses a wrong request before Hydra has made any folder, and remembers where a sweep's jobs put theirs."""

    prepared: Experiment | None = None  # what was checked, so that agents are not made twice

    def on_run_start(self, config: DictConfig, **_kwargs: Any) -> None:
        try:
            Checks.prepared = prepare(_request(config, config.hydra))
        except Exception as error:
            raise Refused(error) from error

    def on_multirun_start(self, config: DictConfig, **_kwargs: Any) -> None:
        sweep.begin(Path(config.hydra.sweep.dir))


def launch(arguments: Sequence[str], typed: Sequence[str], multirun: bool = False) -> int:
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
        arguments = ["--multirun", *arguments, *([] if given else [f"sweep.id={_sweep_id(arguments)}"])]
    with _argv([f"qarena {typed[0]}", *arguments]), _explained(arguments):
        try:
            _start(_sweep_task if multirun else _run_task)
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


def _start(task: Callable[[DictConfig], float | None]) -> None:
    """Let Hydra run ``task``. By path, since a folder named ``conf`` on the import path would hide the package."""
    hydra.main(version_base="1.3", config_path=str(CONF), config_name="run")(task)()


def _run_task(cfg: DictConfig) -> float | None:
    """One experiment, with its table. Returns the first pairing's score, for sweepers that optimise."""
    try:
        outcome = _execute(cfg, Checks.prepared)
    except ArenaError as error:
        raise Refused(error) from error  # as an exception it would pass through Hydra, which adds lines of its own
    display.show_outcome(outcome)
    if outcome.interrupted:
        sys.exit(_say_how_to_resume())
    return _objective(outcome)


def _sweep_task(cfg: DictConfig) -> float | None:
    """One job of a sweep: its result is kept for the table at the end."""
    job = sweep.job_of(cfg, HydraConfig.get())
    try:
        outcome = _execute(cfg)
    except Exception as error:
        sweep.failed(job, error)
        raise
    except KeyboardInterrupt:
        sweep.interrupted(job, None)
        raise
    if outcome.interrupted:
        sweep.interrupted(job, outcome)
    else:
        sweep.completed(job, outcome)
    if outcome.stopped:
        sys.exit(_say_how_to_resume())
    return _objective(outcome)


def _execute(cfg: DictConfig, prepared: Experiment | None = None) -> Outcome:
    experiment = prepared or prepare(_request(cfg, HydraConfig.get()))
    for note in experiment.request.notes:
        display.say(note)
    with interruptible() as stop, display.progress(experiment.request.progress) as progress:
        return carry_out(experiment, f"qarena {os.environ[COMMAND]}", stop, progress)


def _request(cfg: DictConfig, hydra_cfg: HydraConf | DictConfig) -> Request:
    return request_of(cfg, hydra_cfg.runtime.choices, hydra_cfg.overrides.task)


def _objective(outcome: Outcome) -> float | None:
    return outcome.results[0].score.mean if outcome.results else None


def _say_how_to_resume() -> int:
    display.say(
        f"interrupted; everything played is in the archive. To go on:\n  {display.program()} {os.environ[COMMAND]}"
    )
    return INTERRUPTED


def _sweep_id(arguments: Sequence[str]) -> str:
    """The same for the same sweep, whatever the order of its overrides and wherever folders and archive are."""
    kept = sorted(a for a in arguments if not re.match(r"\+*(hydra[./]|archive\.|threads=|progress=)", a))
    return hashlib.sha256("\n".join(kept).encode()).hexdigest()[:12]


@contextmanager
def _argv(arguments: list[str]) -> Iterator[None]:
    """``sys.argv``, which is where Hydra reads its arguments, for the time being."""
    before, sys.argv = sys.argv, arguments
    try:
        yield
    finally:
        sys.argv = before


@contextmanager
def _explained(arguments: Sequence[str]) -> Iterator[None]:
    """Hydra's and OmegaConf's errors as ``RequestError`` in one line, with the nearest valid name."""
    try:
        yield
    except (HydraException, OmegaConfBaseException) as error:
        raise RequestError(_one_line(error, arguments)) from error
    except OSError as error:
        if error.filename is None:
            raise
        raise FailureError(f"cannot write {error.filename}: {error.strerror}") from error
    except Exception as error:
        if not _raised_in_reading(error):
            raise
        raise RequestError(" ".join(str(error).split())) from error


def _one_line(error: BaseException, arguments: Sequence[str]) -> str:
    """The message of a configuration error, and what was probably meant."""
    causes = [error]
    while (cause := causes[-1].__cause__ or causes[-1].__context__) is not None and cause not in causes:
        causes.append(cause)
    text = " ".join(" ".join(str(each).split()) for each in causes)
    if isinstance(error, MissingConfigException) and error.missing_cfg_file:
        group, _, name = error.missing_cfg_file.removesuffix(".yaml").rpartition("/")
        if (group, name) in EXTRAS:
            extra = EXTRAS[group, name]
            return f"{group}={name} needs an extra: pip install 'quarto-arena[{extra}]', in a clone -e '.[{extra}]'"
        return f"{group or 'config'} {name!r} does not exist{nearest(name, error.options or ())}"
    if unknown := re.search(r"Could not override '([^']+)'", text):
        return f"key {unknown[1]!r} does not exist{nearest(unknown[1], _keys(unknown[1], arguments))}"
    if setting := re.fullmatch(r"Error merging override (.*)", str(error)):
        return f"{setting[1]}: {_reason(setting[1], text)}"
    if chosen := re.search(r"hydra\.runtime\.choices\.(\S+)", text):
        return f"{chosen[1]} takes one name, {chosen[1]}=NAME: 'qarena run --help' lists them"
    if "Config group override must be a string" in text:
        return "a group takes one name, as in rules=classic or agent@a=random: 'qarena run --help' lists them"
    if isinstance(error, OverrideParseException):
        return f"{error.override!r} cannot be read: {_advice(error.override, ' '.join(str(error).split()))}"
    return " ".join(str(error).split()).split(" See https")[0]


def _reason(setting: str, text: str) -> str:
    """Why a value does not fit its key, from what OmegaConf says."""
    key, _, value = setting.lstrip("+").partition("=")
    if kind := re.search(r"(?:could not be converted to|is not a valid) (\w+)", text):
        return f"{value!r} is not {_KINDS.get(kind[1], kind[1])}"
    if "ListConfig" in text:
        return f"{value!r} is not a list, {key}=[…,…]"
    if "not Optional" in text:
        return "it must have a value"
    return text.partition(" full_key")[0].removeprefix(f"Error merging override {setting} ")


_KINDS = {"Integer": "a whole number", "Float": "a number", "bool": "true or false"}


def _advice(override: str, text: str) -> str:
    """What to do about an override that Hydra's grammar rejects."""
    if function := re.search(r"Unknown function '([^']+)'", text):
        return f"""write {function[1]}(…) in quotes of its own: agents='[random,"{function[1]}(parameter=value)"]'"""
    if "=" not in override:
        return "it is not key=value"
    if "=~" in override:
        return "the shell does not expand '~' there; write $HOME"
    return text.partition(" See https")[0] + "; quote brackets and spaces for the shell"


def _raised_in_reading(error: BaseException) -> bool:
    """Whether Hydra or YAML raised it themselves, for arguments or files that they do not understand."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace is not None and str(trace.tb_frame.f_globals.get("__name__")).startswith(("hydra.", "yaml."))


def _own_settings(agent: str, arguments: Sequence[str]) -> list[str]:
    """The keys of an agent in a ``--config-dir``, which Hydra has closed by the time that its error is explained."""
    for flag, value in pairwise([*chain(*(argument.split("=", 1) for argument in arguments))]):
        path = Path(value) / f"agent/{agent}.yaml"
        if flag in ("--config-dir", "-cd") and path.is_file():
            return [str(key) for key in OmegaConf.load(path)]
    return []


def _keys(unknown: str, arguments: Sequence[str]) -> list[str]:
    """What could have been meant by an unknown key: the keys of an agent, or what can be set or chosen."""
    seat, _, _ = unknown.partition(".")
    if seat in ("a", "b"):
        chosen = [argument.partition("=")[2] for argument in arguments if argument.startswith(f"agent@{seat}=")]
        agent = chosen[-1] if chosen else {"a": "rule_based", "b": "random"}[seat]
        settings = _own_settings(agent, arguments) or agent_settings(agent)
        return [f"{seat}.name", *(f"{seat}.{key}" for key in settings if key not in NOT_PARAMETERS)]
    keys = [each.name for each in fields(RunConfig)] + [f"archive.{each.name}" for each in fields(ArchiveConfig)]
    return [key for key in keys if key not in ("a", "b", "sweep", "archive")] + ["agent@a", "agent@b", "experiment"]
