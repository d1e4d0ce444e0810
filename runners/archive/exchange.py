"""What `qarena archive export` and `import` say and do around the exchange itself."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import typer
from rich.console import Console
from rich.progress import Progress, TextColumn, TimeElapsedColumn

from analytics.exchange.export import Done, Wish
from analytics.exchange.importing import TARGET, import_games
from analytics.exchange.importing import Done as Imported
from analytics.exchange.reading import Bad, read_text
from analytics.exchange.tags import Tags, checked
from analytics.store.archive import Archive
from quarto.errors import FailureError, RequestError
from runners.arena.config_groups import load_rules
from runners.arena.spec import code_by

STREAM = "-"  # a path that means the standard input or output


@contextmanager
def watched() -> Iterator[Callable[[int], None]]:
    """Takes how many games more were written, and shows how many there are by now, on a terminal."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda _games: None
        return
    with Progress(
        TextColumn("exporting {task.completed:,} games"), TimeElapsedColumn(), console=console, transient=True
    ) as bar:
        task = bar.add_task("", total=None)
        yield lambda games: bar.advance(task, games)


def said(done: Done, wish: Wish, output: str) -> str:
    """What was written, in a sentence."""
    if done.episodes is None:
        return f"{_games(done.games)} written to {output}"
    left_out = done.games - done.episodes
    rest = f"; {_games(left_out)} without a known turn left out" if left_out else ""
    return (
        f"{done.episodes:,} episodes, {done.steps:,} steps written to {output}, rewards for {wish.perspective}, at the "
        f"end only{rest}"
    )


def bring_in(root: Path, file: str, rules: str, event: str | None, skip_bad: bool, command: str) -> int:
    """Import a file and say what became of it; the exit code, 1 if bad lines were skipped.

    Raises ``RequestError`` for a file that cannot be read, holds no game, or has bad lines and they are not skipped.
    """
    rules_of = cache(load_rules)
    rules_of(rules)
    usual = Tags(rules=rules, event="" if event is None else checked("--name", event))
    text = read_text(_content(file), usual, rules_of)
    source = "stdin" if file == STREAM else file
    if text.bad and not skip_bad:
        hint = "--skip-bad imports the others" if len(text.tags) else "no other line is a game"
        raise RequestError(f"{_complaint(source, text.bad[0], len(text.bad) - 1)} ({hint})")
    for bad in text.bad:
        typer.echo(_complaint(source, bad), err=True)
    if not len(text.tags):
        if text.bad:
            raise FailureError(f"{source}: no line is a game, so nothing was imported")
        raise RequestError(f"{source} holds no game: a line of it looks like F@b1 3@b2 7@c4")
    known = {name: rules_of(name) for name in {text.known[at].rules for at in set(text.tags.tolist())}}
    code = code_by([TARGET], learning=False)
    for done in import_games(Archive.open(root, create=True), text, known, code, command):
        typer.echo(_became(done))
    return 1 if text.bad else 0


def _content(file: str) -> bytes:
    if file == STREAM:
        return sys.stdin.buffer.read()
    try:
        return Path(file).read_bytes()
    except OSError as error:
        raise RequestError(
            f"{file} cannot be read: {error.strerror or error}; name a text file, or - for stdin"
        ) from error


def _complaint(source: str, bad: Bad, others: int = 0) -> str:
    more = f"; {others:,} more bad line{'s' * (others > 1)}" if others else ""
    return f"{source}, line {bad.line}: {bad.reason}{more}"


def _became(done: Imported) -> str:
    heading = done.heading
    what = ", ".join([heading.rules, *filter(None, (heading.event, heading.date))])
    opening = f", {heading.opening} plies imposed" if heading.opening else ""
    there = done.games - done.added
    return f"run {done.run_id} ({what}{opening}): {_games(done.added)} added" + (
        f", {there:,} were there" if there else ""
    )


def _games(count: int) -> str:
    return f"{count:,} game{'s' * (count != 1)}"
