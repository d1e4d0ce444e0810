"""The commands that Hydra carries out: their base class ``Application``, and ``RUN``, which plays and shows a run.

Modules that play or learn are imported only when a request is carried out, so wrong requests are refused quickly.
"""

from __future__ import annotations

import logging
import os.path
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, chdir
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from hydra.conf import HydraConf
from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import DictConfig

from analytics import format_archive_option, open_archive
from analytics.questions.columns import (
    ResultColumn,
    describe_seat_roles,
    format_percent,
    format_plies,
    number_column,
    pairing_columns,
)
from analytics.store.texts import format_count_with_noun
from quarto.errors import RequestError
from runners.config.objectives import Objective, SweepTarget, build_objective
from runners.config.schemas import RunConfig, check_keys_and_values
from runners.config.yaml_options import to_plain_dict
from runners.hosting import interruption
from runners.hosting.work_clock import WorkClock
from runners.terminal import console

if TYPE_CHECKING:
    from analytics.questions.pairings import PairingResult
    from runners.arena.execution import RunOutcome
    from runners.arena.experiment import Experiment
    from runners.arena.request import RunRequest

DEFAULT_OBJECTIVE = "score"  # the objective of conf/run.yaml


class OneLineFormatter(logging.Formatter):
    """A formatter of log records that omits tracebacks, which the job's log file contains."""

    def format(self, record: logging.LogRecord) -> str:
        return f"{record.levelname.lower()}: {record.getMessage()}"


class HydraLinesAndWarningsFilter(logging.Filter):
    """A filter that passes only Hydra's own messages, the lines in which launchers name their jobs, and warnings."""

    def filter(self, record: logging.LogRecord) -> bool:
        if record.name.startswith("hydra_plugins."):  # failures are reported anyway
            return record.getMessage().startswith("\t#")
        return record.name.startswith("hydra.") or record.levelno >= logging.WARNING


class Launch(NamedTuple):
    """A command as the user typed it. It accompanies the jobs of a sweep, which may run in other processes."""

    words: str  # as they were typed, without the program
    user_folders: tuple[str, ...] = ()  # absolute
    id: str = ""  # unique to this launch

    @property
    def command(self) -> str:
        """The command as it was typed, for records."""
        return f"qarena {self.words}"

    def print_resume_hint(self, kept_sentence: str = "all games that were finished are in the archive") -> int:
        """Print how to continue the interrupted command, and return the exit code.

        ``kept_sentence`` tells the user which games are in the archive.
        """
        console.print_note(f"interrupted; {kept_sentence}. To go on:\n  {console.find_program()} {self.words}")
        return interruption.exit_code()


class ObjectiveValue(NamedTuple):
    """The value of a job and the name of the objective that it measures, as they are stored in the job's record."""

    objective: str  # name of the objective
    value: float


class CommandOutcome(NamedTuple):
    """The outcome of a request after it was carried out."""

    run_id: str | None
    show: Callable[[], None]
    interrupted: bool = False  # the request is not complete
    stopped: bool = False  # the user stopped the request
    objective_value: ObjectiveValue | None = None  # for sweepers that optimise
    columns: Sequence[ResultColumn] = ()  # the request's rows in the table of a sweep
    notes: Sequence[str] = ()  # what a reader of these rows should know
    exit_code: int = 0  # of a single request that was not interrupted


PreparedRequest = Callable[[], CommandOutcome]  # carries out a checked request


def build_one_row_columns(texts: Mapping[str, str]) -> list[ResultColumn]:
    """Build the columns for a request whose outcome fills one row in the table of a sweep.

    ``texts`` maps the heading of each column to the text of its cell.
    """
    return [ResultColumn(heading, [text], right_aligned=not text[:1].isalpha()) for heading, text in texts.items()]


