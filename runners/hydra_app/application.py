"""Commands that Hydra carries out: ``Application``, which each of them is.

What plays or learns is imported when something is to be done: most wrong requests are refused before that.
"""

from __future__ import annotations

import logging
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, chdir
from typing import Any, ClassVar, NamedTuple

from hydra.conf import HydraConf
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig

from analytics.results.columns import ResultColumn
from runners.arena.objectives import Target
from runners.arena.schemas import check_values
from runners.hosting.interruption import INTERRUPTED
from runners.terminal import console

# Environment variables, so that processes that a launcher starts have them too: the command as it was typed, and the
# name of this launch's output folders, which must differ between two launches in the same second.
COMMAND, LAUNCH = "QARENA_COMMAND", "QARENA_LAUNCH"


class OneLine(logging.Formatter):
    """Formats log records without tracebacks, which are in the job's log file."""

    def format(self, record: logging.LogRecord) -> str:
        return f"{record.levelname.lower()}: {record.getMessage()}"


class JobLines(logging.Filter):
    """Lets the messages of Hydra pass, the lines with which launchers name their jobs, and warnings of all others."""

    def filter(self, record: logging.LogRecord) -> bool:
        if record.name.startswith("hydra_plugins."):  # failures are reported anyway
            return record.getMessage().startswith("\t#")
        return record.name.startswith("hydra.") or record.levelno >= logging.WARNING


class Judgement(NamedTuple):
    """The value of a job, as its record has it."""

    objective: str  # its name
    value: float


class Finished(NamedTuple):
    """The outcome of a request."""

    run_id: str | None
    show: Callable[[], None]
    interrupted: bool = False  # it is not complete
    stopped: bool = False  # because the user asked to
    judgement: Judgement | None = None  # for sweepers that optimise
    columns: Sequence[ResultColumn] = ()  # of its rows in the table of a sweep
    notes: Sequence[str] = ()  # what to know about these rows
    exit_code: int = 0  # of a single request that is not interrupted


Work = Callable[[], Finished]  # carries out a request that is ready


def one_row(texts: Mapping[str, str]) -> list[ResultColumn]:
    """The columns of an outcome that is one row in the table of a sweep."""
    return [ResultColumn(heading, [text], right=not text[:1].isalpha()) for heading, text in texts.items()]


class Application(ABC):
    """A command that Hydra carries out.

    It has no state: launchers that use other processes pickle it.
    """

    config: ClassVar[str]  # the yaml in conf/
    schema: ClassVar[type[Any]]  # the dataclass of its keys
    judged_by: ClassVar[Target | None] = None  # the value that its jobs return
    view: ClassVar[str] = ""  # whose view the table of a sweep takes

    @abstractmethod
    def prepare(self, cfg: DictConfig, hydra_cfg: HydraConf | DictConfig) -> Work:
        """Get ready, given a configuration that the schema allows. Raises ``ArenaError`` if it cannot be done."""

    def games(self, cfg: DictConfig) -> int:
        """The games that a job of a sweep asks for, of each pairing."""
        return int(cfg.get("games", 0))

    def target(self, cfg: DictConfig, hydra_cfg: HydraConf | DictConfig) -> Target | None:  # noqa: ARG002
        """The value that jobs return, given the configuration of the first; None: they return none.

        Raises ``RequestError`` if that cannot be the value of any job.
        """
        return self.judged_by

    def ready(self, cfg: DictConfig, hydra_cfg: HydraConf | DictConfig) -> Work:
        """Check the configuration by the schema and ``prepare`` it."""
        check_values(cfg, self.schema)
        return self.prepare(cfg, hydra_cfg)


def where_typed() -> AbstractContextManager[None]:
    """Be in the folder in which the command was typed, inside the context: all paths are relative to it.

    Hydra's tasks may be elsewhere: launchers start processes, and ``hydra.job.chdir=true`` names the output folder.
    """
    return chdir(HydraConfig.get().runtime.cwd)


def typed_command() -> str:
    """The command as it was typed."""
    return f"qarena {os.environ[COMMAND]}"


def say_how_to_resume(kept: str = "all games that were finished are in the archive") -> int:
    """Print how an interrupted command is continued; returns the exit code."""
    console.print_note(f"interrupted; {kept}. To go on:\n  {console.program()} {os.environ[COMMAND]}")
    return INTERRUPTED
