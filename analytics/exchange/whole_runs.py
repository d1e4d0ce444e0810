"""Whole runs in a text: a line with the run's record, and the id of each of its games.

They come back as the same runs. Seeds, parameters, pairs and ids are those of the record, so every question has the
same answer.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np
from msgspec import structs
from numpy.typing import NDArray

from analytics.exchange.reading import ParsedText
from analytics.store import ranges
from analytics.store.archive import Archive
from analytics.store.blocks import RangeGames, games_at
from analytics.store.range_files import read_games, store_range
from analytics.store.records import RunRecord, dump, run_id_of
from quarto.batch import GAME_BITS
from quarto.errors import RequestError
from quarto.rules import Rules

FILE_UNITS = 1 << 17  # of a file, at most


class WholeRun(NamedTuple):
    """A run that a text holds whole."""

    record: RunRecord
    games: RangeGames  # all of them, ascending by id
    rows: NDArray[np.intp]  # of the text

    @property
    def units(self) -> int:
        """How many units its games are."""
        return len(self.games.game_id) // self.record.line.games_a_pair


def record_line(record: RunRecord, number: int) -> bytes:
    """The record of a run as a line; ``number`` says in what order runs began. What an archive notes is left out."""
    plain = structs.replace(record, number=number, units=0, annotated=0, verdicts=())
    return json.dumps(json.loads(dump(plain)), ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def whole_runs(text: ParsedText, rules: Mapping[str, Rules]) -> Iterator[WholeRun]:
    """The runs whose records and games are all in a text, in the order in which they began.

    Raises ``RequestError`` for a record under a wrong id, and if the tags of a game contradict the record of its run.
    """
    records = {record.run_id: record for record in text.records}
    for record in sorted(records.values(), key=lambda record: record.number):
        if record.run_id != run_id_of(record.spec):
            raise RequestError(f"the record of run {record.run_id} describes run {run_id_of(record.spec)}")
        rows = np.flatnonzero(text.run == int(record.run_id, 16))
        rows = rows[np.argsort(text.game_id[rows], kind="stable")]
        if _has_all(record, text.game_id[rows]):
            _check_tags(text, rows, record, rules)
            opening = np.array([tags.opening for tags in text.known], np.int8)[text.tags[rows]]
            yield WholeRun(record, RangeGames(text.game_id[rows], opening, games_at(text.games, rows)), rows)


def _has_all(record: RunRecord, game_id: NDArray[np.int64]) -> bool:
    """Whether ids, which ascend, are those of all games of a run from its first unit on."""
    line = record.line
    if not game_id.size or (np.diff(game_id) <= 0).any() or game_id[-1] >> GAME_BITS >= len(record.pairings):
        return False
    if not record.swapped and (game_id & 1).any():
        return False
    return len(game_id) == (int(line.units_of(game_id).max()) + 1) * line.games_a_pair


def _check_tags(text: ParsedText, rows: NDArray[np.intp], record: RunRecord, rules: Mapping[str, Rules]) -> None:
    """Raise ``RequestError`` if the tags of a game are not those that the record of its run says."""
    seatings = np.column_stack([text.tags[rows], text.game_id[rows] >> GAME_BITS, text.game_id[rows] & 1])
    found, first = np.unique(seatings, axis=0, return_index=True)
    for (at, pairing, game), row in zip(found.tolist(), first.tolist(), strict=True):
        tags, labels = text.known[at], record.pairings[pairing]
        said = tags.agent_0, tags.agent_1, tags.opening, rules[tags.rules]
        if said != (*(labels[::-1] if game else labels), record.spec["opening_plies"], record.rules):
            raise RequestError(
                f"game {record.run_id} {text.game_id[rows[row]]}: its agents, opening or rules are not those of the "
                "record of its run: export the run again, or remove the line of the record to import single games"
            )


def add_whole_run(archive: Archive, run: WholeRun) -> int:
    """Add to an archive what it lacks of a run; returns how many games that were.

    Raises ``RequestError`` if the archive holds other games of the run, or some that other code played.
    """
    record, line, run_id = run.record, run.record.line, run.record.run_id
    known, held = archive.run(run_id), archive.ranges(run_id)
    for stored in held:
        span = stored.first, min(stored.end, run.units)
        if span[0] < span[1]:
            there = read_games(archive, run_id, stored).within(line, *span)
            if there.fingerprint != run.games.within(line, *span).fingerprint:
                raise RequestError(
                    f"run {run_id}: units {span[0]} to {span[1] - 1} of the archive are other games than the text has; "
                    "'qarena archive replay' says which are those of the record"
                )
    lacking = held.missing(run.units)
    if lacking and known is not None and known.code.get("fingerprint") != record.code.get("fingerprint"):
        raise RequestError(
            f"run {run_id} was played by other code ({known.code.get('fingerprint')}) than the games of the text "
            f"({record.code.get('fingerprint')}): import it into another archive"
        )
    new = structs.replace(record, status="running", number=0 if known else archive.next_number())
    archive.update_run(run_id, lambda there: there or new)
    total = max([run.units, *held.ends.tolist()])
    status = record.status if known is None or run.units == total else known.status
    for span in (span for gap in lacking for span in ranges.parts(*gap, total, FILE_UNITS)):
        store_range(archive, record, span, run.games.within(line, *span))
    archive.update_run(
        run_id,
        lambda there: there and structs.replace(there, games=max(there.games, record.games), status=status),
    )
    return sum(end - first for first, end in lacking) * line.games_a_pair
