"""Import of games as ordinary runs.

A text may hold runs whole: a line with the run's record, and the id of each of its games. They come back as the same
runs. Seeds, parameters, pairs and ids are those of the record, so every question has the same answer.

Other games are single games. Their run's id follows from the games of its first import, so importing them again adds
nothing. The games of two players in a text may also begin with the games of a run, or the reverse. Then they are the
same games, and the run gets those that it lacks. So no game is counted twice, whether a text has grown or is a part of
an earlier one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import groupby
from typing import Any, NamedTuple, NoReturn

import numpy as np
from msgspec import structs
from numpy.typing import NDArray

from analytics.exchange.export_blocks import IMPORTED_KEY
from analytics.exchange.text import Heading, ParsedText, Tags, format_games
from analytics.store import ranges
from analytics.store.archive import ArchiveStore
from analytics.store.game_tables import RangeGames, merge_games, select_games
from analytics.store.range_files import read_games, write_range
from analytics.store.ranges import first_game_id
from analytics.store.records import RunRecord, compute_run_id, format_current_time
from analytics.store.run_notes import write_later_note
from quarto.batch import GAME_BITS, Games
from quarto.errors import FailureError, RequestError
from quarto.rules import Rules

FILE_GAMES = 1 << 18  # the most games in a file
LOCK_SECONDS = 600.0  # seconds in which another process may import the same games


class ImportedPlayer:
    """The placeholder class that represents every player of imported games in the records of runs.

    It cannot be instantiated, because how these players play is unknown.
    """

    def __init__(self) -> NoReturn:
        """Raise ``RequestError``, because an imported player cannot play."""
        raise RequestError("a player of imported games cannot play here: only its games are known")


IMPORTED_PLAYER_TARGET = f"{ImportedPlayer.__module__}.{ImportedPlayer.__qualname__}"


class ImportedRun(NamedTuple):
    """The games of one run in an import: how many there are, and how many of them are new."""

    run_id: str
    heading: Heading  # the heading of its first games
    games: int
    added: int  # games that were not in the archive before
    note_added: bool = False  # the text has a name or a note of the run that the archive lacked


def import_games(
    archive: ArchiveStore, parsed_text: ParsedText, rules: Mapping[str, Rules], code: Mapping[str, Any], command: str
) -> list[ImportedRun]:
    """Add the games of a text to an archive, and return the runs that hold them.

    A run that is complete in the text keeps its record, its id, and its name and note, unless the archive has later
    ones. The remaining games with the same rules, event, date and opening become one run in which the agents of a
    pairing never exchange seats. If a text has grown since its last import, its new games extend its runs, but new
    players get a run of their own. ``rules`` are keyed by name, ``code`` has the form that it has in a run's record,
    and ``command`` is the user's command, for the records.

    Raises ``RequestError`` if a complete run contradicts its record, or if the archive has different games under the
    same ids: see ``list_whole_runs`` and ``add_missing_games``. Raises ``FailureError`` if the archive cannot be
    written.
    """
    notes = {note.run_id: note for note in sorted(parsed_text.notes, key=lambda note: note.time)}  # the latest of each
    done, single = list[ImportedRun](), np.ones(len(parsed_text.tags), np.bool_)
    for run in [*list_whole_runs(parsed_text, rules)]:
        single[run.rows] = False
        heading = _build_heading(parsed_text.distinct_tags[parsed_text.tags[run.rows[0]]])
        run_id, added = run.record.run_id, add_missing_games(archive, run)
        note_added = run_id in notes and write_later_note(archive, notes[run_id])
        done.append(ImportedRun(run_id, heading, len(run.rows), added, note_added))
    return done + [
        run
        for parts in _group_blocks_by_run(parsed_text.select(single))
        for run in _add_or_extend_runs(archive, parts, rules[parts[0].heading.rules], code, command)
    ]


class ImportBlock(NamedTuple):
    """The games of a text that share one heading."""

    heading: Heading
    games: Games
    numbers: NDArray[np.int64]  # [G] numbers of the games in the text, ascending

    def without_first(self, count: int) -> ImportBlock:
        """Return a copy of the block without its first ``count`` games."""
        return ImportBlock(self.heading, select_games(self.games, slice(count, None)), self.numbers[count:])


def _group_blocks_by_run(parsed_text: ParsedText) -> Iterator[list[ImportBlock]]:
    """Group the games of a text into runs; yield, for each run, a list with one block for each heading.

    Runs and blocks come in the order of an export.
    """
    headings = [_build_heading(tags) for tags in parsed_text.distinct_tags]
    of_heading: dict[Heading, list[int]] = {}
    for at in np.unique(parsed_text.tags).tolist():
        of_heading.setdefault(headings[at], []).append(at)
    for _, run in groupby(sorted(of_heading), key=lambda heading: heading[:4]):
        numbers = ((heading, np.flatnonzero(np.isin(parsed_text.tags, of_heading[heading]))) for heading in run)
        yield [ImportBlock(heading, select_games(parsed_text.games, chosen), chosen) for heading, chosen in numbers]


def _build_heading(tags: Tags) -> Heading:
    return Heading(tags.rules, tags.event, tags.date, tags.opening, tags.agent_0, tags.agent_1)


def _build_run_spec(blocks: list[ImportBlock], rules: Rules) -> dict[str, Any]:
    """Build the spec of the run that holds the games of ``blocks``, with a hash of these games.

    If games of different pairings alternate in the text, the spec also has a hash of the order of pairings.
    """
    heading = blocks[0].heading
    labels = sorted({label for block in blocks for label in (block.heading.agent_0, block.heading.agent_1)})
    digest = hashlib.sha256()
    for block in blocks:
        digest.update(format_games(block.heading, block.games))
    pairing = np.repeat(np.arange(len(blocks)), [len(block.numbers) for block in blocks])[_compute_text_order(blocks)]
    turns = (
        {} if (np.diff(pairing) >= 0).all() else {"order": hashlib.sha256(pairing.astype("<i4").tobytes()).hexdigest()}
    )
    return {
        "rules": asdict(rules),
        "agents": [{"label": label, "target": IMPORTED_PLAYER_TARGET, "params": {}} for label in labels],
        "pairings": [[labels.index(block.heading.agent_0), labels.index(block.heading.agent_1)] for block in blocks],
        "seed": 0,
        "opening_plies": heading.opening,
        "seats": "fixed",
        IMPORTED_KEY: {"event": heading.event, "date": heading.date, "sha256": digest.hexdigest(), **turns},
    }


def _compute_text_order(blocks: Sequence[ImportBlock]) -> NDArray[np.int64]:
    """Return the indices [G] that sort the concatenated games of all blocks into the order of the text."""
    return np.argsort(np.concatenate([block.numbers for block in blocks]))


class _StoredPairing(NamedTuple):
    """A pairing of an imported run whose stored games begin like the games of a block.

    Either the block begins with all stored games, or the stored games begin with the whole block.
    """

    record: RunRecord
    pairing: int
    games: int  # games of the pairing in the run


def _add_or_extend_runs(
    archive: ArchiveStore, blocks: list[ImportBlock], rules: Rules, code: Mapping[str, Any], command: str
) -> Iterator[ImportedRun]:
    """Add the games of blocks that share rules, event, date and opening, and yield each run that was extended or added.

    Each block extends the run that already holds its first games. The blocks without such a run become a new run.
    """
    spec = _build_run_spec(blocks, rules)
    if (
        archive.find_run(compute_run_id(spec)) is not None
    ):  # also if its import was interrupted before all players had games
        yield _add_or_complete_run(archive, blocks, spec, code, command)
        return
    stored_pairings = [_find_longest_matching_pairing(archive, part, rules) for part in blocks]
    for record in {stored.record.run_id: stored.record for stored in stored_pairings if stored}.values():
        of_run = [
            part
            for part, stored in zip(blocks, stored_pairings, strict=True)
            if stored and stored.record.run_id == record.run_id
        ]
        yield _extend_run(archive, record, of_run, rules)
    new = [part for part, stored in zip(blocks, stored_pairings, strict=True) if not stored]
    if new:
        yield _add_or_complete_run(archive, new, _build_run_spec(new, rules), code, command)


def _find_longest_matching_pairing(archive: ArchiveStore, block: ImportBlock, rules: Rules) -> _StoredPairing | None:
    """Find the stored pairing that agrees with a block: its games begin with the block's games, or the reverse.

    If several pairings agree, the one with the most games is returned. If no pairing agrees, the result is None.
    """
    heading = block.heading
    text = format_games(heading, block.games)
    candidates = []
    for record in archive.load_runs():
        source = record.spec.get(IMPORTED_KEY)
        if source is None or record.rules != rules or record.spec["opening_plies"] != heading.opening:
            continue
        if (source["event"], source["date"]) != (heading.event, heading.date):
            continue
        for pairing, labels in enumerate(record.pairings):
            if labels == (heading.agent_0, heading.agent_1):
                stored, count = _read_pairing_text(archive, record.run_id, pairing, heading)
                if count and (text.startswith(stored) or stored.startswith(text)):
                    candidates.append(_StoredPairing(record, pairing, count))
    return max(candidates, key=lambda candidate: candidate.games, default=None)


class PairingText(NamedTuple):
    """The games of a pairing as text, and the number of these games."""

    text: bytes
    game_count: int


def _read_pairing_text(archive: ArchiveStore, run_id: str, pairing: int, heading: Heading) -> PairingText:
    """Read the stored games of a pairing as text with ``heading``, in the order of their import."""
    blocks = [read_games(archive, run_id, stored) for stored in archive.list_effective_ranges(run_id)]
    blocks = [games.select_rows(games.pairing == pairing) for games in blocks]
    texts = [format_games(heading, games.games) for games in blocks if len(games.game_id)]
    return PairingText(b"".join(texts), sum(len(games.game_id) for games in blocks))


def _extend_run(archive: ArchiveStore, record: RunRecord, blocks: list[ImportBlock], rules: Rules) -> ImportedRun:
    """Add to a run those games of ``blocks`` that it lacks, and return how many games there are and how many were new.

    Raises ``FailureError`` if another process meanwhile added games to the run that contradict ``blocks``.
    """
    with archive.lock_run(record.run_id, LOCK_SECONDS):
        lacking = []
        for part in blocks:
            stored = _find_longest_matching_pairing(archive, part, rules)
            if stored is None:
                raise FailureError(
                    f"run {record.run_id} was extended with other games meanwhile: run the same command again"
                )
            if stored.games < len(part.numbers):
                lacking.append((stored.pairing, part.without_first(stored.games)))
        held = archive.list_effective_ranges(record.run_id)
        added = _write_missing_games(archive, record, lacking, int(held.ends[-1]))
    sizes = [len(part.numbers) for part in blocks]
    archive.write_run_and_unit_count(structs.replace(record, games=max(record.games, *sizes), status="complete"))
    return ImportedRun(record.run_id, blocks[0].heading, sum(sizes), added)


def _add_or_complete_run(
    archive: ArchiveStore, blocks: list[ImportBlock], spec: dict[str, Any], code: Mapping[str, Any], command: str
) -> ImportedRun:
    run_id = compute_run_id(spec)
    sizes = [len(part.numbers) for part in blocks]
    existing = archive.find_run(run_id)
    number = existing.number if existing else archive.compute_next_run_number()
    record = existing or RunRecord(
        run_id, spec, code, max(sizes), format_current_time(), command=command, number=number
    )
    if existing is None:
        archive.write_run_and_unit_count(record)
    with archive.lock_run(run_id, LOCK_SECONDS):
        added = _write_missing_games(archive, record, [*enumerate(blocks)])
    archive.update_run_and_unit_count(run_id, lambda stored: stored and structs.replace(stored, status="complete"))
    return ImportedRun(run_id, blocks[0].heading, sum(sizes), added)


def _write_missing_games(
    archive: ArchiveStore, record: RunRecord, blocks_by_pairing: Sequence[tuple[int, ImportBlock]], first_unit: int = 0
) -> int:
    """Write the games that the archive lacks, and return their number.

    ``blocks_by_pairing`` has each block with the number of its pairing. Each game becomes a unit. The units are
    numbered from ``first_unit`` in the order of the text, across all pairings. Therefore each number belongs to one
    pairing only. If two pairings had pairs with the same number, these pairs would have to share an imposed opening,
    and imported games need not share one.
    """
    if not blocks_by_pairing:
        return 0
    every = [part for _, part in blocks_by_pairing]
    number = first_unit + np.argsort(_compute_text_order(every))  # of each game, block after block
    ends = np.cumsum([len(part.numbers) for part in every])
    games = merge_games(
        [
            RangeGames(
                first_game_id(pairing, 0) + 2 * of_part,
                np.full(len(of_part), part.heading.opening, np.int8),
                part.games,
            )
            for (pairing, part), of_part in zip(blocks_by_pairing, np.split(number, ends[:-1]), strict=True)
        ]
    )
    end = first_unit + int(ends[-1])
    lacking = archive.list_effective_ranges(record.run_id).list_gaps(end, first_unit)
    for low, high in lacking:
        for span in ranges.split_into_files(low, high, end, FILE_GAMES):
            write_range(archive, record, span, games.select_units(record.unit_line, *span))
    return sum(high - low for low, high in lacking)


FILE_UNITS = 1 << 17  # the most units in a file


class WholeRun(NamedTuple):
    """A run whose record and games are all contained in a text."""

    record: RunRecord
    games: RangeGames  # all games of the run, ascending by id
    rows: NDArray[np.intp]  # indices of the games in the text

    @property
    def units(self) -> int:
        """The number of units that the games fill."""
        return len(self.games.game_id) // self.record.unit_line.games_a_pair


def list_whole_runs(parsed_text: ParsedText, rules: Mapping[str, Rules]) -> Iterator[WholeRun]:
    """Yield the runs whose records and games are all contained in a text, in the order in which the runs began.

    Raises ``RequestError`` if a record has the wrong id, or if the tags of a game contradict the record of its run.
    """
    records = {record.run_id: record for record in parsed_text.records}
    for record in sorted(records.values(), key=lambda record: record.number):
        if record.run_id != compute_run_id(record.spec):
            raise RequestError(f"the record of run {record.run_id} describes run {compute_run_id(record.spec)}")
        rows = np.flatnonzero(parsed_text.run == int(record.run_id, 16))
        rows = rows[np.argsort(parsed_text.game_id[rows], kind="stable")]
        if _has_gapless_games_from_start(record, parsed_text.game_id[rows]):
            _check_tags(parsed_text, rows, record, rules)
            opening = np.array([tags.opening for tags in parsed_text.distinct_tags], np.int8)[parsed_text.tags[rows]]
            yield WholeRun(
                record, RangeGames(parsed_text.game_id[rows], opening, select_games(parsed_text.games, rows)), rows
            )


def _has_gapless_games_from_start(record: RunRecord, game_id: NDArray[np.int64]) -> bool:
    """Return whether the ids ``game_id`` are those of all games in a run's first units, ascending and without gaps."""
    line = record.unit_line
    if not game_id.size or (np.diff(game_id) <= 0).any() or game_id[-1] >> GAME_BITS >= len(record.pairings):
        return False
    if not record.swapped and (game_id & 1).any():
        return False
    return len(game_id) == (int(line.compute_units(game_id).max()) + 1) * line.games_a_pair


