"""Import of games as ordinary runs. A run's id follows from its games, so importing them again adds nothing."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from itertools import groupby
from typing import Any, NamedTuple, NoReturn

import numpy as np
from msgspec import structs

from analytics.exchange.reading import ParsedText
from analytics.exchange.sequence import IMPORTED, Heading
from analytics.exchange.tags import Tags
from analytics.exchange.text_kernels import text_of
from analytics.store.archive import Archive, now
from analytics.store.records import RunRecord, run_id_of
from analytics.store.run_numbers import next_number
from analytics.store.shard_arrays import games_at
from quarto.batch import Block, Games
from quarto.errors import RequestError
from quarto.rules import Rules

SHARD_GAMES = 1 << 18


class ImportedPlayer:
    """The target of players of imported games in an archive. It cannot be instantiated: how it plays is not known."""

    def __init__(self) -> NoReturn:
        """Raises ``RequestError``."""
        raise RequestError("a player of imported games cannot play here: only its games are known")


TARGET = f"{ImportedPlayer.__module__}.{ImportedPlayer.__qualname__}"


class ImportedRun(NamedTuple):
    """The games of one run, and how many of them are new."""

    run_id: str
    heading: Heading  # of its first games
    games: int
    added: int  # the others were in the archive already


def import_games(
    archive: Archive, text: ParsedText, rules: Mapping[str, Rules], code: Mapping[str, Any], command: str
) -> list[ImportedRun]:
    """Add the games of a text. Games with the same rules, event, date and opening are one run with fixed seats.

    A run that is there already is not added again. ``rules`` are by name, ``code`` is as in a run's record. Raises
    ``FailureError`` if the archive cannot be written.
    """
    return [_add(archive, parts, rules, code, command) for parts in _runs(text)]


Part = tuple[Heading, Games]


def _runs(text: ParsedText) -> Iterator[list[Part]]:
    """The games of each run by heading, in the order in which they are exported."""
    headings = [_heading(tags) for tags in text.known]
    of_heading: dict[Heading, list[int]] = {}
    for at in np.unique(text.tags).tolist():
        of_heading.setdefault(headings[at], []).append(at)
    for _, run in groupby(sorted(of_heading), key=lambda heading: heading[:4]):
        yield [(heading, games_at(text.games, np.isin(text.tags, of_heading[heading]))) for heading in run]


def _heading(tags: Tags) -> Heading:
    return Heading(tags.rules, tags.event, tags.date, tags.opening, tags.agent_0, tags.agent_1)


def _spec(parts: list[Part], rules: Rules) -> dict[str, Any]:
    """The spec of a run, which holds a hash of its games."""
    heading = parts[0][0]
    labels = sorted({label for each, _ in parts for label in (each.agent_0, each.agent_1)})
    digest = hashlib.sha256()
    for each, games in parts:
        digest.update(text_of(each, games))
    return {
        "rules": asdict(rules),
        "agents": [{"label": label, "target": TARGET, "params": {}} for label in labels],
        "pairings": [[labels.index(each.agent_0), labels.index(each.agent_1)] for each, _ in parts],
        "seed": 0,
        "opening_plies": heading.opening,
        "seats": "fixed",
        IMPORTED: {"event": heading.event, "date": heading.date, "sha256": digest.hexdigest()},
    }


def _add(
    archive: Archive, parts: list[Part], rules: Mapping[str, Rules], code: Mapping[str, Any], command: str
) -> ImportedRun:
    heading = parts[0][0]
    spec = _spec(parts, rules[heading.rules])
    run_id = run_id_of(spec)
    sizes = [len(games.plies) for _, games in parts]
    known = archive.run(run_id)
    number = known.number if known else next_number(archive)
    record = known or RunRecord(run_id, spec, code, max(sizes), now(), command=command, number=number)
    if known is None:
        archive.save_run(record)
    added = 0
    for blocks in _shards(parts):
        commit = archive.commit(run_id, blocks, record.pairings)
        added += commit.games.rows if commit else 0
    archive.update_run(run_id, lambda known: known and structs.replace(known, status="complete"))
    return ImportedRun(run_id, heading, sum(sizes), added)


def _shards(parts: list[Part]) -> Iterator[list[Block]]:
    """The games of a run in shards of ``SHARD_GAMES``; the last one may have fewer.

    Pair numbers run through all pairings: with imposed openings, pairs of the same number in different pairings share
    an opening, which imported games need not.
    """
    blocks: list[Block] = []
    number, room = 0, SHARD_GAMES
    for pairing, (heading, games) in enumerate(parts):
        start = 0
        while start < len(games.plies):
            part = games_at(games, slice(start, start + room))
            blocks.append(Block(pairing, number, heading.opening, part, swapped=False))
            size = len(part.plies)
            start, number, room = start + size, number + size, room - size
            if room == 0:
                yield blocks
                blocks, room = [], SHARD_GAMES
    if blocks:
        yield blocks
