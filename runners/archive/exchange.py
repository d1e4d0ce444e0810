"""`qarena archive export` and `import`: messages, progress and files around the exchange."""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path, PurePath

import typer

from analytics import open_archive
from analytics.exchange.export import Exported, ExportRequest, export, export_to
from analytics.exchange.importing import TARGET, ImportedRun, import_games
from analytics.exchange.text import BadLine, Tags, checked_text, read_text
from analytics.store.archive import Archive
from analytics.upkeep.rolling import roll_up_small
from quarto.errors import FailureError, RequestError
from runners.arena.code import code_by
from runners.arena.config_groups import load_rules
from runners.terminal.console import progress_bar
from runners.terminal.files import STREAM, read_file


def export_games(root: PurePath, request: ExportRequest, output: str, force: bool) -> None:
    """Write games to ``output`` and print how many; ``-`` is the standard output. Raises as ``export`` does."""
    with open_archive(root) as opened:
        if output == STREAM:
            export_to(opened, request, sys.stdout.buffer)
            sys.stdout.buffer.flush()
            return
        with progress_bar("exporting", "games") as bar:
            bar.start(None)
            exported = export(opened, request, Path(output), force, bar.advance)
    typer.echo(_export_summary(exported, request, output))


def _export_summary(exported: Exported, request: ExportRequest, output: str) -> str:
    if exported.episodes is None:
        return f"{_games(exported.games)} written to {output}"
    left_out = exported.games - exported.episodes
    rest = f"; {_games(left_out)} left out, since no turn in them is known" if left_out else ""
    return (
        f"{exported.episodes:,} episodes, {exported.steps:,} steps written to {output}, rewards for "
        f"{request.perspective}, at the end only{rest}"
    )


def import_file(root: PurePath, file: str, rules: str, event: str | None, skip_bad: bool, command: str) -> int:
    """Import a file and print what was added. Returns the exit code: 1 if bad lines were skipped.

    Raises ``RequestError`` for a file that cannot be read, has no game, or has bad lines unless ``skip_bad``.
    """
    rules_of = cache(load_rules)
    rules_of(rules)
    defaults = Tags(rules=rules, event="" if event is None else checked_text("--name", event))
    text = read_text(read_file(file), defaults, rules_of)
    source = "stdin" if file == STREAM else file
    if text.bad and not skip_bad:
        hint = "--skip-bad imports the others" if len(text.tags) else "no other line is a game"
        raise RequestError(f"{_bad_line(source, text.bad[0], len(text.bad) - 1)} ({hint})")
    for bad in text.bad:
        typer.echo(_bad_line(source, bad), err=True)
    if not len(text.tags):
        if text.bad:
            raise FailureError(f"{source}: no line is a game, so nothing was imported")
        raise RequestError(f"{source} has no game: a line of it looks like F@b1 3@b2 7@c4")
    known = {name: rules_of(name) for name in {text.known[at].rules for at in set(text.tags.tolist())}}
    code = code_by([TARGET], learning=False)
    archive = Archive.open(root, create=True)
    imported = import_games(archive, text, known, code, command)
    for run in imported:
        roll_up_small(archive, run.run_id)  # a text that grows day by day leaves a file each day
        typer.echo(_import_summary(run))
    for lost in sorted({record.run_id for record in text.records} - {run.run_id for run in imported}):
        typer.echo(f"run {lost} is not whole in {source}: its games are single games, without pairs", err=True)
    return 1 if text.bad else 0


def _bad_line(source: str, bad: BadLine, others: int = 0) -> str:
    more = f"; {others:,} more bad line{'s' * (others > 1)}" if others else ""
    return f"{source}, line {bad.line}: {bad.reason}{more}"


def _import_summary(run: ImportedRun) -> str:
    heading = run.heading
    what = ", ".join([heading.rules, *filter(None, (heading.event, heading.date))])
    opening = f", {heading.opening} plies imposed" if heading.opening else ""
    known = run.games - run.added
    return f"run {run.run_id} ({what}{opening}): {_games(run.added)} added" + (
        f", {known:,} were in the archive already" if known else ""
    )


def _games(count: int) -> str:
    return f"{count:,} game{'s' * (count != 1)}"
