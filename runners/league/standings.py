"""``qarena league table``: the standings of a league, from the questions that every archive answers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import polars as pl

from analytics import open_archive
from analytics.questions.columns import (
    Cell,
    Table,
    format_elo,
    format_half_points,
    format_percent,
    format_significant,
    interval_column,
    number_column,
    text_column,
)
from analytics.questions.pairings import Crosstable, build_crosstable
from analytics.questions.ranking import MIN_RANKED_GAMES
from analytics.questions.ratings import Ratings
from analytics.questions.selection import describe_pairings_of_identical_games, select_whole_runs
from analytics.questions.sql.database import OpenArchive
from analytics.report.report_data import ReportData
from analytics.report.result import Result
from analytics.report.sections.evaluations import evaluations_frame
from analytics.report.sections.mistakes import mistakes_frame
from analytics.store.records import RunRecord
from analytics.store.texts import format_count_with_noun
from quarto.errors import RequestError
from runners.league.entries import open_league
from runners.league.import_guard import refuse_imports_of_entries
from runners.league.league_file import League
from runners.league.matches import LeagueNotes, MatchNote, read_notes

STANDINGS_SCHEMA = {
    "rank": pl.Int64(),
    "entry": pl.String(),
    **dict.fromkeys(("elo", "elo_low", "elo_high", "score", "score_low", "score_high"), pl.Float64()),
    **dict.fromkeys(("games", "wins", "draws", "losses", "forfeits"), pl.Int64()),
    **dict.fromkeys(("placement_regret", "gift_regret", "milliseconds"), pl.Float64()),
    "remark": pl.String(),
}
FIRST_POSITION = ", first in position"  # before the place of a fault and the number of times
MATCH_COUNT = re.compile(r": (once|[\d,]+ times)$")  # at the end of a fault: how often it happened in one match
MAX_IDENTICAL = 5  # pairings of identical games that are named
NOT_PLAYED = "no games yet: 'qarena league play' plays them"
UNJUDGED = "regret is missing, because no decision is judged yet"


@dataclass(frozen=True)
class LeagueResults:
    """The games of a league in its archive: those of the matches that ``qarena league play`` listed last."""

    league: League
    notes: LeagueNotes
    match_notes: tuple[MatchNote, ...]  # of the matches of entries that the league has now
    data: ReportData  # about the games of these matches

    @property
    def has_games(self) -> bool:
        return bool(self.data.selection.runs)

    @cached_property
    def crosstable(self) -> Crosstable:
        """The scores of all entries that have games, best first."""
        return build_crosstable(self.data.results_summed_over_runs, self.data.shared_openings)

    @cached_property
    def ratings(self) -> Ratings | None:
        """The ratings with their intervals, or None if the games determine none."""
        try:
            return self.data.rate_agents()
        except RequestError:  # every game was forfeited
            return None

    @cached_property
    def regrets(self) -> Mapping[tuple[str, str], float]:
        """The mean regret in half-points, by entry and kind of decision. It is empty if no decision is judged."""
        frame = mistakes_frame(self.data, by_ply=False)
        return {(agent, kind): regret for agent, kind, regret in frame.select("agent", "kind", "regret").iter_rows()}

    @cached_property
    def turn_seconds(self) -> Mapping[str, float]:
        """The mean time of a turn in seconds, by entry."""
        return dict(evaluations_frame(self.data, by_ply=False).select("agent", "seconds").iter_rows())

    @property
    def missing_matches(self) -> int:
        """The number of matches that lack games, or have none."""
        games_by_run = self.data.selection.games_by_run
        return sum(games_by_run.get(note.run_id, 0) < max(note.games, 1) for note in self.match_notes)

    def list_faults(self, name: str) -> list[str]:
        """List why an entry forfeited games, and what else was noted about it; of each kind, the first case."""
        prefix = f"agent '{name}' "
        lines = [fault for note in self.match_notes for fault in note.faults if fault.startswith(prefix)]
        faults = dict[str, str]()
        for line in lines:
            kind = re.sub(r"[\d,]+", "", line.partition(FIRST_POSITION)[0])  # without counts, which differ by match
            faults.setdefault(kind, MATCH_COUNT.sub("", line.removeprefix(prefix)))
        return [*faults.values()]

    def describe_entry(self, name: str) -> str:
        """Describe in one line why an entry cannot play, or why it forfeited games; "" if there is nothing to say.

        Positions are left out, because it depends on the order of the games which position was the first.
        """
        error = self.notes.error_by_entry.get(name)
        if error:
            return f"cannot play: {error}"
        errors = [note.error for note in self.match_notes if note.error and name in (note.first, note.second)]
        faults = self.list_faults(name)
        more = f"; {format_count_with_noun(len(faults) - 1, 'more fault')}" if len(faults) > 1 else ""
        return f"{faults[0].partition(FIRST_POSITION)[0]}{more}" if faults else next(iter(errors), "")

    @cached_property
    def standings(self) -> pl.DataFrame:
        """A row for each entry, best first, with the columns of ``STANDINGS_SCHEMA``.

        ``rank`` is null for an entry that has no rank by the rule of ratings, ``elo`` for one that is not rated.
        ``score`` is 0 to 1, regrets are half-points a decision, ``milliseconds`` is the mean time of a turn. Entries
        without games come last, with their reason under ``remark``.
        """
        ratings = {rating.agent: rating for rating in self.ratings.ratings} if self.ratings else {}
        standings = {standing.agent: standing for standing in self.crosstable.standings}
        names = [entry.name for entry in self.league.entries]
        rows = []
        for name in sorted(names, key=[*dict.fromkeys([*ratings, *standings, *names])].index):
            rating, standing, seconds = ratings.get(name), standings.get(name), self.turn_seconds.get(name)
            rows.append(
                (
                    rating and rating.rank,
                    name,
                    *(rating.elo if rating else (None,) * 3),
                    *(standing.score if standing else (None,) * 3),
                    *(
                        (standing.games, standing.wins, standing.draws, standing.losses, standing.forfeits)
                        if standing
                        else (0,) * 5
                    ),
                    self.regrets.get((name, "placement")),
                    self.regrets.get((name, "gift")),
                    None if seconds is None else 1000 * seconds,
                    self.describe_entry(name) or None,
                )
            )
        return pl.DataFrame(rows, STANDINGS_SCHEMA, orient="row").fill_nan(None)


@contextmanager
def open_league_results(folder: Path) -> Iterator[LeagueResults]:
    """Open the archive of the league in ``folder``, and yield its results while the context lasts.

    Raises ``RequestError`` if the file of the league is not valid, or if no game has been played yet.
    """
    with open_league(folder) as league:
        if read_notes(folder) == LeagueNotes():
            play = f"'qarena league play {folder}'"
            raise RequestError(f"no game of league {folder} has been played yet: {play} plays what is missing")
        with refuse_imports_of_entries(league.entries_folder), open_archive(league.root) as opened:
            yield load_league_results(league, opened)


def load_league_results(league: League, opened: OpenArchive) -> LeagueResults:
    """Load the games of the matches that a league noted last, without those of entries that it has no longer.

    Matches by other rules, another seed or other openings than the file of the league names are left out, too, and so
    are matches without games of entries that cannot play.
    """
    notes, names = read_notes(league.folder), {entry.name for entry in league.entries}
    records = {record.run_id: record for record in opened.archive.load_runs()}
    broken = notes.error_by_entry.keys()
    match_notes = tuple(
        note
        for note in notes.matches
        if {note.first, note.second} <= names and (note.run_id in records or not {note.first, note.second} & broken)
    )
    played = [records[note.run_id] for note in match_notes if note.run_id in records]
    present = [record for record in played if _is_of_league(league, record)]
    return LeagueResults(league, notes, match_notes, ReportData(select_whole_runs(opened, present)))


def _is_of_league(league: League, record: RunRecord) -> bool:
    settings = record.rules, record.spec["seed"], record.spec["opening_plies"]
    return settings == (league.rules, league.seed, league.opening_plies)


def build_standings_result(results: LeagueResults) -> Result:
    """Build the result that shows the standings. Its frame has the columns of ``STANDINGS_SCHEMA``."""
    frame = results.standings
    return Result(
        describe_league(results),
        build_standings_table(frame, results.league.title),
        title=results.league.title,
        frame=frame,
        warnings=list_warnings(results),
    )


def build_standings_table(frame: pl.DataFrame, title: str, links: Mapping[str, str] | None = None) -> Table:
    """Build the table of the standings; ``links`` has the address of each entry's page, by name."""
    links = links or {}
    columns = [
        number_column("", frame["rank"]),
        text_column("entry", [Cell(name, link=links.get(name, "")) for name in frame["entry"]]),
        number_column("Elo", frame["elo"], format_elo),
        interval_column(frame["elo_low"], frame["elo_high"], format_elo, drop_priority=4),
        number_column("score", frame["score"], format_percent),
        interval_column(frame["score_low"], frame["score_high"], drop_priority=6),
        number_column("games", frame["games"], drop_priority=3),
        number_column("placement regret", frame["placement_regret"], format_half_points, drop_priority=5),
        number_column("gift regret", frame["gift_regret"], format_half_points, drop_priority=5),
        number_column("ms a turn", frame["milliseconds"], format_milliseconds, drop_priority=2),
        number_column("forfeits", frame["forfeits"], drop_priority=1),
    ]
    legend = "Elo: the mean is 0; score in %, a draw counts half; regret: half-points given up a decision"
    if frame["rank"].null_count():
        legend += f"; no rank: fewer than {MIN_RANKED_GAMES} games, or no finite rating"
    return Table(title, columns, legend=legend)


