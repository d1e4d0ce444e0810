"""Leagues: ``create_league``, ``check_league``, ``play_league``, ``rank_league`` and ``publish_league``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from runners.library.calls import take_turn

if TYPE_CHECKING:
    from analytics.report.result import Result


def create_league(folder: str | Path) -> list[Path]:
    """Create a league, as ``qarena league new`` does: a commented ``league.yaml``, and a folder for entries.

    Args:
        folder: A new folder.

    Returns:
        The paths of the files.

    Raises:
        RequestError: The folder has files already.
        FailureError: A file cannot be written.

    Examples:
        >>> import tempfile, runners
        >>> runners.create_league(tempfile.mkdtemp() + "/course")[0].name
        'league.yaml'

    """
    from runners.league.new_league import create_and_describe_league_files

    with take_turn():
        return [*create_and_describe_league_files(Path(folder))]


def check_league(
    folder: str | Path, *, entries: Sequence[str] = (), seconds: float = 60.0, trust_agents: bool = False
) -> Result:
    """Check each entry of a league, as ``qarena league check`` does, and write what is wrong beside it.

    The report on an entry is ``checks/NAME.txt`` in the folder of the league. A broken entry does not stop the others.

    Args:
        folder: The folder of the league.
        entries: The names of the entries to check; all if there are none.
        seconds: The time limit for each entry.
        trust_agents: Whether, without a sandbox, entries may run with your rights.

    Returns:
        A ``Result`` with a row for each entry. Columns: ``entry``; ``ok``, whether nothing is wrong; ``remark``, the
        first thing that is wrong, or the speed.

    Raises:
        RequestError: ``league.yaml`` is not valid, it has no entry of a name, or there is no sandbox and the entries
            are not trusted.
        FailureError: A report cannot be written.

    Examples:
        >>> import pathlib, tempfile, runners
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> text = "{games: 2, regret: false, entries: [random, rule_based]}"
        >>> _ = (folder / "league.yaml").write_text(text)
        >>> runners.check_league(folder).frame["ok"].to_list()
        [True, True]

    """
    import polars as pl

    from analytics.questions.columns import Table, text_column
    from analytics.report.result import Result
    from runners.league.checking import check_entries
    from runners.league.entries import isolate_entries, open_league

    with (
        take_turn(),
        open_league(Path(folder)) as league,
        isolate_entries(league, trust_agents) as (isolation, note),
    ):
        checks = [*check_entries(league, isolation, seconds, entries)]
    rows = [(check.name, check.is_fine, check.summary) for check in checks]
    frame = pl.DataFrame(rows, {"entry": pl.String(), "ok": pl.Boolean(), "remark": pl.String()}, orient="row")
    columns = [
        text_column("entry", frame["entry"]),
        text_column("", ["ok" if check.is_fine else "FAIL" for check in checks]),
        text_column("remark", frame["remark"]),
    ]
    return Result(f"{note[:1].upper()}{note[1:]}{'.' if note else ''}", Table("", columns), title="Check", frame=frame)


def play_league(
    folder: str | Path, *, threads: int | None = None, trust_agents: bool = False, progress: bool = True
) -> Result:
    """Play the games that a league lacks, as ``qarena league play`` does, and return the standings.

    Each two entries play a match, which is a run of its own in the league's archive. A new entry plays its matches and
    nothing else, and so does an entry whose code has changed. After Ctrl-C, finished games are kept and
    ``KeyboardInterrupt`` is raised; the same call plays the rest.

    Args:
        folder: The folder of the league.
        threads: The number of threads; None means one for each core.
        trust_agents: Whether, without a sandbox, entries may run with your rights.
        progress: Whether to show a progress bar.

    Returns:
        The standings, as ``rank_league`` returns them.

    Raises:
        RequestError: ``league.yaml`` is not valid, or there is no sandbox and the entries are not trusted.
        FailureError: A file cannot be written.

    Examples:
        >>> import pathlib, tempfile, runners
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> text = "{games: 2, regret: false, entries: [random, rule_based]}"
        >>> _ = (folder / "league.yaml").write_text(text)
        >>> runners.play_league(folder, progress=False).frame["games"].to_list()
        [2, 2]

    """
    import typer

    from runners.arena.executors.base import available_cores
    from runners.league.entries import isolate_entries, open_league
    from runners.league.judging import play_and_judge
    from runners.league.playing import LeaguePlayOptions

    with (
        take_turn(),
        open_league(Path(folder)) as league,
        isolate_entries(league, trust_agents) as (isolation, _),
    ):
        options = LeaguePlayOptions(isolation, threads or available_cores(), command=f"qarena league play {folder}")
        try:
            summary = play_and_judge(league, options, progress)
        except typer.Exit as exit_request:
            raise KeyboardInterrupt("judged games are kept, the same call judges the rest") from exit_request
    if summary.stopped:
        raise KeyboardInterrupt("finished games are kept, the same call plays the rest")
    return rank_league(folder)


def rank_league(folder: str | Path) -> Result:
    """Return the standings of a league, as ``qarena league table`` prints them.

    Args:
        folder: The folder of the league.

    Returns:
        A ``Result`` with a row for each entry, best first. Columns: ``rank``, null for an entry without one; ``entry``;
        ``elo`` and ``score`` (0 to 1), each with its 95 % interval (``_low``, ``_high``); ``games``, ``wins``,
        ``draws``, ``losses`` and ``forfeits``; ``placement_regret`` and ``gift_regret`` in half-points a decision;
        ``milliseconds``, the mean time of a turn; ``remark``, why the entry cannot play or forfeited games.

    Raises:
        RequestError: ``league.yaml`` is not valid, or no game has been played.

    Examples:
        >>> import pathlib, tempfile, runners
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> text = "{games: 2, regret: false, entries: [random, rule_based]}"
        >>> _ = (folder / "league.yaml").write_text(text)
        >>> _ = runners.play_league(folder, progress=False)
        >>> runners.rank_league(folder).frame.columns[:3]
        ['rank', 'entry', 'elo']

    """
    from runners.league.standings import build_standings_result, open_league_results

    with take_turn(), open_league_results(Path(folder)) as results:
        return build_standings_result(results)


def publish_league(folder: str | Path, site: str | Path) -> list[Path]:
    """Write a static site about a league, as ``qarena league page`` does: for any web space, without scripts.

    Args:
        folder: The folder of the league.
        site: A folder for the site. An earlier site of a league is replaced.

    Returns:
        The paths of the files. The first is the page with the standings.

    Raises:
        RequestError: ``league.yaml`` is not valid, no game has been played, or ``site`` has other files.
        FailureError: A file cannot be written.

    Examples:
        >>> import pathlib, tempfile, runners
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> text = "{games: 2, regret: false, entries: [random, rule_based]}"
        >>> _ = (folder / "league.yaml").write_text(text)
        >>> _ = runners.play_league(folder, progress=False)
        >>> runners.publish_league(folder, folder / "site")[0].name
        'index.html'

    """
    from runners.league.site import check_site_folder, write_site
    from runners.league.standings import open_league_results

    check_site_folder(Path(site))
    with take_turn(), open_league_results(Path(folder)) as results:
        return write_site(results, Path(site))
