"""Checkpoints of commits: files that hold many commits of a run, so that a reader need not read each.

A checkpoint is never needed. It says of each commit which version of its file it was read from, so it is believed as
long as the listing of the folder says the same; any other commit is read from its own file. It begins with a line of
sums over its commits, which is all that a question about runs needs; the lines after it are read when they are.

Checkpoints form a chain: each one holds the commits that came since the one before, together with those of earlier
ones that are not much larger. So a commit is stored again only as often as the logarithm of their number.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import PurePath

import msgspec

from analytics.files.backend import Backend, FileStatus
from analytics.statistics.tally import Tally
from analytics.store.json_records import Count, JsonRecord, RecordError, StoredRecord, canonical, parse, sealed
from analytics.store.ranges import Range, merged, overlaps
from analytics.store.records import Commit, Ranges, Sha256

FOLDER = "checkpoints"
NAME = re.compile(r"([0-9]{6,12})-([0-9]{6,12})\.jsonl")
COMMITS = 256  # that are in no checkpoint: then one is written
GROWTH = 2  # an earlier checkpoint that is at most so many times larger becomes part of the new one


class Summary(JsonRecord, frozen=True):
    """The sums over commits of a run that count."""

    shards: Count
    games: Count
    plies: Count
    derived: bool  # whether any of them names derived tables
    replaces: Ranges  # numbers of commits
    tallies: tuple[tuple[Count, Tally], ...]  # by pairing
    covered: tuple[tuple[Count, Ranges], ...]  # by pairing: first pair, end


class Header(StoredRecord, frozen=True):
    """The first line of a checkpoint."""

    first: Count  # it holds the commits with numbers from this one
    end: Count  # to before this one
    commits: Count  # their number
    listing: Sha256  # of the numbers and versions of their files
    sha256: Sha256  # of the bytes after the first line
    summary: Summary


class Entry(msgspec.Struct, frozen=True, array_like=True):
    """One of the other lines: a commit, and the version of its file that it was read from."""

    version: list[str | int]
    commit: Commit


_ENTRIES = msgspec.json.Decoder(Entry)


def digest(listed: Iterable[tuple[int, FileStatus]]) -> str:
    """The SHA-256 of numbers of commits, ascending, and the versions of their files."""
    return _sealed_listing([(number, status.version) for number, status in listed])


def _sealed_listing(versions: Sequence[tuple[int, tuple[str | int, ...]]]) -> str:
    return hashlib.sha256(msgspec.json.encode(versions)).hexdigest()


class Checkpoint:
    """A checkpoint that was read. Its sums are believed by ``is_of`` alone, its commits one by one."""

    def __init__(self, header: Header, rest: bytes) -> None:
        self.header = header
        self.first, self.end = header.first, header.end
        self._rest = rest

    @property
    def name(self) -> str:
        """The name of its file."""
        return name_of((self.first, self.end))

    @cached_property
    def entries(self) -> dict[int, Entry]:
        """The commits by number; nothing if the bytes are not those that were written."""
        if hashlib.sha256(self._rest).hexdigest() != self.header.sha256:
            return {}
        with suppress(msgspec.DecodeError):
            return {entry.commit.shard: entry for entry in map(_ENTRIES.decode, self._rest.splitlines())}
        return {}

    @cached_property
    def is_readable(self) -> bool:
        """Whether all its commits can be read."""
        return len(self.entries) == self.header.commits

    def is_of(self, listed: Mapping[int, FileStatus]) -> bool:
        """Whether exactly its commits are there between its first and last number, each as it was read."""
        own = [(number, status.version) for number, status in listed.items() if self.first <= number < self.end]
        return len(own) == self.header.commits and _sealed_listing(own) == self.header.listing

    def unchanged(self, listed: Mapping[int, FileStatus]) -> dict[int, Commit]:
        """Those of its commits that are there as they were read, by number."""
        same = (number for number in self.entries if number in listed)
        return {
            number: self.entries[number].commit
            for number in same
            if list(listed[number].version) == self.entries[number].version
        }

    def is_split_by(self, replaced: Sequence[Range]) -> bool:
        """Whether commits that it counts were replaced by others than its own."""
        own = merged(self.header.summary.replaces)
        return any(
            overlaps(replaced, self.first, self.end) and not _within(each, own, self.first, self.end)
            for each in replaced
        )


def _within(numbers: Range, own: Sequence[Range], first: int, end: int) -> bool:
    """Whether all numbers that are in [first, end) too are in ``own``."""
    low, high = max(numbers[0], first), min(numbers[1], end)
    return low >= high or any(a <= low and high <= b for a, b in own)


def name_of(interval: Range) -> str:
    """The name of the checkpoint of the commits from a first number to before an end."""
    return f"{interval[0]:06d}-{interval[1]:06d}.jsonl"


def interval_of(name: str) -> Range | None:
    """The first number and the end in a checkpoint's name; None for the name of another file."""
    found = NAME.fullmatch(name)
    return (int(found[1]), int(found[2])) if found else None


def chosen(names: Iterable[str]) -> list[str]:
    """The checkpoints to read, by number: the largest, and others that have no number in common with these."""
    taken: list[tuple[Range, str]] = []
    known = [(interval, name) for name in names if (interval := interval_of(name))]
    for interval, name in sorted(known, key=lambda each: (each[0][0] - each[0][1], each[1])):
        if all(interval[1] <= first or end <= interval[0] for (first, end), _ in taken):
            taken.append((interval, name))
    return [name for _, name in sorted(taken)]


def read(backend: Backend, folder: PurePath, known: Mapping[str, Checkpoint]) -> list[Checkpoint]:
    """The checkpoints in a folder, by number, from ``known`` if they are there.

    One that cannot be read is left out: it is not needed.
    """
    found: list[Checkpoint] = []
    names: list[str] = []
    with suppress(OSError):
        names = chosen(backend.names(folder))
    for name in names:
        with suppress(OSError, RecordError):
            found.append(known.get(name) or checkpoint_of(name, backend.read(folder / name)))
    return found


def checkpoint_of(name: str, content: bytes) -> Checkpoint:
    """The checkpoint in the content of a file. Raises ``RecordError`` if it is none."""
    line, _, rest = content.partition(b"\n")
    header = parse(line, Header)
    if (header.first, header.end) != interval_of(name):
        raise RecordError(f"it holds commits {header.first} to {header.end}")
    return Checkpoint(header, rest)


def content_of(entries: Sequence[tuple[Commit, FileStatus]], first: int, end: int, summary: Summary) -> bytes:
    """The bytes of a checkpoint of commits by number, with the status of the file of each."""
    rest = b"".join(msgspec.json.encode(Entry(list(status.version), commit)) + b"\n" for commit, status in entries)
    listing = digest((commit.shard, status) for commit, status in entries)
    header = Header(first, end, len(entries), listing, hashlib.sha256(rest).hexdigest(), summary)
    return canonical(sealed(msgspec.to_builtins(header))) + b"\n" + rest
