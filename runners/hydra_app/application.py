"""Commands that Hydra carries out: ``Application``, which each of them is, and ``launch``, which starts one.

What plays or learns is imported when something is to be done: Hydra answers ``--help`` and refuses most wrong requests
before that.
"""

from __future__ import annotations

import copy
import datetime as dt
import logging
import os
import sys
import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

import hydra
from hydra.conf import HydraConf
from hydra.core.hydra_config import HydraConfig
from hydra.experimental.callback import Callback
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf

from analytics.files.location import location_of
from quarto.errors import ArenaError
from runners.arena.config_groups import CONF, NOT_PARAMETERS, flat, names, plain, settings_of
from runners.arena.storage import where_typed
from runners.hosting.interruption import INTERRUPTED
from runners.hosting.agent_limits import LIMITS
from runners.hydra_app import sweep_folders, sweep_start
from runners.hydra_app.config_dir import find_own_modules, folders_of, own_modules, places_in, searched
from runners.hydra_app.error_messages import explained, own_settings
from runners.hydra_app.finished import Finished
from runners.hydra_app.flags import config_dirs, flags_first, in_full
from runners.hydra_app.mode import check_mode
from runners.hydra_app.shortcuts import composed_once, sources_shared
from runners.hydra_app.study import Target
from runners.terminal import console

# An environment variable, so that processes that a launcher starts have it too: the command as it was typed.
COMMAND = "QARENA_COMMAND"
FOLDERS = ("QARENA_CACHE", "QARENA_TABLEBASE")  # environment variables too: Hydra may change the current folder

Prepared = TypeVar("Prepared")


class OneLine(logging.Formatter):
    """Formats log records without tracebacks, which are in the job's log file."""

    def format(self, record: logging.LogRecord) -> str:
        return f"{record.levelname.lower()}: {record.getMessage()}"


class JobLines(logging.Filter):
    """Lets the messages of Hydra pass, the lines with which launchers name their jobs, and warnings."""

    def filter(self, record: logging.LogRecord) -> bool:
        own = record.name.startswith("hydra.") or record.getMessage().startswith("\t#")
        return own or record.levelno >= logging.WARNING


