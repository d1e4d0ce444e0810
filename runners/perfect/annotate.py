"""`qarena annotate` and `qarena mistakes`: judge decisions by exact values, and show the regret of agents."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePath

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
    DecisionSummary,
    HardPosition,
    decision_summaries,
    hardest_positions,
    judged_agents,
)
from analytics.report import style
from analytics.report.figures import regret
from analytics.report.figures.reported_games import ReportedGames, reported_games
from analytics.report.page import mistakes_page
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
from runners.terminal.progress import ProgressBar, progress_bar

NOTE_SECONDS = 30.0  # between two lines about the games that are judged, where no bar is shown


@dataclass
class Count:
    """The number of games that were judged in this process."""

    games: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, games: int) -> None:
        with self.lock:
            self.games += games


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
            return annotator.annotate(part, self.judged.add, end_if_asked)
        return AnnotationSummary()

    @property
    def judged(self) -> Count:
        """The games that were judged in this process, those of parts in progress included."""
        return self.once("judged", Count)


class Judging:
    """What is judged so far: shown in a bar, or in a line now and then where there is no terminal."""

    def __init__(self, bar: ProgressBar, here: Count, games: int) -> None:
        """``games`` are to be judged; ``here`` counts those that this process judges."""
        self.done = AnnotationSummary()
        self._bar, self._here, self._games = bar, here, games
        self._started = self._noted = time.monotonic()
        bar.start(games)

    def take(self, done: AnnotationSummary) -> None:
        """A part is judged and stored."""
        self.done = self.done.plus(done)
        self.show()

    def show(self) -> None:
        """Show how far it has come."""
        games, now = max(self.done.games, self._here.games), time.monotonic()
        self._bar.reach(games)
        if not self._bar.is_shown and now - self._noted >= NOTE_SECONDS:
            self._noted = now
            console.print_note(f"judging: {games:,} of {self._games:,} games after {now - self._started:.0f} s")


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
    try:
        with interruptible() as stop, progress_bar("judging", "games", wanted=bool(parts)) as bar:
            judging = Judging(bar, task.judged, sum(each.part.units * games[each.part.run_id] for each in parts))
            for done in executor.map(task, parts, workers, stop, judging.show):
                judging.take(done)
        for run_id in runs:
            roll_up_small(archive, run_id)
    finally:
        for run_id in runs:
            note_annotations(archive, run_id)
    if stop.is_set():
        console.print_note("interrupted: what is judged is kept; run the same command again to judge the rest")
        raise typer.Exit(INTERRUPTED)
    console.print_line(_summary(judging.done, time.perf_counter() - started, root))


def _summary(done: AnnotationSummary, seconds: float, root: PurePath) -> str:
    if not done.games:
        return f"Nothing to judge: all decisions in {root} are judged."
    speed = done.decisions / seconds
    return (
        f"{done.decisions:,} decisions of {done.games:,} games judged in {seconds:.1f} s, {speed:,.0f} a second; "
        "see them in the view decisions, or with 'qarena mistakes'"
    )


def show_mistakes(root: PurePath, wanted: Sequence[str], positions: int, html: Path | None, svg: Path | None) -> None:
    """Print the regret of each agent and the hardest positions. Raises ``RequestError`` if nothing is annotated."""
    runs = chosen_runs(Archive.open(root), wanted)
    with open_archive(root) as archive:
        names = judged_agents(archive, among(runs))
        totals, by_ply = (decision_summaries(archive, among(runs), each, names) for each in (False, True))
        if not totals:
            raise RequestError(f"no decisions of these runs are judged in archive {root}: run 'qarena annotate' first")
        hard = hardest_positions(archive, runs, positions) if positions else []
        if html or svg:
            _write(reported_games(archive, among(runs)), html, svg)
    for note in names.notes:
        console.print_note(note)
    console.show([console.tabulated(_columns(totals, by_ply=False), "Regret in half-points a decision")])
    console.show([console.tabulated(_columns(by_ply, by_ply=True), "By ply")])
    if hard:
        console.show([console.tabulated(_hard_columns(hard), "Hardest positions, up to symmetry")])
    elif positions:
        console.print_note("the hardest positions need counted choices: run 'qarena annotate --choices'")


def _write(chosen: ReportedGames, page: Path | None, picture: Path | None) -> None:
    """Blunders by agent and ply, as a page and as SVG. Raises ``FailureError`` when a file cannot be written."""
    frame = regret.mistakes_frame(chosen, by_ply=True)
    if page:
        write_file(page, mistakes_page(frame, chosen).encode())
    if picture:
        write_file(picture, style.svg(regret.mistakes_picture(frame, chosen)).encode())


def _columns(found: Sequence[DecisionSummary], by_ply: bool) -> list[console.Column]:
    columns = [
        console.Column("agent", [each.agent for each in found], right=False),
        console.Column("kind", [each.kind for each in found], right=False),
    ]
    if by_ply:
        columns.append(console.Column("ply", [str(each.ply) for each in found]))
    return [
        *columns,
        console.Column("decisions", [f"{each.decisions:,}" for each in found]),
        console.Column("mean regret", [f"{each.regret.mean:.4f}" for each in found]),
        console.Column("95 % interval", [f"{each.regret.low:.4f}–{each.regret.high:.4f}" for each in found]),  # noqa: RUF001
        console.Column("blunders, %", [console.percent(each.blunders.mean) for each in found]),
        console.Column("95 % interval", [console.interval(each.blunders) for each in found]),
    ]


def _hard_columns(found: Sequence[HardPosition]) -> list[console.Column]:
    return [
        console.Column("position", [each.text for each in found], right=False),
        console.Column("decision", [each.kind for each in found], right=False),
        console.Column("value", [VALUE_NAMES[each.value] for each in found], right=False),
        console.Column("saving", [f"{each.saving} of {each.choices}" for each in found]),
        console.Column("missed", [f"{each.missed:,}" for each in found]),
    ]