def format_milliseconds(milliseconds: float) -> str:
    """Format a time in milliseconds with two significant digits, or in whole ones from 100 up."""
    return f"{milliseconds:,.0f}" if milliseconds >= 100 else format_significant(milliseconds, 2)


def describe_league(results: LeagueResults) -> str:
    """Describe in a sentence how many games were played, and what is still missing."""
    games = format_count_with_noun(results.data.selection.games, "game")
    missing, matches = results.missing_matches, format_count_with_noun(len(results.match_notes), "match", "matches")
    lacks = f"; not complete: {format_count_with_noun(missing, 'match', 'matches')}" if missing else ""
    return f"{games} in {matches}, {results.league.rules.name} rules, seed {results.league.seed}{lacks}."


def list_warnings(results: LeagueResults) -> list[str]:
    """List what a reader of the standings should know about entries and about all games."""
    return [*(f"{name}: {text}" for name, text in list_entry_remarks(results).items()), *list_notes(results)]


def list_entry_remarks(results: LeagueResults) -> dict[str, str]:
    """Return a remark by the name of each entry that cannot play, or that forfeited games: how many, and why."""
    rows = results.standings.select("entry", "forfeits", "remark").iter_rows()
    return {
        name: f"forfeited {format_count_with_noun(forfeits, 'game')}{f': {remark}' if remark else ''}"
        if forfeits
        else remark
        for name, forfeits, remark in rows
        if forfeits or remark
    }


def list_notes(results: LeagueResults) -> list[str]:
    """List what a reader should know about the games: which are identical, and what is not rated or not judged."""
    if not results.has_games:
        return [NOT_PLAYED]
    unrated = results.ratings.unrated_sentences if results.ratings else []
    return [
        *unrated,
        *_describe_identical_games(results),
        *([UNJUDGED] if results.league.regret and not results.regrets else []),
    ]


def _describe_identical_games(results: LeagueResults) -> list[str]:
    """Describe the matches in which all pairs of games are the same, without those of forfeited games only."""
    forfeited = {
        (result.first, result.second)
        for result in results.data.results_summed_over_runs
        if sum(result.forfeits) == result.games
    }
    run_ids = [
        note.run_id
        for note in results.match_notes
        if note.run_id in results.data.records and (note.first, note.second) not in forfeited
    ]
    lines = describe_pairings_of_identical_games(results.data.opened, run_ids)
    more = len(lines) - MAX_IDENTICAL
    return [
        *lines[:MAX_IDENTICAL],
        *(
            [f"{format_count_with_noun(more, 'more match', 'more matches')} of games that repeat, too"]
            if more > 0
            else []
        ),
    ]
