"""Functions that extend an archive or show it: ``annotate``, ``index``, ``serve``."""

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
    """Judge the decisions of games by exact values, as ``qarena annotate`` does, and return the mistakes of each agent.

    Decisions that were judged before are not judged again. After Ctrl-C, finished work is kept and
    ``KeyboardInterrupt`` is raised.

    Args:
        archive: The archive's folder or URL.
        run: The ids of runs; none means all runs.
        where: A condition on the view ``games``; every file with a game that meets the condition is judged as a whole.
        choices: Whether to count the choices that keep the value, too, which takes longer.
        threads: The number of threads; None means one for each core.

    Returns:
        The mistakes of each agent, as ``Archive.mistakes`` returns them.

    Raises:
        RequestError: A run does not exist, or no game meets the condition.
        FailureError: A file is damaged or cannot be written.

    Examples:
        >>> import tempfile, runners
        >>> root = tempfile.mkdtemp() + "/archive"
        >>> match = runners.run("rule_based", "random", games=2, progress=False, archive=root)
        >>> runners.annotate(root, run=match.run_id).frame["agent"].unique().sort().to_list()
        ['random', 'rule_based']

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
        except typer.Exit as exit_request:
            raise KeyboardInterrupt("judged games are kept, the same call judges the rest") from exit_request
    with open_archive(root) as opened_archive:
        return opened_archive.mistakes(run=runs or None, where=where)


def index(archive: str | PurePath = DEFAULT_ARCHIVE) -> None:
    """Index the positions of all games that are not indexed yet.

    The view ``positions`` needs this index, and questions about openings are faster with it. ``qarena sql`` indexes
    positions when necessary, but a question from Python never writes to the archive. An archive that is already open
    sees the index after ``refresh``.

    Args:
        archive: The archive's folder or URL.

    Raises:
        RequestError: The archive does not exist.
        FailureError: The archive cannot be written.

    Examples:
        >>> import tempfile, analytics, runners
        >>> root = tempfile.mkdtemp() + "/archive"
        >>> match = runners.run("random", "dumb", games=2, progress=False, archive=root)
        >>> runners.index(root)
        >>> analytics.open_archive(root).sql("SELECT sum(games) FROM positions WHERE ply = 0").item()
        2

    """
    from analytics.store.archive import ArchiveStore
    from runners.arena.indexing import index_and_compact_sums

    with take_turn():
        store = ArchiveStore.open(parse_location(archive))
        index_and_compact_sums(store, store.list_ids_of_runs_with_games())


def serve(archive: str | PurePath = DEFAULT_ARCHIVE, host: str = "127.0.0.1", port: int = 8000) -> None:
    """Serve pages for playing, analysing, browsing and asking questions, as ``qarena serve`` does, until Ctrl-C.

    Args:
        archive: The archive's folder or URL.
        host: The address to listen on; any address but the default lets other machines connect.
        port: The port; 0 means any free port.

    Raises:
        RequestError: The extra ``web`` is not installed, or the address cannot be used.

    """
    from runners.web import server

    server.serve(parse_location(archive), host, port, None, None, False, "runners.serve")