class Application(ABC):
    """A command that Hydra carries out.

    An application has no state, because launchers that use other processes pickle it.
    """

    config_name: ClassVar[str]  # the yaml in conf/
    schema: ClassVar[type[Any]]  # the dataclass of its keys
    default_target: ClassVar[SweepTarget | None] = None  # the value that the command's jobs return
    table_subtitle: ClassVar[str] = ""  # from whose point of view the table of a sweep shows results

    @abstractmethod
    def prepare(self, cfg: DictConfig, hydra_cfg: HydraConf | DictConfig, launch: Launch) -> PreparedRequest:
        """Return a function that carries out the request in ``cfg``, a configuration that matches the schema.

        Raises ``ArenaError`` if the request cannot be carried out.
        """

    def count_requested_games(self, cfg: DictConfig) -> int:
        """Return how many games of each pairing the configuration requests."""
        return int(cfg.get("games", 0))

    def check_sweep_job(self, cfg: DictConfig, hydra_cfg: HydraConf | DictConfig) -> None:  # noqa: ARG002
        """Check the configuration of one job before any job of the sweep begins.

        Raises ``RequestError`` for a setting that is not valid in a job of a sweep.
        """
        from analytics.store.records import SWEEP_ID

        check_keys_and_values(cfg, self.schema)
        if cfg.sweep.id is not None and not SWEEP_ID.fullmatch(cfg.sweep.id):
            allowed = "at most 64 letters, digits, '_', '.', '-' and '=', the first a letter or a digit"
            raise RequestError(f"sweep.id={cfg.sweep.id!r} cannot be a name: write {allowed}")

    def build_sweep_target(self, cfg: DictConfig, hydra_cfg: HydraConf | DictConfig) -> SweepTarget | None:  # noqa: ARG002
        """Return the target of the sweep, by which its jobs are compared, or None if the jobs have no value.

        ``cfg`` is the configuration of the first job. Raises ``RequestError`` if no job can have such a value.
        """
        return self.default_target


class RunApplication(Application):
    """The command that plays a match or a tournament."""

    config_name = "run"
    schema = RunConfig
    table_subtitle = "the first agent's view; win, draw and loss in %"

    def prepare(self, cfg: DictConfig, hydra_cfg: HydraConf | DictConfig, launch: Launch) -> PreparedRequest:
        from runners.arena.experiment import open_experiment

        request, objective = _build_request(cfg, hydra_cfg), _build_objective(cfg, hydra_cfg)
        objective.check(request.spec)
        if hydra_cfg.mode != RunMode.MULTIRUN:  # the first job of a sweep stands for all
            objective.check_duration(request.spec)
        experiment = open_experiment(request)
        return lambda: _play_experiment_printing_later(experiment, objective, launch)

    def check_sweep_job(self, cfg: DictConfig, hydra_cfg: HydraConf | DictConfig) -> None:
        super().check_sweep_job(cfg, hydra_cfg)
        for agent in _build_request(cfg, hydra_cfg).spec.agents:
            if not (agent.limits.is_limited or agent.runs_programs):  # building these would start a process
                agent.build()

    def build_sweep_target(self, cfg: DictConfig, hydra_cfg: HydraConf | DictConfig) -> SweepTarget:
        objective, spec = _build_objective(cfg, hydra_cfg), _build_request(cfg, hydra_cfg).spec
        objective.check(spec)
        objective.check_duration(spec)
        return SweepTarget(objective.heading, objective.direction, objective.format_value)


def _build_request(cfg: DictConfig, hydra_cfg: HydraConf | DictConfig) -> RunRequest:
    from runners.config.requests import build_request

    return build_request(cfg, hydra_cfg.runtime.choices, hydra_cfg.overrides.task)


def _build_objective(cfg: DictConfig, hydra_cfg: HydraConf | DictConfig) -> Objective:
    return build_objective(to_plain_dict(cfg.objective), str(hydra_cfg.runtime.choices["objective"]))


