"""`qarena annotate` and `qarena mistakes`: judge decisions by exact values, and show the regret of agents."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePath

import polars as pl
import typer

from analytics import open_archive
from analytics.derived_tables.decisions import note_annotations
from analytics.derived_tables.jobs import StoppedError
from analytics.files.location import location_of
from analytics.perfect.annotate import (
    AnnotationPart,
    AnnotationSettings,
    AnnotationSummary,
    Annotator,
    annotation_parts,
)
from analytics.query.mistakes import (
    HardPosition,
    decision_summaries,
    hardest_positions,
    judged_agents,
    repeated_games,
)
from analytics.report import style
from analytics.report.figures import regret
from analytics.report.figures.reported_games import ReportedGames, reported_games
from analytics.report.page import mistakes_page
from analytics.results.columns import ResultColumn, column, decision_columns, words
from analytics.sql.views import among
from analytics.store.archive import Archive, chosen_runs
from analytics.upkeep.rolling import roll_up_small
from quarto.errors import RequestError
from runners.executors.base import Executor, Stop, Task
from runners.executors.machine import available_cores, check_tables
from runners.hosting.interruption import INTERRUPTED, interruptible
from runners.perfect.solvers import VALUE_NAMES
from runners.terminal import console
from runners.terminal.files import write_file
from runners.terminal.progress import progress_bar
from runners.terminal.tables import PRINTED, TableOutput, write


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
    root: PurePath, wanted: Sequence[str], settings: AnnotationSettings, threads: int | None, executor: Executor
) -> None:
    """Judge the decisions that are not judged yet. Raises ``RequestError`` for an unknown run."""
    workers = threads or available_cores()
    check_tables(settings.megabytes, executor.here(workers))
    archive = Archive.open(root)
    runs = chosen_runs(archive, wanted)
    started = time.perf_counter()
    parts = [*annotation_parts(archive, runs, settings, workers)]
    games = {run_id: archive.known_run(run_id).line.games_a_pair for run_id in runs}
    task = AnnotateTask(str(root), settings.choices, settings.from_pieces, settings.megabytes)
    judged = AnnotationSummary()

    def show() -> None:
        bar.reach(max(judged.games, sum(task.judged)))

    try:
        with interruptible() as stop, progress_bar("judging", "games", wanted=bool(parts), notes=True) as bar:
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


def _summary(done: AnnotationSummary, seconds: float, root: PurePath, wanted: Sequence[str]) -> str:
    if not done.games:
        return f"Nothing to judge: all decisions in {root} are judged."
    speed = done.decisions / seconds
    return (
        f"{done.decisions:,} decisions of {done.games:,} games judged in {seconds:.1f} s, {speed:,.0f} a second; "
        f"see them in the view decisions, or with 'qarena mistakes{_same_games(root, wanted)}'"
    )


def _same_games(root: PurePath, wanted: Sequence[str]) -> str:
    """The options that choose the same runs and archive in another command."""
    return "".join(f" --run {run_id}" for run_id in wanted) + console.archive_option(root)


def show_mistakes(
    root: PurePath,
    wanted: Sequence[str],
    positions: int,
    html: Path | None,
    svg: Path | None,
    output: TableOutput = PRINTED,
) -> None:
    """Print the regret of each agent and the hardest positions. Raises ``RequestError`` if nothing is annotated.

    Another ``output`` gets the regrets alone, those of all plies with ``ply`` null.
    """
    runs = chosen_runs(Archive.open(root), wanted)
    counted = f"qarena annotate{_same_games(root, wanted)} --choices"
    with open_archive(root) as archive:
        names = judged_agents(archive, among(runs))
        totals, by_ply = (decision_summaries(archive, among(runs), each, names) for each in (False, True))
        if totals.is_empty():
            raise RequestError(
                f"no decisions of these runs are judged in archive {root}: run '{counted}' first (without --choices it "
                "is faster, and the hardest positions are missing: docs/decisions.md)"
            )
        notes = [*names.notes, *repeated_games(archive, runs)]
        hard = hardest_positions(archive, runs, positions) if positions and output.is_printed else []
        if html or svg:
            _write(reported_games(archive, among(runs)), html, svg)
    for note in notes:
        console.print_note(note)
    if not output.is_printed:
        write(pl.concat([totals, by_ply]), output)
        return
    console.show([console.tabulated(decision_columns(totals), "Regret in half-points a decision")])
    console.show([console.tabulated(decision_columns(by_ply), "By ply")])
    if hard:
        console.show([console.tabulated(_hard_columns(hard), "Hardest positions, up to symmetry")])
    elif positions:
        console.print_note(f"the hardest positions need counted choices: run '{counted}'")


def _write(chosen: ReportedGames, page: Path | None, picture: Path | None) -> None:
    """Blunders by agent and ply, as a page and as SVG. Raises ``FailureError`` when a file cannot be written."""
    frame = regret.mistakes_frame(chosen, by_ply=True)
    if page:
        write_file(page, mistakes_page(frame, chosen).encode())
    if picture:
        write_file(picture, style.svg(regret.mistakes_picture(frame, chosen)).encode())


def _hard_columns(found: Sequence[HardPosition]) -> list[ResultColumn]:
    return [
        words("position", [each.text for each in found]),
        words("decision", [each.kind for each in found]),
        words("value", [VALUE_NAMES[each.value] for each in found]),
        ResultColumn("saving", [f"{each.saving} of {each.choices}" for each in found]),
        column("missed", [each.missed for each in found]),
    ]