class Application(ABC, Generic[Prepared]):
    """A command that Hydra carries out: what it checks, what it does, and which keys it has.

    It has no state: launchers that use other processes pickle it with its task.
    """

    config: ClassVar[str]  # the yaml in conf/
    schema: ClassVar[type[Any]]  # the dataclass of its keys
    groups: ClassVar[Sequence[tuple[str, str]]]  # whose options have keys of their own, and the option of the yaml
    choices: ClassVar[Sequence[str]] = ("experiment",)  # the other groups
    judged_by: ClassVar[Target | None] = None  # the value that its jobs return

    @abstractmethod
    def prepare(self, cfg: DictConfig, hydra_cfg: HydraConf | DictConfig) -> Prepared:
        """Check a composed configuration and get ready. Raises ``ArenaError`` if it cannot be carried out."""

    @abstractmethod
    def execute(self, prepared: Prepared) -> Finished:
        """Carry out what is prepared."""

    def games(self, cfg: DictConfig) -> int:
        """The games that a job of a sweep asks for, of each pairing."""
        return int(cfg.get("games", 0))

    def target(self, cfg: DictConfig, hydra_cfg: HydraConf | DictConfig) -> Target | None:  # noqa: ARG002
        """The value that jobs return, given the configuration of the first; None: they return none.

        Raises ``RequestError`` if that cannot be the value of any job.
        """
        return self.judged_by

    def task(self, cfg: DictConfig) -> float | None:
        """Hydra's task: a job of a sweep or a single request. Returns the value for sweepers that optimise."""
        return self.job(cfg) if HydraConfig.get().mode == RunMode.MULTIRUN else self.single(cfg)

    def single(self, cfg: DictConfig) -> float | None:
        """Carry out a single request and show its outcome."""
        try:
            finished = self.execute(EarlyChecks.prepared or self.ready(cfg, HydraConfig.get()))
        except ArenaError as error:
            raise Refused(error) from error  # to any other exception Hydra adds lines of its own
        finished.show()
        if finished.interrupted:
            sys.exit(_say_how_to_resume())
        if finished.exit_code:
            sys.exit(finished.exit_code)
        return finished.value and finished.value.number

    def job(self, cfg: DictConfig) -> float | None:
        """Carry out a sweep's job and keep its outcome for the table at the end."""
        from runners.hydra_app import sweep

        hydra_cfg = HydraConfig.get()
        job = sweep.job_of(with_fixed_paths(cfg, hydra_cfg), hydra_cfg, self.games(cfg))
        try:
            finished = self.execute(self.ready(cfg, hydra_cfg))
        except Exception as error:
            sweep.failed(job, error)
            raise
        except KeyboardInterrupt:
            sweep.interrupted(job, None)
            raise
        if finished.interrupted:
            sweep.interrupted(job, finished.run_id)
        else:
            sweep.completed(job, finished)
        if finished.stopped:
            sys.exit(_say_how_to_resume())
        return finished.value and finished.value.number

    def ready(self, cfg: DictConfig, hydra_cfg: HydraConf | DictConfig) -> Prepared:
        """``prepare``, with paths as they were meant."""
        find_own_modules()  # this may be a process that a launcher started
        fixed = with_fixed_paths(cfg, hydra_cfg)
        with where_typed():
            return self.prepare(fixed, hydra_cfg)

    def keys(self, unknown: str, arguments: Sequence[str]) -> list[str]:
        """The keys that the user may have meant by an unknown one: those of its option, or all."""
        own = {_node(override): _own_keys(override, option, arguments) for override, option in self.groups}
        if (node := unknown.partition(".")[0]) in own:
            return own[node]
        shared = [key for key, _ in flat(plain(OmegaConf.structured(self.schema))) if key not in own]
        return [*shared, *(override for override, _ in self.groups), *self.choices, *chain(*own.values())]


def with_fixed_paths(cfg: DictConfig, hydra_cfg: HydraConf | DictConfig) -> DictConfig:
    """The configuration, its archive named by an absolute path if the task runs in another folder than was typed in."""
    if not hydra_cfg.job.chdir and Path(hydra_cfg.runtime.cwd) == Path.cwd():
        return cfg  # a path is shown as it was typed
    root = location_of(cfg.archive.root)
    if isinstance(root, Path):
        root = Path(hydra_cfg.runtime.cwd) / root
    fixed = copy.copy(cfg)
    OmegaConf.update(fixed, "archive.root", str(root), force_add=True)
    return fixed


def _node(override: str) -> str:
    """The key that a choice such as ``agent@a=random`` sets."""
    return override.rpartition("@")[2]


def _own_keys(override: str, option: str, arguments: Sequence[str]) -> list[str]:
    """The keys of the option that is chosen by ``override``, which is ``option`` if ``arguments`` choose none."""
    group, _, at = override.partition("@")
    chosen = [argument.partition("=")[2] for argument in arguments if argument.startswith(f"{override}=")]
    name = chosen[-1] if chosen else option
    keys = own_settings(group, name, arguments)
    if not keys and name in names(group):
        keys = [key for key, _ in flat(settings_of(group, name))]
    kept = [key for key in keys if key.rpartition(".")[2] not in NOT_PARAMETERS]
    return [f"{_node(override)}.{key}" for key in (["name", *LIMITS, *kept] if at else kept)]


class Refused(SystemExit):
    """Carries an error out of Hydra, which turns exceptions of callbacks into warnings and adds lines to others."""

    def __init__(self, error: Exception) -> None:
        super().__init__(1)
        self.error = error


