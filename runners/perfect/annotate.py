"""`qarena annotate` and `qarena mistakes`: judging decisions, and showing what was given up."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from analytics import open_archive
from analytics.perfect.annotate import Done, Settings, annotate_runs
from analytics.query.mistakes import DecisionSummary, HardPosition, among, decision_summaries, hardest_positions
from analytics.report import style
from analytics.report.figures import regret
from analytics.report.figures.chosen_games import ChosenGames, chosen_games
from analytics.report.page import mistakes_page
from analytics.store.archive import Archive, chosen_runs
from analytics.store.decisions import first_pieces, missing
from quarto.errors import RequestError
from runners.archive.report import check_place, write_file
from runners.arena.config import available_cores
from runners.arena.memory import check_tables
from runners.perfect.solvers import VALUE_NAMES
from runners.terminal import console


def annotate(
    root: Path, wanted: Sequence[str], choices: bool, from_pieces: int | None, threads: int | None, megabytes: float
) -> None:
    """Judge what is not judged yet and say what that came to. Raises ``RequestError`` for a run that is not there."""
    check_tables(megabytes)
    archive = Archive.open(root)
    runs = chosen_runs(archive, wanted)
    settings = Settings(choices, from_pieces, threads or available_cores(), megabytes)
    started = time.perf_counter()
    with _bar(_games_left(archive, runs, settings)) as look:
        done = annotate_runs(archive, runs, settings, look)
    console.out().print(_sentence(done, time.perf_counter() - started, root), markup=False, soft_wrap=True)


def _games_left(archive: Archive, runs: Sequence[str], settings: Settings) -> int:
    games = 0
    for run_id in runs:
        record = archive.run(run_id)
        if record is not None:
            first = first_pieces(record.rules) if settings.from_pieces is None else settings.from_pieces
            games += sum(commit.games.rows for commit in missing(archive, run_id, settings.choices, first))
    return games


def _sentence(done: Done, seconds: float, root: Path) -> str:
    if not done.shards:
        return f"Nothing to judge: all decisions in {root} are."
    speed = done.decisions / seconds
    return (
        f"{done.decisions:,} decisions of {done.games:,} games judged in {seconds:.1f} s, {speed:,.0f} a second; "
        "ask for them in the view decisions, or with 'qarena mistakes'"
    )


def show_mistakes(root: Path, wanted: Sequence[str], positions: int, html: Path | None, svg: Path | None) -> None:
    """Print what each agent gives up and the hardest positions. Raises ``RequestError`` if nothing is annotated."""
    charts = [path for path in (html, svg) if path]
    if charts:
        style.altair()  # before anything is read
    for path in charts:
        check_place(path)
    runs = chosen_runs(Archive.open(root), wanted)
    with open_archive(root) as archive:
        totals, by_ply = (decision_summaries(archive, among(runs), by_ply=each) for each in (False, True))
        if not totals:
            raise RequestError(f"no decisions of these runs are judged in archive {root}: run 'qarena annotate' first")
        hard = hardest_positions(archive, runs, positions) if positions else []
        if charts:
            _write(chosen_games(archive, among(runs)), html, svg)
    console.show([console.tabulated(_columns(totals, by_ply=False), "What is given up, in half-points a decision")])
    console.show([console.tabulated(_columns(by_ply, by_ply=True), "By ply")])
    if hard:
        console.show([console.tabulated(_hard_columns(hard), "Hardest positions, up to symmetry")])
    elif positions:
        console.say("for the hardest positions count choices: qarena annotate --choices")


def _write(chosen: ChosenGames, page: Path | None, picture: Path | None) -> None:
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


@contextmanager
def _bar(total: int) -> Iterator[Callable[[int], None]]:
    terminal = Console(stderr=True)
    if not (terminal.is_terminal and total):
        yield lambda _games: None
        return
    columns = (TextColumn("judging"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(compact=True))
    with Progress(*columns, console=terminal, transient=True) as bar:
        task = bar.add_task("judging", total=total)
        yield lambda games: bar.advance(task, games)