def _check_tags(parsed_text: ParsedText, rows: NDArray[np.intp], record: RunRecord, rules: Mapping[str, Rules]) -> None:
    """Raise ``RequestError`` if the tags of a game contradict the record of its run.

    ``rows`` are the indices of the run's games in ``parsed_text``, and ``rules`` are keyed by name.
    """
    seatings = np.column_stack(
        [parsed_text.tags[rows], parsed_text.game_id[rows] >> GAME_BITS, parsed_text.game_id[rows] & 1]
    )
    distinct, first = np.unique(seatings, axis=0, return_index=True)
    for (at, pairing, game), row in zip(distinct.tolist(), first.tolist(), strict=True):
        tags, labels = parsed_text.distinct_tags[at], record.pairings[pairing]
        tagged = tags.agent_0, tags.agent_1, tags.opening, rules[tags.rules]
        if tagged != (*(labels[::-1] if game else labels), record.spec["opening_plies"], record.rules):
            raise RequestError(
                f"game {record.run_id} {parsed_text.game_id[rows[row]]}: its agents, opening or rules are not those of "
                "the record of its run: export the run again, or remove the line of the record to import single games"
            )


def add_missing_games(archive: ArchiveStore, run: WholeRun) -> int:
    """Add to an archive those games of a run that it lacks, and return the number of games added.

    Raises ``RequestError`` if the archive holds different games in the same units. The error is also raised if the
    archive holds only a part of the run, and the code that played this part differs from the code in the record of
    ``run``.
    """
    record, line, run_id = run.record, run.record.unit_line, run.record.run_id
    existing, held = archive.find_run(run_id), archive.list_effective_ranges(run_id)
    for stored in held:
        span = stored.first, min(stored.end, run.units)
        if span[0] < span[1]:
            there = read_games(archive, run_id, stored).select_units(line, *span)
            if there.fingerprint != run.games.select_units(line, *span).fingerprint:
                raise RequestError(
                    f"run {run_id}: units {span[0]} to {span[1] - 1} of the archive are other games than the text has; "
                    f"{archive.format_command(f'archive replay {run_id}')} says which are those of the record"
                )
    lacking = held.list_gaps(run.units)
    if lacking and existing is not None and existing.code.get("fingerprint") != record.code.get("fingerprint"):
        raise RequestError(
            f"run {run_id} was played by other code ({existing.code.get('fingerprint')}) than the games of the text "
            f"({record.code.get('fingerprint')}): import it into another archive"
        )
    new = structs.replace(record, status="running", number=0 if existing else archive.compute_next_run_number())
    archive.update_run_and_unit_count(run_id, lambda there: there or new)
    total = max([run.units, *held.ends.tolist()])
    status = record.status if existing is None or run.units == total else existing.status
    for span in (span for gap in lacking for span in ranges.split_into_files(*gap, total, FILE_UNITS)):
        write_range(archive, record, span, run.games.select_units(line, *span))
    archive.update_run_and_unit_count(
        run_id,
        lambda there: there and structs.replace(there, games=max(there.games, record.games), status=status),
    )
    return sum(end - first for first, end in lacking) * line.games_a_pair