class EarlyChecks(Callback):
    """Refuses a wrong request before Hydra creates any folder, and begins sweeps."""

    application: ClassVar[Application[Any]]  # that ``launch`` started; on the class, since Hydra makes the object
    prepared: ClassVar[Any] = None  # by the check of a single request, so that its work is done once

    def on_run_start(self, config: DictConfig, **_kwargs: Any) -> None:
        try:
            EarlyChecks.prepared = EarlyChecks.application.ready(config, config.hydra)
        except Exception as error:
            raise Refused(error) from error

    def on_multirun_start(self, config: DictConfig, **_kwargs: Any) -> None:
        try:
            sweep_start.begin(config, EarlyChecks.application.target)
        except Exception as error:
            raise Refused(error) from error


def launch(
    application: Application[Any],
    command: str,
    given: Sequence[str],
    multirun: bool = False,
    typed: Sequence[str] | None = None,
) -> int:
    """Let Hydra carry out a command with the arguments that the user gave, in any order. Returns the exit code.

    ``typed``, which is recorded, are the arguments as they were typed, where ``given`` has some in Hydra's words.
    Raises ``ArenaError`` with a message of one line for any error.
    """
    asked, flags, overrides = flags_first(given)
    arguments = [*flags, *map(in_full, overrides)]
    now = dt.datetime.now(dt.UTC).astimezone()
    os.environ.setdefault("HYDRA_FULL_ERROR", "1")  # Hydra raises instead of printing and leaving
    for name in FOLDERS:
        if name in os.environ:
            os.environ[name] = str(Path(os.environ[name]).absolute())
    os.environ[COMMAND] = console.shell_line([*command.split(), *(given if typed is None else typed)])
    os.environ[sweep_folders.LAUNCH] = f"{now:%Y-%m-%d}/{now:%H-%M-%S}-{uuid.uuid4().hex[:6]}"
    sweep_folders.forget()
    EarlyChecks.application, EarlyChecks.prepared = application, None
    sweep_start.prepare(arguments, application.config)
    once = composed_once(arguments)
    if multirun or asked:
        check_mode(arguments)
        arguments = ["--multirun", *arguments]
    places = places_in(arguments)
    with (
        own_modules([*config_dirs(arguments), *folders_of(places)]),
        _argv([f"qarena {command}", *arguments]),
        explained(command, arguments, application.keys),
        searched(places),
        once,
        sources_shared(),
    ):
        try:
            # A path: as a package, a folder named conf in ``sys.path`` could hide it.
            hydra.main(version_base="1.3", config_path=str(CONF), config_name=application.config)(application.task)()
        except Refused as refused:
            raise refused.error from None
        except KeyboardInterrupt:
            _say_how_to_resume("what was not committed yet is dropped, all else is in the archive")
            return max(INTERRUPTED, _report())
        except SystemExit:
            _report()
            raise
        except Exception:
            if not sweep_folders.records():  # else jobs failed, and the report below names each of them
                sweep_folders.withdraw()
                raise
        finally:
            HydraConfig.instance().cfg = None  # its folders are not those of a later launch in this process
    return _report()


def _report() -> int:
    """Report on the sweep that this process started, if there is one; returns the exit code."""
    if not sweep_folders.folders:
        return 0
    from runners.hydra_app.sweep import report

    return report()


def log_file() -> Path:
    """The file to which this job logs."""
    running = HydraConfig.get()
    return Path(running.runtime.output_dir) / f"{running.job.name}.log"


def typed_command() -> str:
    """The command as it was typed."""
    return f"qarena {os.environ[COMMAND]}"


def _say_how_to_resume(kept: str = "all games that were finished are in the archive") -> int:
    console.print_note(f"interrupted; {kept}. To go on:\n  {console.program()} {os.environ[COMMAND]}")
    return INTERRUPTED


@contextmanager
def _argv(arguments: list[str]) -> Iterator[None]:
    """Replace ``sys.argv``, from which Hydra reads its arguments, inside the context."""
    before, sys.argv = sys.argv, arguments
    try:
        yield
    finally:
        sys.argv = before