def _play_experiment_printing_later(experiment: Experiment, objective: Objective, launch: Launch) -> CommandOutcome:
    """Play the games of an experiment that has been opened, and return the outcome.

    The outcome's ``show`` prints the results later.
    """
    from runners.arena.execution import execute_experiment

    request, hydra_config = experiment.request, HydraConfig.get()
    log = Path(hydra_config.runtime.output_dir) / f"{hydra_config.job.name}.log"
    for note in request.notes:
        console.print_note(note)
    is_default = not any(override.startswith("games=") for override in hydra_config.overrides.task)
    with (
        interruption.stop_on_signal_then_interrupt_then_exit() as stop,
        console.show_progress_bar_or_notes("playing", "games", request.progress) as bar,
    ):
        outcome = execute_experiment(experiment, launch.command, stop, _PlayingProgress(bar) if is_default else bar)
    value = None if outcome.interrupted else objective.value(experiment, outcome.results)

    def print_tables_and_objective() -> None:
        print_outcome(outcome, log)
        is_in_tables = (objective.name, objective.agent) == (DEFAULT_OBJECTIVE, None)
        if value is not None and not is_in_tables:
            console.print_line(f"Objective: {objective.heading}: {objective.format_value(value)}")

    return CommandOutcome(
        run_id=outcome.run_id,
        show=print_tables_and_objective,
        interrupted=outcome.interrupted,
        stopped=outcome.stopped,
        objective_value=None if value is None else ObjectiveValue(objective.name, value),
        columns=_build_sweep_columns(outcome, objective, value),
        notes=_list_sweep_row_notes(request, outcome),
    )


class _PlayingProgress:
    """The progress of games whose number nobody chose: after a few seconds of slow games, a note says how to choose."""

    def __init__(self, bar: console.ProgressBar) -> None:
        self._bar, self._games, self._total, self._clock = bar, 0, 0, WorkClock()
        self._notice = console.LongTimeNotice("; games=1000 plays fewer a pairing", lambda: self._clock.seconds)
        self.report_turns = bar.report_turns

    def start(self, games: int) -> None:
        self._total, self._clock = games, WorkClock()
        self._bar.start(games)

    def advance(self, games: int) -> None:
        self._games += games
        self._bar.advance(games)
        self._notice.print_if_due(self._games, self._total)


def _list_sweep_row_notes(request: RunRequest, outcome: RunOutcome) -> list[str]:
    """List notes on a run's rows in the table of its sweep, for example that the table omits some of the pairings."""
    from analytics.questions.strength_tables import MAX_ROWS

    games, pairings, notes = request.games, len(outcome.results), list[str]()
    if any(result.games > games for result in outcome.results):
        notes.append(
            f"asked for {format_count_with_noun(games, 'game')} a pairing; its run holds more, and all are counted"
        )
    if pairings > MAX_ROWS:
        notes.append(f"has {format_count_with_noun(pairings, 'pairing')}, of which the first {MAX_ROWS} are shown")
    return notes


def _build_sweep_columns(outcome: RunOutcome, objective: Objective, value: float | None) -> list[ResultColumn]:
    """Build the columns for a run in its sweep's table, with a row for each of the first ``MAX_ROWS`` pairings.

    The value of the objective is in the first row.
    """
    from analytics.questions.strength_tables import MAX_ROWS

    first = outcome.results[:MAX_ROWS]
    if not first:
        return []
    columns = _build_pairing_columns(first)
    if value is not None:
        columns.append(ResultColumn(objective.heading, [objective.format_value(value), *[""] * (len(first) - 1)]))
    return columns


def _build_pairing_columns(results: Sequence[PairingResult]) -> list[ResultColumn]:
    from analytics.questions.pairings import pairings_frame

    return pairing_columns(pairings_frame(results), with_scores=False)


# A run in the terminal.

# A first query for an archive that holds a single run.
SUGGESTED_QUERY = "SELECT plies, ending, count(*) AS games FROM games GROUP BY ALL ORDER BY ALL"


