"""What is derived from an archive, or shows it: ``annotate``, ``index``, ``serve``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING

from analytics.store.files.backend import DEFAULT_ARCHIVE, parse_location
from runners.library.calls import take_turn

if TYPE_CHECKING:
    from analytics.report.result import Result


def annotate(
    archive: str | PurePath = DEFAULT_ARCHIVE,
    *,
    run: str | Sequence[str] = (),
    where: str | None = None,
    choices: bool = False,
    threads: int | None = None,
) -> Result:
    """Judge the decisions of games by exact values, as ``qarena annotate`` does, and return ``Archive.mistakes``.

    What is judged already is not judged again. Ctrl-C keeps what is finished and raises ``KeyboardInterrupt``.

    Args:
        archive: The archive's folder or URL.
        run: Ids of runs; none: all.
        where: A condition on the view ``games``; whole files in which a game meets it are judged.
        choices: Also count the choices that keep the value, which takes longer.
        threads: None: all cores.

    Raises:
        RequestError: A run is not there, or no game meets the condition.
        FailureError: A file is damaged, or cannot be written.

    """
    import typer

    from analytics import open_archive
    from analytics.exact.annotation import AnnotationOptions
    from analytics.questions.selection import GameFilter
    from runners.arena.executors.base import THREADS
    from runners.exact.annotation import annotate_games

    root, runs = parse_location(archive), (run,) if isinstance(run, str) else tuple(run)
    with take_turn():
        try:
            annotate_games(root, GameFilter(where, runs), AnnotationOptions(choices), threads, THREADS)
        except typer.Exit as interrupted:
            raise KeyboardInterrupt("what is judged is kept, the same call judges the rest") from interrupted
    with open_archive(root) as opened:
        return opened.mistakes(run=runs or None, where=where)


def index(archive: str | PurePath = DEFAULT_ARCHIVE) -> None:
    """Index the positions of all games that are not indexed yet, for the view ``positions`` and quick openings.

    ``qarena sql`` does it by itself; a question from Python never writes. An archive that is open sees the index after
    ``refresh``. Raises ``FailureError`` if the archive cannot be written.
    """
    from analytics.store.archive import ArchiveStore
    from runners.arena.indexing import index_and_compact_sums

    with take_turn():
        opened = ArchiveStore.open(parse_location(archive))
        index_and_compact_sums(opened, opened.list_run_ids())


def serve(archive: str | PurePath = DEFAULT_ARCHIVE, host: str = "127.0.0.1", port: int = 8000) -> None:
    """Play, analyse, browse and ask in a browser, as ``qarena serve`` does, until Ctrl-C. Needs the extra ``web``."""
    from runners.web import server

    server.serve(parse_location(archive), host, port, None, None, False)
