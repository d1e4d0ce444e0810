"""``qarena tablebase``: values of all boards of up to n pieces, built, checked and shown."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from analytics.perfect.tablebase import Tablebase
    from analytics.perfect.tablebase_build import Job, Progress

SAMPLE = 20
MEGABYTES = 256.0

app = typer.Typer(help="Exact values of all boards of up to n pieces.", no_args_is_help=True, rich_markup_mode=None)


@app.command()
def build(
    pieces: Annotated[int, typer.Option("--pieces", help="Of the largest boards: 1 to 7.")],
    rules: Annotated[str, typer.Option("--rules", help="The rules to solve under.")] = "classic",
    directory: Annotated[
        Path | None, typer.Option("--directory", help="Default: $QARENA_TABLEBASE, else in the user's data folder.")
    ] = None,
    megabytes: Annotated[float, typer.Option("--megabytes", help="Of the table that searches share.")] = MEGABYTES,
    threads: Annotated[int | None, typer.Option("--threads", help="Default: all cores.")] = None,
) -> None:
    """Build a tablebase, or go on building it."""
    from analytics.perfect import tablebase_build
    from analytics.perfect.tablebase import home
    from quarto.sources import source_fingerprint
    from runners.arena.config import available_cores, load_rules
    from runners.arena.experiment import interruptible
    from runners.arena.memory import available_megabytes
    from runners.arena.spec import version
    from runners.terminal.console import say

    cores = available_cores() if threads is None else threads
    job = tablebase_build.Job(load_rules(rules), pieces, directory or home(), cores, megabytes)
    tablebase_build.check(job, available_megabytes())
    needed = tablebase_build.needed_megabytes(job)
    say(f"{job.rules.name}, boards of up to {pieces} pieces: {needed:,.0f} MB of memory at most, {cores} threads")
    code = {"version": version(), "fingerprint": source_fingerprint(("quarto",))[:16]}
    with interruptible() as stop, _progress() as progress:
        found = tablebase_build.build(job, code, stop, progress)
    if found is None:
        say(f"interrupted; what is solved is kept in {job.chunks}. Run the same command again to go on:")
        say(f"  {_command(job)}")
        raise typer.Exit(130)
    _say_built(found)


def _command(job: Job) -> str:
    import shlex

    from runners.terminal.console import program

    where = shlex.quote(str(job.folder))
    return (
        f"{program()} tablebase build --pieces {job.pieces} --rules {shlex.quote(job.rules.name)} --directory {where} "
        f"--megabytes {job.megabytes:g} --threads {job.threads}"
    )


def _say_built(found: Tablebase) -> None:
    card = found.card
    boards = sum(card.boards)
    typer.echo(
        f"{found.path}: {boards:,} boards, {card.bytes:,} bytes ({card.bytes / boards:.2f} a board), "
        f"{card.seconds:,.0f} seconds of one thread"
    )


@contextmanager
def _progress() -> Iterator[Progress]:
    """A bar with boards a second and the time left, on a terminal; nothing elsewhere."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as RichProgress

    from analytics.perfect.tablebase_build import Progress

    console = Console(stderr=True)
    if not console.is_terminal:
        yield Progress(lambda _boards, _solved: None, lambda _boards: None)
        return
    columns = (BarColumn(), TaskProgressColumn(), MofNCompleteColumn(), TextColumn("{task.fields[speed]} boards/s"))
    left = TimeRemainingColumn(compact=True)
    with RichProgress(TextColumn("solving"), *columns, left, console=console, transient=True) as bar:
        task = bar.add_task("solving", total=None, speed="0")

        def start(boards: int, solved: int) -> None:
            bar.update(task, total=boards, completed=solved)

        def advance(boards: int) -> None:
            bar.update(task, advance=boards, speed=f"{bar.tasks[task].speed or 0:,.1f}")

        yield Progress(start, advance)


@app.command()
def verify(
    file: Annotated[Path | None, typer.Argument(help="A tablebase; default: all there are.")] = None,
    sample: Annotated[int, typer.Option("--sample", help="How many of the largest boards to solve anew.")] = SAMPLE,
    megabytes: Annotated[float, typer.Option("--megabytes", help="Of the table for solving them.")] = MEGABYTES,
) -> None:
    """Check a tablebase: checksum, boards, values against one another, and a sample solved anew."""
    from analytics.perfect.tablebase import open_tablebase, tablebases
    from analytics.perfect.tablebase_verify import verify as check
    from quarto.errors import RequestError

    if sample < 0 or not megabytes > 0:
        raise RequestError(
            f"sample={sample}, megabytes={megabytes:g}: ask for a sample of 0 or more and for some memory"
        )
    if file is not None and not file.with_suffix(".json").exists():
        raise RequestError(f"there is no tablebase {file} (it has no card {file.with_suffix('.json').name} beside it)")
    problems = 0
    for found in [open_tablebase(file)] if file else list(tablebases()):
        wrong = list(check(found, sample, megabytes))
        problems += len(wrong)
        for line in wrong:
            typer.echo(line, err=True)
        typer.echo(f"{found.path}: {sum(found.card.boards):,} boards, {len(wrong) or 'no'} problem(s)")
    raise typer.Exit(1 if problems else 0)


@app.command("show")
def show_tablebases(
    rules: Annotated[str | None, typer.Option("--rules", help="Only those of these rules.")] = None,
    theory: Annotated[
        bool, typer.Option("--theory", help="What the largest of each rules says, as Markdown: docs/theory.md.")
    ] = False,
) -> None:
    """List the tablebases with their boards by pieces and value."""
    from analytics.perfect.tablebase import largest_for, same_game, tablebases
    from analytics.perfect.theory import report
    from quarto.errors import RequestError
    from runners.arena.config import load_rules
    from runners.arena.config_groups import names
    from runners.perfect.tablebase_tables import tablebase_tables
    from runners.terminal.console import show

    if theory:
        asked = [load_rules(rules)] if rules else [load_rules(name) for name in names("rules")]
        typer.echo(report([found for found in map(largest_for, asked) if found]), nl=False)
        return
    known = list(tablebases())
    chosen = [found for found in known if rules is None or same_game(found.rules, load_rules(rules))]
    if not chosen:
        raise RequestError(f"there is no tablebase{f' for rules {rules}' if rules else ''}: build one")
    show(tablebase_tables(chosen))
