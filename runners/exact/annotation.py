"""Decisions by exact values: `qarena annotate` judges them, `qarena mistakes` shows regrets and the worst of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import PurePath

import polars as pl
import typer

from analytics import archive_option, open_archive
from analytics.exact.annotate import (
    AnnotationPart,
    AnnotationSettings,
    AnnotationSummary,
    Annotator,
    annotation_parts,
)
from analytics.questions.columns import ResultColumn, column, decision_columns, duration, format_pace, game_name, words
from analytics.questions.mistakes import (
    Mistake,
    decision_summaries,
    judged_agents,
    worst_mistakes,
)
from analytics.questions.selection import GameFilter, repeated_games, select
from analytics.questions.sql.database import OpenArchive
from analytics.questions.sql.views import among, literal
from analytics.store.archive import Archive, chosen_runs
from analytics.store.files.backend import location_of
from analytics.store.ranges import StoredRange
from analytics.tables.derived.decisions import note_annotations
from analytics.tables.derived.jobs import StoppedError
from analytics.tables.upkeep.rolling import roll_up_small
from quarto.errors import RequestError
from quarto.sources import compiling
from runners.arena.executors.base import Executor, Stop, Task, available_cores, check_tables
from runners.hosting.interruption import exit_code, interruptible
from runners.terminal import console
from runners.terminal.console import progress_bar
from runners.terminal.files import PRINTED, TableOutput
from runners.terminal.tables import write


@dataclass(frozen=True)
class AnnotateTask(Task):
    """Annotates parts. The threads of a process share what they solve."""

    root: str
    choices: bool
    from_pieces: int | None
    megabytes: float

    def __call__(self, part: AnnotationPart, stop: Stop) -> AnnotationSummary:
        def end_if_asked() -> None:
            if stop.is_set():
                raise StoppedError

        settings = AnnotationSettings(self.choices, self.from_pieces, 1, self.megabytes)
        annotator = self.once("annotator", lambda: Annotator(Archive.open(location_of(self.root)), settings))
        with suppress(StoppedError):  # the rest is not wanted any more
            return annotator.annotate(part, self.judged.append, end_if_asked)
        return AnnotationSummary()

    @property
    def judged(self) -> list[int]:
        """Numbers of games that were judged in this process, those of parts in progress included."""
        return self.once("judged", list[int])


MEASURED_SECONDS = 5.0  # of judging, by which the time of the rest is estimated
LONG_SECONDS = 60.0  # a time that is announced


class LongTime:
    """A note, once, that judging the wanted games takes long, and how to judge fewer."""

    def __init__(self, total: int, wanted: GameFilter) -> None:
        self.total, self.started, self.is_due = total, self._clock(), True
        self.fewer = "" if wanted.runs else "; --run RUN judges the games of one run"

    @staticmethod
    def _clock() -> float:
        return time.perf_counter() - compiling.seconds  # compiled once, however many games there are

    def reach(self, games: int) -> None:
        """``games`` are judged by now."""
        spent = self._clock() - self.started
        if not (self.is_due and games and spent >= MEASURED_SECONDS):
            return
        self.is_due = False
        left = spent * (self.total - games) / games
        if left >= LONG_SECONDS:
            console.print_note(
                f"{self.total:,} games take about {duration(left)} more{self.fewer} (you can stop at any time: the "
                "same command goes on)"
            )


def annotate(
    root: PurePath, wanted: GameFilter, settings: AnnotationSettings, threads: int | None, executor: Executor
) -> None:
    """Judge the decisions that are not judged yet, of whole files in which a game meets the condition.

    Raises ``RequestError`` for an unknown run, and for a condition that no game meets.
    """
    workers = threads or available_cores()
    check_tables(settings.megabytes, executor.here(workers))
    archive = Archive.open(root)
    runs = chosen_runs(archive, wanted.runs)
    started = time.perf_counter()
    parts = [*annotation_parts(archive, runs, settings, workers, _files_with(root, wanted.where))]
    games = {run_id: archive.known_run(run_id).line.games_a_pair for run_id in runs}
    task = AnnotateTask(str(root), settings.choices, settings.from_pieces, settings.megabytes)
    judged, total = AnnotationSummary(), sum(each.part.units * games[each.part.run_id] for each in parts)
    notice = LongTime(total, wanted)

    def show() -> None:
        done = max(judged.games, sum(task.judged))
        bar.reach(done)
        notice.reach(done)

    try:
        with interruptible() as stop, progress_bar("judging", "games", wanted=bool(parts)) as bar:
            bar.start(total)
            for done in executor.map(task, parts, workers, stop, show):
                judged = judged.plus(done)
                show()
        for run_id in runs:
            roll_up_small(archive, run_id)
    finally:
        for run_id in runs:
            note_annotations(archive, run_id)
    if stop.is_set():
        console.print_note("interrupted: what is judged is kept; run the same command again to judge the rest")
        raise typer.Exit(exit_code())
    console.print_line(_summary(judged, time.perf_counter() - started, root, wanted))


def _files_with(root: PurePath, where: str | None) -> Callable[[str, StoredRange], bool]:
    """Whether one of the games in a range of a run meets a condition on the view ``games``, as a function."""
    if where is None:
        return lambda _run_id, _games: True
    with OpenArchive(root) as opened:
        selection = select(opened, where)
        met = {(record.run_id, games) for record in selection.runs for games, _ in selection.ranges(record)}
    return lambda run_id, games: (run_id, games) in met


def _summary(done: AnnotationSummary, seconds: float, root: PurePath, wanted: GameFilter) -> str:
    if not done.games:
        chosen = "all decisions" if wanted.where is None else "all decisions of these files"
        return f"Nothing to judge: {chosen} in {root} are judged."
    return (
        f"{done.decisions:,} decisions of {done.games:,} games judged in {seconds:.1f} s, "
        f"{format_pace(done.decisions, seconds)} a second; "
        f"see them in the view decisions, or with 'qarena mistakes{same_games(root, wanted.runs)}'"
    )


def same_games(root: PurePath, wanted: Sequence[str]) -> str:
    """The options that choose the same runs and archive in another command."""
    return "".join(f" --run {run_id}" for run_id in wanted) + archive_option(root)


REGRET_LEGEND = (
    "regret: exact value that a decision gave up, 1 from a win to a draw or from a draw to a loss, 2 from a win to a "
    "loss; blunders: decisions that gave up something"
)
PLY_LEGEND = "ply: from 0, the number of pieces on the board; otherwise as above"
WORST_LEGEND = (
    "most regret first, then the easiest; value: before the mistake, for the player that decides; saving: choices that "
    "keep it, of all; missed: blunders in this position; game and ply: the worst one ('qarena show' prints the game)"
)


def show_mistakes(root: PurePath, games: GameFilter, positions: int, output: TableOutput = PRINTED) -> None:
    """Print the regret of each agent and the worst mistakes, or of the agent in ``games`` alone.

    Another ``output`` gets the regrets alone, those of all plies with ``ply`` null. Raises ``RequestError`` if nothing
    is annotated.
    """
    archive = Archive.open(root)
    records = games.records(archive)
    runs, rules = [record.run_id for record in records], {record.rules.name for record in records}
    chosen = among(runs) if games.agent is None else f"{among(runs)} AND agent = {literal(games.agent)}"
    counted = f"qarena annotate{same_games(root, games.runs)} --choices"
    with open_archive(root) as opened:
        names = judged_agents(opened, chosen)
        totals, by_ply = (decision_summaries(opened, chosen, each, names) for each in (False, True))
        if totals.is_empty():
            raise RequestError(
                f"no decisions of these runs are judged in archive {root}: run '{counted}' first (without --choices it "
                "is faster, and says of no mistake how easy it was to avoid: docs/decisions.md)"
            )
        notes = [*names.notes, *repeated_games(opened, runs)]
        worst = worst_mistakes(opened, chosen, positions) if positions and output.is_printed else []
    if len(rules) > 1:
        notes.append(f"these are decisions under different rules, {', '.join(sorted(rules))}: --rules NAME chooses one")
    for note in notes:
        console.print_note(note)
    if not output.is_printed:
        write(pl.concat([totals, by_ply]), output)
        return
    _show(decision_columns(totals), "Regret in half-points a decision", REGRET_LEGEND)
    _show(decision_columns(by_ply), "By ply", PLY_LEGEND)
    if worst:
        _show(_mistake_columns(worst), "Worst mistakes, positions up to symmetry", WORST_LEGEND)
    if any(each.saving is None for each in worst):
        console.print_note(f"choices that keep the value are not counted everywhere: '{counted}' counts them")


def _show(columns: Sequence[ResultColumn], title: str, legend: str) -> None:
    """Print a table, and below it a line that says what its columns mean."""
    console.show([console.tabulated(columns, title)])
    console.print_line(legend)


def _mistake_columns(found: Sequence[Mistake]) -> list[ResultColumn]:
    from runners.exact.solve import VALUE_NAMES

    return [
        words("position", [each.text for each in found]),
        words("decision", [each.kind for each in found]),
        column("regret", [each.regret for each in found]),
        words("value", [VALUE_NAMES[each.value] for each in found]),
        ResultColumn("saving", [f"{'?' if each.saving is None else each.saving} of {each.choices}" for each in found]),
        column("missed", [each.missed for each in found]),
        words("game", [game_name(each.run_id, each.game_id) for each in found]),
        column("ply", [each.ply for each in found]),
    ]
