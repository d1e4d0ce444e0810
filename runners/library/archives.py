"""Functions that extend an archive or show it: ``annotate``, ``index``, ``name_run``, ``serve``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from analytics.arguments import Run, list_run_id_texts, to_run_id_text
from analytics.store.files.backend import DEFAULT_ARCHIVE
from quarto.errors import RequestError
from runners.library.calls import Location, find_archive_root, take_turn

if TYPE_CHECKING:
    from analytics.report.result import Result


def annotate(
    archive: Location = DEFAULT_ARCHIVE,
    *,
    run: Run | Iterable[Run] = (),
    where: str | None = None,
    choices: bool = False,
    threads: int | None = None,
) -> Result:
    """Judge the decisions of games by exact values, as ``qarena annotate`` does, and return the mistakes of each agent.

    Decisions that were judged before are not judged again. After Ctrl-C, finished work is kept and
    ``KeyboardInterrupt`` is raised.

    Args:
        archive: The archive, its folder or its URL.
        run: Runs, by their ids or by results about one run; none means all runs.
        where: A condition on the view ``games``; every file with a game that meets the condition is judged as a whole.
        choices: Whether to count also, for each decision, the choices that would have kept the value. This takes
            longer.
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
    from analytics.report.result import Result
    from analytics.store.archive import ArchiveStore, find_run_id
    from analytics.store.records import RUN_ID
    from runners.arena.executors.base import THREADS
    from runners.exact.annotation import annotate_games

    if isinstance(archive, Result) or (isinstance(archive, str) and RUN_ID.fullmatch(archive)):
        raise RequestError(f"the first argument is an archive: name a run as run={to_run_id_text(archive)!r}")
    root = find_archive_root(archive)
    store = ArchiveStore.open(root)
    runs = tuple(find_run_id(store, run_id) for run_id in list_run_id_texts(run))
    with take_turn():
        try:
            annotate_games(root, GameFilter(where, runs), AnnotationOptions(choices), threads, THREADS)
        except typer.Exit as exit_request:
            raise KeyboardInterrupt("judged games are kept, the same call judges the rest") from exit_request
    with open_archive(root) as opened_archive:
        return opened_archive.mistakes(run=runs or None, where=where)


def index(archive: Location = DEFAULT_ARCHIVE) -> None:
    """Index the positions of all games that are not indexed yet.

    The view ``positions`` needs this index, and questions about openings are faster with it. ``qarena sql`` indexes
    positions when necessary, but a query from Python never writes to the archive. An ``Archive`` that is already open
    uses the new index only after ``refresh``.

    Args:
        archive: The archive, its folder or its URL.

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
        store = ArchiveStore.open(find_archive_root(archive))
        index_and_compact_sums(store, store.list_ids_of_runs_with_games())


def name_run(run: Run, name: str | None = None, note: str | None = None, archive: Location = DEFAULT_ARCHIVE) -> None:
    """Give a run a name and a note for people, as ``qarena archive name`` does.

    Neither changes the run: its id and its games stay as they are.

    Args:
        run: The run, by its id, by the first digits of its id, or by a result about this run.
        name: The name, in one line of at most 80 characters. None leaves the present name, and "" removes it.
        note: The note, of at most 2,000 characters. None leaves the present note, and "" removes it.
        archive: The archive, its folder or its URL.

    Raises:
        RequestError: The run does not exist, or a text is too long or has hidden characters.
        FailureError: The archive cannot be written to.

    Examples:
        >>> import tempfile, analytics, runners
        >>> root = tempfile.mkdtemp() + "/archive"
        >>> match = runners.run("dumb", "random", games=2, progress=False, archive=root, name="first try")
        >>> runners.name_run(match, note="too few games", archive=root)
        >>> analytics.open_archive(root).runs().frame.select("name", "note").row(0)
        ('first try', 'too few games')

    """
    from analytics.store.archive import ArchiveStore, find_run_id
    from analytics.store.run_notes import update_note

    store = ArchiveStore.open(find_archive_root(archive))
    update_note(store, find_run_id(store, to_run_id_text(run)), name, note)


def serve(archive: Location = DEFAULT_ARCHIVE, host: str = "127.0.0.1", port: int = 8000) -> None:
    """Serve pages for playing, analysing, browsing and asking questions, as ``qarena serve`` does, until Ctrl-C.

    Args:
        archive: The archive, its folder or its URL.
        host: The address to listen on; any address but the default lets other machines connect.
        port: The port; 0 means any free port.

    Raises:
        RequestError: The extra ``web`` is not installed, or the address cannot be used.

    """
    from runners.web import server

    server.serve(find_archive_root(archive), host, port, None, None, False, "runners.serve")
