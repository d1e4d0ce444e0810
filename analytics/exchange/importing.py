"""Games from a text become ordinary runs of an archive, each named by its content: importing twice adds nothing."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any, NamedTuple, NoReturn

import numpy as np
from msgspec import structs
from numpy.typing import NDArray

from analytics.exchange.reading import Text
from analytics.exchange.sequence import IMPORTED, Heading
from analytics.exchange.tags import Tags
from analytics.exchange.to_text import text_of
from analytics.store.archive import Archive, now
from analytics.store.records import RunRecord, run_id_of
from quarto.batch import Block, Games
from quarto.errors import RequestError
from quarto.rules import Rules

SHARD_GAMES = 1 << 18


class Elsewhere:
    """The class that the archive names for a player of imported games. It cannot be made: nobody knows how it plays."""

    def __init__(self) -> NoReturn:
        """Raises ``RequestError``."""
        raise RequestError("a player of imported games cannot be asked for turns: it played elsewhere")


TARGET = f"{Elsewhere.__module__}.{Elsewhere.__qualname__}"


class Done(NamedTuple):
    """What became of the games of one run."""

    run_id: str
    heading: Heading  # of its first games
    games: int
    added: int  # of them now; the others were there


def import_games(
    archive: Archive, text: Text, rules: Mapping[str, Rules], code: Mapping[str, Any], command: str
) -> list[Done]:
    """Add the games of a text. Games with the same rules, event, date and opening are one run, with the seats fixed.

    A run's id follows from its games: what is there already is not added again. ``rules`` by name, ``code`` as in a
    run's record. Raises ``FailureError`` when the disk refuses.
    """
    return [_add(archive, parts, rules, code, command) for parts in _runs(text)]


Part = tuple[Heading, Games]


def _runs(text: Text) -> Iterator[list[Part]]:
    """The games of each run by heading, in the order in which they would leave the archive."""
    headings = [_heading(tags) for tags in text.known]
    of_heading: dict[Heading, list[int]] = {}
    for at in np.unique(text.tags).tolist():
        of_heading.setdefault(headings[at], []).append(at)
    run: list[Part] = []
    for heading in sorted(of_heading):
        if run and heading[:4] != run[0][0][:4]:
            yield run
            run = []
        run.append((heading, _taken(text.games, np.isin(text.tags, of_heading[heading]))))
    if run:
        yield run


def _heading(tags: Tags) -> Heading:
    return Heading(tags.rules, tags.event, tags.date, tags.opening, tags.agent_0, tags.agent_1)


def _taken(games: Games, rows: NDArray[np.bool_] | slice) -> Games:
    pieces, cells, *columns = games
    return Games(pieces[:, rows], cells[:, rows], *(column[rows] for column in columns))


def _spec(parts: list[Part], rules: Rules) -> dict[str, Any]:
    """Everything that makes the run: the hash of its games is part of it."""
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
) -> Done:
    heading = parts[0][0]
    spec = _spec(parts, rules[heading.rules])
    run_id = run_id_of(spec)
    sizes = [len(games.plies) for _, games in parts]
    known = archive.run(run_id)
    record = known or RunRecord(run_id, spec, code, max(sizes), now(), command=command)
    if known is None:
        archive.save_run(record)
    added = 0
    for blocks in _shards(parts):
        commit = archive.commit(run_id, blocks, record.pairings)
        added += commit.games.rows if commit else 0
    if record.status != "complete":
        archive.save_run(structs.replace(record, status="complete"))
    return Done(run_id, heading, sum(sizes), added)


def _shards(parts: list[Part]) -> Iterator[list[Block]]:
    """The games of a run as shards of so many games, the last one excepted.

    Pairs are numbered through the run and not anew in each pairing: where openings were imposed, pairs of a number have
    the same one.
    """
    blocks: list[Block] = []
    number, room = 0, SHARD_GAMES
    for pairing, (heading, games) in enumerate(parts):
        start = 0
        while start < len(games.plies):
            part = _taken(games, slice(start, start + room))
            blocks.append(Block(pairing, number, heading.opening, part, swapped=False))
            size = len(part.plies)
            start, number, room = start + size, number + size, room - size
            if room == 0:
                yield blocks
                blocks, room = [], SHARD_GAMES
    if blocks:
        yield blocks
