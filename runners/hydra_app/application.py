"""Commands that Hydra carries out: ``Application``, which each of them is, and ``RUN``, which plays.

What plays or learns is imported when something is to be done: most wrong requests are refused before that.
"""

from __future__ import annotations

import logging
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, chdir
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from hydra.conf import HydraConf
from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import DictConfig

from analytics.results.columns import ResultColumn
from runners.arena.config_groups import RunConfig, check_values, plain
from runners.arena.objectives import Objective, Target, objective_of
from runners.hosting import interruption
from runners.terminal import console

if TYPE_CHECKING:
    from runners.arena.config import Request
    from runners.arena.experiment import Experiment
    from runners.arena.playing import Outcome

# Environment variables, so that processes that a launcher starts have them too: the command as it was typed, and the
# name of this launch's output folders, which must differ between two launches in the same second.
COMMAND, LAUNCH = "QARENA_COMMAND", "QARENA_LAUNCH"
DEFAULT = "score"  # the objective of conf/run.yaml


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

    def check(self, cfg: DictConfig, hydra_cfg: HydraConf | DictConfig) -> None:  # noqa: ARG002
        """Raises ``RequestError`` for a setting that no job of a sweep could have, before the first one begins."""
        check_values(cfg, self.schema)

    def target(self, cfg: DictConfig, hydra_cfg: HydraConf | DictConfig) -> Target | None:  # noqa: ARG002
        """The value that jobs return, given the configuration of the first; None: they return none.

        Raises ``RequestError`` if that cannot be the value of any job.
        """
        return self.judged_by

    def ready(self, cfg: DictConfig, hydra_cfg: HydraConf | DictConfig) -> Work:
        """Check the configuration by the schema and ``prepare`` it."""
        check_values(cfg, self.schema)
        return self.prepare(cfg, hydra_cfg)


class RunApplication(Application):
    """Plays a match or a tournament."""

    config = "run"
    schema = RunConfig
    view = "the first agent's view; win, draw and loss in %"

    def prepare(self, cfg: DictConfig, hydra_cfg: HydraConf | DictConfig) -> Work:
        from runners.arena.experiment import prepare

        request, objective = _request(cfg, hydra_cfg), _objective(cfg, hydra_cfg)
        objective.check(request.spec)
        if hydra_cfg.mode != RunMode.MULTIRUN:  # the first job of a sweep stands for all
            objective.probe(request.spec)
        experiment = prepare(request)
        return lambda: _played(experiment, objective)

    def check(self, cfg: DictConfig, hydra_cfg: HydraConf | DictConfig) -> None:
        super().check(cfg, hydra_cfg)
        for agent in _request(cfg, hydra_cfg).spec.agents:
            if not (agent.limits.any or agent.runs_programs):  # which would start a process
                agent.build()

    def target(self, cfg: DictConfig, hydra_cfg: HydraConf | DictConfig) -> Target:
        objective, spec = _objective(cfg, hydra_cfg), _request(cfg, hydra_cfg).spec
        objective.check(spec)
        objective.probe(spec)
        return Target(objective.heading, objective.direction, objective.text)


def _request(cfg: DictConfig, hydra_cfg: HydraConf | DictConfig) -> Request:
    from runners.arena.config import request_of

    return request_of(cfg, hydra_cfg.runtime.choices, hydra_cfg.overrides.task)


def _objective(cfg: DictConfig, hydra_cfg: HydraConf | DictConfig) -> Objective:
    return objective_of(plain(cfg.objective), str(hydra_cfg.runtime.choices["objective"]))


def _played(experiment: Experiment, objective: Objective) -> Finished:
    """The outcome of an experiment that was ready."""
    from runners.arena.playing import carry_out
    from runners.terminal.results import show_outcome

    request, running = experiment.request, HydraConfig.get()
    log = Path(running.runtime.output_dir) / f"{running.job.name}.log"
    for note in request.notes:
        console.print_note(note)
    with interruption.interruptible() as stop, console.progress_bar("playing", "games", request.progress) as progress:
        outcome = carry_out(experiment, typed_command(), stop, progress)
    value = None if outcome.interrupted else objective.value(experiment, outcome.results)

    def show() -> None:
        show_outcome(outcome, log)
        if value is not None and objective.heading != DEFAULT:  # which is in the tables anyway
            console.print_line(f"Objective: {objective.heading}: {objective.text(value)}")

    more = any(result.games > request.games for result in outcome.results)
    return Finished(
        run_id=outcome.run_id,
        show=show,
        interrupted=outcome.interrupted,
        stopped=outcome.stopped,
        judgement=None if value is None else Judgement(objective.name, value),
        columns=_columns(outcome, objective, value),
        notes=[f"asked for {request.games:,} games a pairing; its run holds more, and all are counted"] if more else [],
    )


def _columns(outcome: Outcome, objective: Objective, value: float | None) -> list[ResultColumn]:
    """The pairings as a sweep shows them; the value of the objective stands in the first row."""
    from analytics.results.columns import pairing_columns
    from analytics.results.pairings import pairings_frame

    if not outcome.results:
        return []
    shown = pairing_columns(pairings_frame(outcome.results), with_scores=False)
    if value is not None:
        shown.append(ResultColumn(objective.heading, [objective.text(value), *[""] * (len(outcome.results) - 1)]))
    return shown


RUN = RunApplication()


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
    return interruption.INTERRUPTED