def print_outcome(outcome: RunOutcome, log_file: Path) -> None:
    """Print the tables and the speed of a run and, after the first run of an archive, a query to try.

    Notes on misbehaving agents refer to ``log_file``.
    """
    if not outcome.results:
        console.print_note(f"run {outcome.run_id} has no games yet")
        return
    if len(outcome.results) > 1:
        from analytics.questions.pairings import build_crosstable
        from analytics.questions.strength_tables import (
            build_crosstable_table,
            describe_crosstable_omissions,
            describe_several_groups,
        )
        from analytics.report.text_tables import build_escaped_plain_table

        # Intervals of agents need the games where pairings share openings; the tables of a run take tallies alone.
        shared = any(result.by_pairs for result in outcome.results)
        command = f"{console.find_program()} crosstable --run {outcome.run_id}{format_archive_option(outcome.root)}"
        crosstable = build_crosstable(outcome.results)
        table = build_escaped_plain_table(build_crosstable_table(crosstable, with_intervals=not shared))
        console.print_tables([table], *table.splits)
        for omission in describe_crosstable_omissions(crosstable):
            console.print_note(f"{omission}; {command} --output FILE for all")
        if crosstable.group_count > 1:
            console.print_line(describe_several_groups(crosstable.group_count))
        if shared:
            console.print_line(f"Pairings share openings; intervals over openings: {command}")
    _print_pairings(outcome)
    if any(result.tally.is_uniform for result in outcome.results):
        from analytics.questions.selection import describe_pairings_of_identical_games

        with open_archive(outcome.root) as opened:
            for note in describe_pairings_of_identical_games(opened, [outcome.run_id]):
                console.print_note(note)
    console.print_line(_format_summary(outcome))
    if not outcome.interrupted and _has_played_whole_archive(outcome):
        console.print_line(f"Ask the archive: {console.format_sql_command(SUGGESTED_QUERY, outcome.root)}")
    _print_forfeits(outcome, log_file)


def _has_played_whole_archive(outcome: RunOutcome) -> bool:
    """Return whether this command played all games that are in the archive."""
    from analytics.store.archive import ArchiveStore

    total = sum(result.games for result in outcome.results)
    return outcome.played == total and ArchiveStore.open(outcome.root).list_ids_of_runs_with_games() == [outcome.run_id]


def _print_forfeits(outcome: RunOutcome, log_file: Path) -> None:
    """Print how agents misbehaved in the games of this command, and how many games of the whole run were forfeited."""
    for line in outcome.misbehaviour:
        console.print_note(line)
    forfeits = sum(sum(result.forfeits) for result in outcome.results)
    games = sum(result.games for result in outcome.results)
    clauses = list[str]()
    if forfeits:
        clauses.append(f"warning: {forfeits:,} of {format_count_with_noun(games, 'game')} of this run are forfeits")
    if outcome.misbehaviour:
        clauses.append(f"more in {os.path.relpath(log_file)}")
    if clauses:
        console.print_note("; ".join(clauses))


def _format_summary(outcome: RunOutcome) -> str:
    total = sum(result.games for result in outcome.results)
    games = format_count_with_noun(total, "game")
    where = f"run {outcome.run_id} in {outcome.root} holds {games}, fingerprint {outcome.fingerprint:016x}"
    if outcome.played == 0:
        return f"Nothing to play: {where}."
    return f"{console.format_games_time_and_speed(outcome.played, outcome.seconds)}; {where}."


def _print_pairings(outcome: RunOutcome) -> None:
    """Print the results of a run's first pairings and, if there are more, the command that shows all of them."""
    from analytics.questions.strength_tables import MAX_ROWS, describe_omissions

    results = outcome.results[:MAX_ROWS]
    seats = [
        number_column(
            f"win in seat {seat}",
            [row[2] / max(1, sum(row)) for row in (result.losses_draws_wins_in_seat(seat) for result in results)],
            format_percent,
            7,
        )
        for seat in (0, 1)
    ]
    plies = number_column("plies", [result.mean_plies for result in results], format_plies, 6)
    console.print_tables(
        [
            console.build_escaped_table(
                [*_build_pairing_columns(results), *seats, plies], "Pairings (the first agent's view, in %)"
            )
        ]
    )
    command = f"{console.find_program()} crosstable --run {outcome.run_id}{format_archive_option(outcome.root)}"
    for omission in describe_omissions(len(outcome.results), "pairings"):
        console.print_note(f"{omission}; {command} --output FILE for all")
    console.print_line(describe_seat_roles(outcome.mover_chooses))


RUN = RunApplication()


def enter_launch_folder() -> AbstractContextManager[None]:
    """Return a context manager that changes to the folder in which the user typed the command.

    All paths are relative to that folder. Hydra's tasks may start in another folder, because some launchers start
    processes, and because ``hydra.job.chdir=true`` changes to the output folder.
    """
    return chdir(HydraConfig.get().runtime.cwd)
