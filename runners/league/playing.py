"""``qarena league play``: plays the games that a league lacks, match by match."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, Protocol

from analytics.store.archive import ArchiveStore
from analytics.store.texts import to_line
from analytics.tables.derived.threads import run_on_threads
from quarto.errors import RequestError
from runners.arena.execution import execute_experiment
from runners.arena.executors.base import THREADS, Executor
from runners.arena.experiment import open_experiment
from runners.arena.progress import Progress
from runners.arena.request import RunRequest
from runners.arena.storage import ArchiveOptions
from runners.hosting.guarded_agent import GuardedAgent, StuckError
from runners.league.budget import FIRST_GAMES, SHARES, share_games
from runners.league.entry_reports import remove_league_path, write_entry_report
from runners.league.league_file import League
from runners.league.matches import (
    MAX_REASON_CHARACTERS,
    LeagueNotes,
    Match,
    add_to_match_note,
    build_players,
    list_matches,
    list_matches_lacking_games,
    read_notes,
    set_match_games,
    update_notes,
    write_notes,
)

SHORTEST_SECONDS = 1e-6  # of a game: clocks do not measure less


@dataclass(frozen=True)
class LeaguePlayOptions:
    """How the games of a league are played. No option affects the games."""

    isolation: str = "process"  # of entries that are not the project's own
    threads: int = 1
    executor: Executor = THREADS
    command: str = "league play"  # as it was typed, for the records of runs


class LeagueProgress(Progress, Protocol):
    """A display that shows how many games of a league have been played, and which match is under way."""

    def set_description(self, text: str) -> None:
        """Show a text beside the number of games."""
        ...


class LeagueOutcome(NamedTuple):
    """What a call of ``play_missing_games`` has done."""

    matches: int  # that the league has
    played_matches: int  # in which games were played
    games: int  # that were played
    errors: Mapping[str, str]  # why an entry cannot play, by its name
    stopped: bool  # the user asked for it
    run_ids: tuple[str, ...]  # of the matches


class _MatchJob(NamedTuple):
    """A match that lacks games."""

    match: Match
    games: int  # that it is to have
    place: str  # among the matches that lack games, for the display


class MatchOutcome(NamedTuple):
    """What came of playing the missing games of one match."""

    match: Match
    played: int = 0  # games
    faults: Sequence[str] = ()  # a line for each way in which an entry forfeited some of these games
    reason: str = ""  # why the match could not be played; "" if it could


def play_missing_games(
    league: League, options: LeaguePlayOptions, stop: threading.Event, progress: LeagueProgress | None = None
) -> LeagueOutcome:
    """Play the games that the matches of a league lack. Entries that cannot play do not stop the others.

    Args:
        league: The league.
        options: How the games are played.
        stop: Event that ends playing early. Finished games are kept, and another call plays the rest.
        progress: Display of the number of games played, if there is one.

    Raises:
        RequestError: The archive cannot be written, or it is none.
        FailureError: A file could not be written, or workers were lost. All games written before that are kept.

    """
    return LeaguePlay(league, options, stop, progress).play()


class LeaguePlay:
    """One call of ``play_missing_games``: the matches, what is noted about them, and what was played."""

    def __init__(
        self, league: League, options: LeaguePlayOptions, stop: threading.Event, progress: LeagueProgress | None
    ) -> None:
        self._league, self._options, self._stop, self._progress = league, options, stop, progress
        self._archive = ArchiveStore.open(league.root, create=True)
        players, self._errors = build_players(league, options.isolation)
        self._players = {player.name: player for player in players}
        self._matches = list_matches(league, players)
        self._full_games = {match.run_id: match.games for match in self._matches}  # by run; a budget may allow fewer
        self._notes = update_notes(read_notes(league.folder), self._matches, players, self._errors)
        self._ready = set[str]()  # entries that were set up for the rules
        self._played = dict[str, int]()  # games that this call played, by run

    def play(self) -> LeagueOutcome:
        """Play the missing games, and keep the notes of the league up to date."""
        for name, error in self._errors.items():
            write_entry_report(self._league.folder, name, f"cannot play: {error}")
        write_notes(self._league.folder, self._notes)
        if self._league.budget_seconds is None:
            self._play_up_to(self._full_games)
        else:
            self._play_within(self._league.budget_seconds)
        return LeagueOutcome(
            len(self._matches),
            sum(games > 0 for games in self._played.values()),
            sum(self._played.values()),
            self._errors,
            self._stop.is_set(),
            tuple(match.run_id for match in self._matches),
        )

    def _play_within(self, budget: float) -> None:
        """Play two games of each match, and then as many as the budget allows, which the paces so far show."""
        self._play_up_to(dict.fromkeys(self._full_games, FIRST_GAMES))
        for share in SHARES:
            paces, played = self._measure_paces()
            games_by_run = share_games(paces, played, self._full_games, share * budget)
            self._play_up_to(games_by_run)
        if not self._stop.is_set():
            self._write_changed_notes(set_match_games(self._notes, games_by_run))

    def _measure_paces(self) -> tuple[dict[str, float], dict[str, int]]:
        """Return the seconds a game and the number of games of each match that has games, by run."""
        paces, played = dict[str, float](), dict[str, int]()
        for match in self._matches:
            record = self._archive.find_run(match.run_id)
            games = self._archive.count_games(match.run_id) if record else 0
            if record and games:
                paces[match.run_id], played[match.run_id] = max(record.seconds / games, SHORTEST_SECONDS), games
        return paces, played

    def _play_up_to(self, games_by_run: Mapping[str, int]) -> None:
        """Play what each match lacks of its number of games."""
        lacking = list_matches_lacking_games(self._archive, self._matches, games_by_run)
        if lacking and self._progress:
            self._progress.start(sum(games for _, games in lacking))
        # A pair of games keeps one thread busy, so matches that lack fewer pairs than there are threads are played
        # several at a time. Workers in other processes would have to start for each match, so there are none of these.
        threads = self._options.threads if self._options.executor.shares_memory else 1
        short, long = list[_MatchJob](), list[_MatchJob]()
        for number, (match, games) in enumerate(lacking, 1):
            place = f"match {number:,} of {len(lacking):,}"
            (short if games // 2 < threads else long).append(_MatchJob(match, games_by_run[match.run_id], place))
        jobs = (partial(self._play_match, job, 1) for job in short if self._are_ready(job.match))
        run_on_threads(jobs, threads, self._note_outcome, self._stop.set)
        for job in long:
            if self._are_ready(job.match):
                self._note_outcome(self._play_match(job, self._options.threads))

    def _are_ready(self, match: Match) -> bool:
        """Return whether both entries can play, unless playing is to end early."""
        if self._stop.is_set():
            return False
        ready = [self._is_ready(name) for name in (match.first, match.second)]  # a broken entry does not hide another
        return all(ready)

    def _is_ready(self, name: str) -> bool:
        """Return whether an entry can play; it is set up for the rules once, which shows whether it is broken."""
        if name not in self._ready and name not in self._errors:
            try:
                GuardedAgent(self._players[name].spec.build(), name, self._league.rules)
            except RequestError as error:
                text = remove_league_path(self._league.folder, str(error))
                self._note_broken_entry(name, to_line(text, MAX_REASON_CHARACTERS))
            else:
                self._ready.add(name)
        return name in self._ready

    def _note_broken_entry(self, name: str, error: str) -> None:
        self._errors[name] = error
        write_entry_report(self._league.folder, name, f"cannot play: {error}")
        players = [player for player in self._players.values() if player.name not in self._errors]
        self._notes = update_notes(self._notes, self._matches, players, self._errors)
        write_notes(self._league.folder, self._notes)

    def _play_match(self, job: _MatchJob, threads: int) -> MatchOutcome | None:
        """Play the games that a match lacks. If that fails, the outcome has the reason.

        Returns None if playing was to end before the match began. May be called on any thread.
        """
        if self._stop.is_set():
            return None
        match, progress = job.match, None
        if self._progress:
            self._progress.set_description(f"playing {match.first} against {match.second}, {job.place}")
            progress = _ContinuedProgress(self._progress)
        storage = ArchiveOptions(self._league.root, other_code="new", evaluations=True)
        request = RunRequest(
            match.spec, job.games, threads, storage, progress=False, keep_going=True, executor=self._options.executor
        )
        try:
            outcome = execute_experiment(open_experiment(request), self._options.command, self._stop, progress)
        except (RequestError, StuckError) as error:
            return MatchOutcome(match, reason=str(error))
        return MatchOutcome(match, outcome.played, outcome.misbehaviour)

    def _note_outcome(self, outcome: MatchOutcome | None) -> None:
        """Count the games of a match that was played, and note what its entries did wrong, or why it failed."""
        if outcome is None:  # what an earlier call noted stays
            return
        run_id = outcome.match.run_id
        self._played[run_id] = self._played.get(run_id, 0) + outcome.played
        *faults, reason = (remove_league_path(self._league.folder, text) for text in (*outcome.faults, outcome.reason))
        self._write_changed_notes(add_to_match_note(self._notes, outcome.match, faults, reason))

    def _write_changed_notes(self, notes: LeagueNotes) -> None:
        if notes != self._notes:
            self._notes = notes
            write_notes(self._league.folder, notes)


class _ContinuedProgress:
    """The progress of one match as a part of the progress of all matches, which has begun already."""

    def __init__(self, progress: Progress) -> None:
        self.advance, self.report_turns = progress.advance, progress.report_turns

    def start(self, games: int) -> None:
        """Do nothing, because the display shows the games of all matches."""
