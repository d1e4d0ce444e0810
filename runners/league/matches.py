"""The matches of a league: each is a run of two entries, and a small file notes which run is whose."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from analytics.store.archive import ArchiveStore
from analytics.store.records import JsonRecord, encode_record, load_record
from analytics.store.texts import to_line
from quarto.errors import RequestError
from runners.arena.code_fingerprints import fingerprint_agent_code, fingerprint_run_code
from runners.arena.experiment import count_missing_games
from runners.arena.spec import AgentSpec, RunSpec
from runners.league.entries import build_entry_spec
from runners.league.entry_reports import remove_league_path
from runners.league.league_file import League
from runners.terminal.files import write_file

MATCHES_FILE = "matches.json"
MAX_REASON_CHARACTERS = 1000
MAX_FAULTS = 8  # texts of faults that are kept of a match


class BuiltEntry(NamedTuple):
    """An entry that can play: its agent, and the fingerprint of the code that it has now."""

    name: str
    spec: AgentSpec
    code: str


class Match(NamedTuple):
    """A match of a league: the run of two entries with the code that they have now."""

    first: str
    second: str
    spec: RunSpec
    games: int  # that it is to have; under a budget the greatest number

    @property
    def run_id(self) -> str:
        return self.spec.run_id


class MatchNote(JsonRecord, frozen=True):
    """What a league notes about a match: its run, and texts that the archive does not keep."""

    first: str
    second: str
    run_id: str
    games: int = 0  # that it is to have; under a budget the greatest number, until its share is known
    faults: tuple[str, ...] = ()  # why entries forfeited games
    error: str = ""  # why the match could not be played


class EntryNote(JsonRecord, frozen=True):
    """What a league notes about an entry."""

    name: str
    code: str = ""  # the fingerprint of its code
    error: str = ""  # why it cannot play


class LeagueNotes(JsonRecord, frozen=True):
    """The content of ``matches.json``: the matches of the last call of ``qarena league play``."""

    matches: tuple[MatchNote, ...] = ()
    entries: tuple[EntryNote, ...] = ()

    @property
    def error_by_entry(self) -> dict[str, str]:
        """Why an entry cannot play, by the name of the entry."""
        return {note.name: note.error for note in self.entries if note.error}


def read_notes(folder: Path) -> LeagueNotes:
    """Read the notes of a league. They are empty if no game has been played yet."""
    path = folder / MATCHES_FILE
    if not path.exists():
        return LeagueNotes()
    return load_record(path, LeagueNotes, "remove it, and 'qarena league play' writes it again")


def write_notes(folder: Path, notes: LeagueNotes) -> None:
    """Write the notes of a league in one step. Raises ``FailureError`` if the file cannot be written."""
    write_file(folder / MATCHES_FILE, encode_record(notes))


def build_players(league: League, isolation: str) -> tuple[list[BuiltEntry], dict[str, str]]:
    """Build the agents of all entries.

    Returns:
        The entries that can play, in the order of the file, and the reason by name of each entry that cannot.

    """
    players, errors = list[BuiltEntry](), dict[str, str]()
    for entry in league.entries:
        try:
            spec = build_entry_spec(league, entry, isolation)
            players.append(BuiltEntry(entry.name, spec, fingerprint_agent_code(spec, spec.build())))
        except RequestError as error:  # an agent's own exceptions become one where the agent is built
            errors[entry.name] = to_line(remove_league_path(league.folder, str(error)), MAX_REASON_CHARACTERS)
    return players, errors


def list_matches(league: League, players: Sequence[BuiltEntry]) -> list[Match]:
    """List the matches of a league, as runs of the code that the entries have now.

    All runs have the same seed, from which openings follow, so all matches begin from the same openings.
    """
    by_name = {player.name: player for player in players}
    return [
        Match(first, second, _build_run_spec(league, by_name[first], by_name[second]), games)
        for first, second, games in league.list_planned_matches(by_name)
    ]


def _build_run_spec(league: League, first: BuiltEntry, second: BuiltEntry) -> RunSpec:
    return RunSpec(
        rules=league.rules,
        agents=(first.spec, second.spec),
        pairings=((0, 1),),
        seed=league.seed,
        opening_plies=league.opening_plies,
        salt=fingerprint_run_code((first.code, second.code)),
    )


def list_matches_lacking_games(
    archive: ArchiveStore, matches: Iterable[Match], games_by_run: Mapping[str, int]
) -> list[tuple[Match, int]]:
    """List the matches that lack games in the archive, each with the number of games that it lacks.

    ``games_by_run`` has the number of games that each match is to have; a match without a number lacks none.
    """
    counted = (
        (match, count_missing_games(archive, match.spec, games_by_run[match.run_id]))
        for match in matches
        if match.run_id in games_by_run
    )
    return [(match, games) for match, games in counted if games]


def update_notes(
    notes: LeagueNotes, matches: Iterable[Match], players: Iterable[BuiltEntry], errors: Mapping[str, str]
) -> LeagueNotes:
    """Return the notes about the present matches; the texts about a run that is still played are kept."""
    old_notes = {note.run_id: note for note in notes.matches}
    return LeagueNotes(
        tuple(
            msgspec.structs.replace(
                old_notes.get(match.run_id, MatchNote(match.first, match.second, match.run_id)), games=match.games
            )
            for match in matches
        ),
        (
            *(EntryNote(player.name, player.code) for player in players),
            *(EntryNote(name, error=error) for name, error in errors.items()),
        ),
    )


def set_match_games(notes: LeagueNotes, games_by_run: Mapping[str, int]) -> LeagueNotes:
    """Return the notes with the number of games that each match is to have, by run; other matches keep theirs."""
    matches = (msgspec.structs.replace(note, games=games_by_run.get(note.run_id, note.games)) for note in notes.matches)
    return msgspec.structs.replace(notes, matches=tuple(matches))


def add_to_match_note(notes: LeagueNotes, match: Match, faults: Iterable[str] = (), error: str = "") -> LeagueNotes:
    """Return the notes with further faults of a match, and with the reason why it could not be played, if any."""
    return msgspec.structs.replace(notes, matches=tuple(_extend_notes(notes.matches, match.run_id, [*faults], error)))


def _extend_notes(notes: Iterable[MatchNote], run_id: str, faults: Sequence[str], error: str) -> Iterator[MatchNote]:
    for note in notes:
        if note.run_id != run_id:
            yield note
            continue
        lines = dict.fromkeys([*note.faults, *(to_line(fault, MAX_REASON_CHARACTERS) for fault in faults)])
        reason = to_line(error, MAX_REASON_CHARACTERS)
        yield msgspec.structs.replace(note, faults=tuple(lines)[:MAX_FAULTS], error=reason)
