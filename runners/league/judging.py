"""Playing and judging in one go: what ``qarena league play`` and ``runners.play_league`` do."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from analytics.exact.annotation import AnnotationOptions
from analytics.questions.selection import GameFilter
from analytics.store.archive import ArchiveStore
from analytics.store.texts import format_count_with_noun
from quarto.errors import FailureError
from runners.exact.annotation import annotate_games
from runners.hosting.interruption import stop_on_signal_then_interrupt_then_exit
from runners.league.entry_reports import report_path
from runners.league.league_file import League
from runners.league.playing import LeagueOutcome, LeaguePlayOptions, play_missing_games
from runners.terminal.console import show_progress_bar_or_notes

LOG_FILE = "play.log"


class PlaySummary(NamedTuple):
    """What a call of ``play_and_judge`` has done."""

    lines: tuple[str, ...]  # sentences about it
    stopped: bool  # the user asked for it while games were played


def play_and_judge(league: League, options: LeaguePlayOptions, show_progress: bool = True) -> PlaySummary:
    """Play the games that a league lacks, and judge those that are not judged, if the league wants that.

    Raises the errors of ``play_missing_games`` and of ``annotate_games``.
    """
    with (
        log_to_file(league.folder / LOG_FILE),
        stop_on_signal_then_interrupt_then_exit() as stop,
        show_progress_bar_or_notes("playing", "games", show_progress) as bar,
    ):
        outcome = play_missing_games(league, options, stop, bar)
    lines = [*_describe_outcome(league, outcome)]
    if league.regret and not outcome.stopped:
        run_ids = _list_unjudged_runs(ArchiveStore.open(league.root), outcome.run_ids)
        if run_ids:
            annotate_games(
                league.root, GameFilter(runs=run_ids), AnnotationOptions(), options.threads, options.executor
            )
    return PlaySummary(tuple(lines), outcome.stopped)


@contextmanager
def log_to_file(path: Path) -> Iterator[None]:
    """Append what agents do wrong, and what their processes print, to a file while the context lasts.

    Raises ``FailureError`` if the file cannot be written.
    """
    try:
        handler = logging.FileHandler(path, encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        raise FailureError(f"{path} cannot be written: {error.strerror or error}") from error
    handler.setFormatter(logging.Formatter("[%(asctime)s][%(name)s][%(levelname)s] - %(message)s"))
    logger = logging.getLogger()
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        handler.close()


def _list_unjudged_runs(archive: ArchiveStore, run_ids: Iterable[str]) -> tuple[str, ...]:
    """List the runs with games of which not all decisions are judged yet."""
    records = filter(None, map(archive.find_run, run_ids))
    return tuple(record.run_id for record in records if record.recorded_units("decisions") < record.units)


def _describe_outcome(league: League, outcome: LeagueOutcome) -> Iterator[str]:
    """Yield a line about the games that were played, and one about each entry that cannot play."""
    matches = format_count_with_noun(outcome.matches, "match", "matches")
    if outcome.games:
        played = format_count_with_noun(outcome.played_matches, "match", "matches")
        yield f"{format_count_with_noun(outcome.games, 'game')} played in {played} of {outcome.matches:,}."
    elif not outcome.stopped:
        yield f"Nothing to play: {matches} have their games."
    for name, error in outcome.errors.items():
        yield f"{name} cannot play: {error} (see {report_path(league.folder, name)})"
    if outcome.stopped:
        yield "Interrupted: finished games are kept, and the same command plays the rest."
