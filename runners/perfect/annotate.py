"""`qarena annotate`: judge decisions by exact values."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import PurePath

import typer

from analytics.derived_tables.decisions import note_annotations
from analytics.derived_tables.jobs import StoppedError
from analytics.files.backend import location_of
from analytics.perfect.annotate import (
    AnnotationPart,
    AnnotationSettings,
    AnnotationSummary,
    Annotator,
    annotation_parts,
)
from analytics.query.game_filter import GameFilter
from analytics.query.selection import select
from analytics.sql.database import OpenArchive
from analytics.store.archive import Archive, chosen_runs
from analytics.store.ranges import StoredRange
from analytics.upkeep.rolling import roll_up_small
from runners.executors.base import Executor, Stop, Task, available_cores, check_tables
from runners.hosting.interruption import INTERRUPTED, interruptible
from runners.terminal import console
from runners.terminal.console import progress_bar


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
    judged = AnnotationSummary()

    def show() -> None:
        bar.reach(max(judged.games, sum(task.judged)))

    try:
        with interruptible() as stop, progress_bar("judging", "games", wanted=bool(parts)) as bar:
            bar.start(sum(each.part.units * games[each.part.run_id] for each in parts))
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
        raise typer.Exit(INTERRUPTED)
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
    speed = done.decisions / seconds
    return (
        f"{done.decisions:,} decisions of {done.games:,} games judged in {seconds:.1f} s, {speed:,.0f} a second; "
        f"see them in the view decisions, or with 'qarena mistakes{same_games(root, wanted.runs)}'"
    )


def same_games(root: PurePath, wanted: Sequence[str]) -> str:
    """The options that choose the same runs and archive in another command."""
    return "".join(f" --run {run_id}" for run_id in wanted) + console.archive_option(root)
