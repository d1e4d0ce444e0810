"""Commands that Hydra carries out: ``Application``, which each of them is, and ``RUN``, which plays and shows a run.

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

from analytics import archive_option, open_archive
from analytics.questions.columns import ResultColumn, column, pairing_columns, percent, seats_explained
from quarto.errors import RequestError
from runners.config.objectives import Objective, Target, objective_of
from runners.config.options import plain
from runners.config.schemas import RunConfig, check_values
from runners.hosting import interruption
from runners.terminal import console

if TYPE_CHECKING:
    from analytics.questions.pairings import PairingResult
    from runners.arena.experiment import Experiment
    from runners.arena.playing import Outcome
    from runners.arena.request import Request

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
        from analytics.store.records import SWEEP_ID

        check_values(cfg, self.schema)
        if cfg.sweep.id is not None and not SWEEP_ID.fullmatch(cfg.sweep.id):
            allowed = "at most 64 letters, digits, '_', '.', '-' and '=', the first a letter or a digit"
            raise RequestError(f"sweep.id={cfg.sweep.id!r} cannot be a name: write {allowed}")

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
    from runners.config.requests import request_of

    return request_of(cfg, hydra_cfg.runtime.choices, hydra_cfg.overrides.task)


def _objective(cfg: DictConfig, hydra_cfg: HydraConf | DictConfig) -> Objective:
    return objective_of(plain(cfg.objective), str(hydra_cfg.runtime.choices["objective"]))


def _played(experiment: Experiment, objective: Objective) -> Finished:
    """The outcome of an experiment that was ready."""
    from runners.arena.playing import carry_out

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

    return Finished(
        run_id=outcome.run_id,
        show=show,
        interrupted=outcome.interrupted,
        stopped=outcome.stopped,
        judgement=None if value is None else Judgement(objective.name, value),
        columns=_columns(outcome, objective, value),
        notes=_notes(request, outcome),
    )


def _notes(request: Request, outcome: Outcome) -> list[str]:
    """What a reader of a run's rows in the table of a sweep should know."""
    from runners.terminal.results import MOST_ROWS

    games, pairings, notes = request.games, len(outcome.results), list[str]()
    if any(result.games > games for result in outcome.results):
        notes.append(f"asked for {games:,} games a pairing; its run holds more, and all are counted")
    if pairings > MOST_ROWS:
        notes.append(f"has {pairings:,} pairings, of which the first {MOST_ROWS} are shown")
    return notes


def _columns(outcome: Outcome, objective: Objective, value: float | None) -> list[ResultColumn]:
    """The first pairings as a sweep shows them; the value of the objective stands in the first row."""
    from runners.terminal.results import MOST_ROWS

    first = outcome.results[:MOST_ROWS]
    if not first:
        return []
    columns = _pairings(first)
    if value is not None:
        columns.append(ResultColumn(objective.heading, [objective.text(value), *[""] * (len(first) - 1)]))
    return columns


def _pairings(found: Sequence[PairingResult]) -> list[ResultColumn]:
    from analytics.questions.pairings import pairings_frame

    return pairing_columns(pairings_frame(found), with_scores=False)


# A run in the terminal.

# What to ask about the games of a run; the condition on it goes into the braces.
QUESTIONS = (
    "SELECT agent_0, agent_1, avg((winner = 0)::int) AS seat_0_wins FROM games WHERE {} GROUP BY ALL ORDER BY ALL",
    (
        "SELECT agent, cell_name(cell) AS first_cell, sum(games) AS games, sum(wins) / sum(games) AS win_rate "
        "FROM first_plies WHERE {} GROUP BY ALL ORDER BY ALL"
    ),
    "SELECT plies, ending, count(*) AS games FROM games WHERE {} GROUP BY ALL ORDER BY ALL",
)


def show_outcome(outcome: Outcome, log: Path) -> None:
    """Print the tables of a run, its speed, and commands that ask about its games; ``log`` has more on misbehaviour."""
    if not outcome.results:
        console.print_note(f"run {outcome.run_id} has no games yet")
        return
    if len(outcome.results) > 1:
        from analytics.questions.pairings import crosstable
        from runners.terminal.results import ALL, show_crosstable

        # Intervals of agents need the games where pairings share openings; the tables of a run take tallies alone.
        shared = any(each.by_pairs for each in outcome.results)
        command = f"{console.program()} crosstable --run {outcome.run_id}{archive_option(outcome.root)}"
        show_crosstable(crosstable(outcome.results), intervals=not shared, how=f"{command} {ALL}")
        if shared:
            console.print_line(f"Pairings share openings; intervals over openings: {command}")
    _show_pairings(outcome)
    if any(each.tally.is_uniform for each in outcome.results):
        from analytics.questions.selection import repeated_games

        with open_archive(outcome.root) as opened:
            for note in repeated_games(opened, [outcome.run_id]):
                console.print_note(note)
    console.print_line(_summary(outcome))
    if not outcome.interrupted:
        console.print_line("Ask the archive:")
        for question in QUESTIONS:
            of_run = question.format(f"run_id = '{outcome.run_id}'")
            console.print_line(f"  {console.sql_command(of_run, outcome.root)}")
    _show_forfeits(outcome, log)


def _show_forfeits(outcome: Outcome, log: Path) -> None:
    """Print what agents did wrong in the games of this command, and how many games of the run are forfeits."""
    for line in outcome.misbehaviour:
        console.print_note(line)
    forfeits, games = (sum(sum(each.forfeits) for each in outcome.results), sum(each.games for each in outcome.results))
    told = [f"warning: {forfeits:,} of {games:,} games of this run are forfeits"] if forfeits else []
    told += [f"more in {os.path.relpath(log)}"] if outcome.misbehaviour else []
    if told:
        console.print_note("; ".join(told))


def _summary(outcome: Outcome) -> str:
    total = sum(result.games for result in outcome.results)
    where = f"run {outcome.run_id} in {outcome.root} holds {total:,} games, fingerprint {outcome.fingerprint:016x}"
    if outcome.played == 0:
        return f"Nothing to play: {where}."
    return f"{console.speed(outcome.played, outcome.seconds)}; {where}."


def _show_pairings(outcome: Outcome) -> None:
    """Print the first pairings of a run, and how to see all of them."""
    from runners.terminal.results import ALL, MOST_ROWS, note_left_out

    found = outcome.results[:MOST_ROWS]
    seats = [
        column(
            f"win in seat {seat}",
            [row[2] / max(1, sum(row)) for row in (each.in_seat(seat) for each in found)],
            percent,
            7,
        )
        for seat in (0, 1)
    ]
    plies = column("plies", [each.mean_plies for each in found], "{:.2f}".format, 6)
    console.show([console.tabulated([*_pairings(found), *seats, plies], "Pairings (the first agent's view, in %)")])
    command = f"{console.program()} crosstable --run {outcome.run_id}{archive_option(outcome.root)}"
    note_left_out(len(outcome.results), "pairings", f"{command} {ALL}")
    console.print_line(seats_explained(outcome.mover_chooses))


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
    return interruption.exit_code()
