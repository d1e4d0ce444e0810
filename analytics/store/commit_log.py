"""The log of a run's commits: which of them are there, which count, what they hold together, and adding to it.

A commit may replace others: they stay until ``gc`` removes them, and do not count. What is asked of a log as a whole
comes from a summary, so that checkpoints (see ``checkpoints``) spare a reader the reading of every commit.
"""

from __future__ import annotations

import gc
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import PurePath
from threading import Lock
from typing import NamedTuple

from analytics.files.atomic import explained
from analytics.files.backend import Backend, FileStatus
from analytics.files.pending import LEASE_SECONDS, PendingFiles, boot_seconds
from analytics.statistics.tally import Tally, summed
from analytics.store import checkpoints
from analytics.store.checkpoints import Checkpoint, Summary
from analytics.store.json_records import RESTORE, dump, load, parsed
from analytics.store.ranges import Range, merged, overlaps
from analytics.store.records import COMMIT, Commit, Slice, StoredFile, now
from quarto.errors import FailureError

LISTINGS = 5  # of a folder from which commits vanish between the listing and the reading


class LogPlace(NamedTuple):
    """Where the commits of a run are, and what was kept of them."""

    backend: Backend
    commits: PurePath  # folders
    checkpoints: PurePath

    def path(self, number: int) -> PurePath:
        """The file of the commit of a number."""
        return self.commits / name_of(number)


class CommitLog:
    """The commits of a run that were there at one moment."""

    def __init__(
        self,
        place: LogPlace,
        listed: Mapping[int, FileStatus],
        whole: Iterable[Checkpoint],
        read: Mapping[int, Commit],
    ) -> None:
        self.place = place
        self.listed = listed  # by number
        self.whole = tuple(whole)  # checkpoints of which every commit is there, unchanged
        self.read = read  # the other commits

    @cached_property
    def replaced(self) -> list[Range]:
        """The numbers of the commits that others replaced, whether or not they are there still."""
        of_checkpoints = (each for part in self.whole for each in part.header.summary.replaces)
        return merged([*of_checkpoints, *(each for commit in self.read.values() for each in commit.replaces)])

    @property
    def known(self) -> set[int]:
        """The numbers of all commits that are there or were replaced: none of these is free, none is lost."""
        return {*self.listed, *(number for first, end in self.replaced for number in range(first, end))}

    @cached_property
    def all(self) -> dict[int, Commit]:
        """All commits by number, also those that were replaced."""
        kept, wanted = dict(self.read), []
        for part in self.whole:
            kept |= {number: entry.commit for number, entry in part.entries.items()}
            wanted += [] if part.is_readable else [n for n in self.listed if part.first <= n < part.end]
        with explained("read", self.place.commits):
            kept |= read_commits(self.place, wanted)
        return dict(sorted(kept.items()))

    @cached_property
    def commits(self) -> list[Commit]:
        """The commits that count, by number."""
        return [commit for number, commit in self.all.items() if not overlaps(self.replaced, number, number + 1)]

    def commit_of(self, pairing: int, pair: int) -> Commit | None:
        """The commit that counts and holds a pair."""
        starts, commits = self._starts
        at = bisect_right(starts, (pairing, pair)) - 1
        found = commits[at] if at >= 0 else None
        held = found.slices if found else ()
        return found if any(s.pairing == pairing and s.first_pair <= pair < s.end_pair for s in held) else None

    @cached_property
    def _starts(self) -> tuple[list[Range], list[Commit]]:
        """The pairing and first pair of each slice of the commits that count, ascending, and its commit."""
        found = sorted(
            ((part.pairing, part.first_pair), commit.shard) for commit in self.commits for part in commit.slices
        )
        return [start for start, _ in found], [self.all[number] for _, number in found]

    @cached_property
    def summary(self) -> Summary:
        """The sums over all commits that count."""
        if self._splits:
            return summary_of(self.commits, self.replaced)
        loose = [each for number, each in self.read.items() if not overlaps(self.replaced, number, number + 1)]
        return total([*(part.header.summary for part in self.whole), summary_of(loose, self.replaced)])

    @cached_property
    def is_sound(self) -> bool:
        """Whether no two commits hold the same pairs, and each says of its files what it says of its pairs."""
        held: dict[int, list[Range]] = {}
        for part in self.whole:  # each is sound by itself
            for pairing, ranges in part.header.summary.covered:
                if any(overlaps(held.get(pairing, []), *each) for each in ranges):
                    return not any(faults(self.commits))
                held[pairing] = merged([*held.get(pairing, []), *ranges])
        if self._splits:
            return not any(faults(self.commits))
        return not any(faults((each for each in self.read.values() if self.counts(each)), held))

    @property
    def _splits(self) -> bool:
        """Whether a commit of a checkpoint was replaced by one that is not in it."""
        return any(part.is_split_by(self.replaced) for part in self.whole)

    def counts(self, commit: Commit) -> bool:
        """Whether a commit that is there counts: no other replaced it."""
        return not overlaps(self.replaced, commit.shard, commit.shard + 1)


def name_of(number: int) -> str:
    """The name of the file of a commit."""
    return f"{number:06d}.json"


def read_log(place: LogPlace, known: CommitLog | None = None) -> CommitLog:
    """The log as it is now. Commits that checkpoints, or ``known``, an earlier log, have are not read again.

    Raises ``FailureError`` for a damaged commit, or a folder that cannot be listed.
    """
    for attempt in range(1, LISTINGS + 1):
        with _collector_at_rest():
            with explained("list", place.commits):
                files = place.backend.listed(place.commits)
            numbers = sorted((int(name[:-5]), name) for name in files if COMMIT.fullmatch(name))
            listed = {number: files[name] for number, name in numbers}
            if known is not None and known.listed == listed:
                return known
            try:
                with explained("read", place.commits):
                    return _read(place, listed, known)
            except FailureError as error:  # gc has removed one that was replaced
                if not isinstance(error.__cause__, FileNotFoundError) or attempt == LISTINGS:
                    raise
    raise AssertionError


@contextmanager
def _collector_at_rest() -> Iterator[None]:
    """Inside the context Python's garbage collector rests.

    A listing makes many objects, all of which stay: of 100,000 commits the collector would look at them for 0.6 s.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _read(place: LogPlace, listed: Mapping[int, FileStatus], known: CommitLog | None) -> CommitLog:
    parts = checkpoints.read(
        place.backend, place.checkpoints, {part.name: part for part in known.whole} if known else {}
    )
    whole = [part for part in parts if part.is_of(listed)]
    inside = {number for part in whole for number in listed if part.first <= number < part.end}
    found: dict[int, Commit] = {}
    for part in parts:
        if part not in whole:
            found |= part.unchanged(listed)
    if known is not None:
        found |= {number: each for number, each in known.read.items() if known.listed[number] == listed.get(number)}
    found = {number: each for number, each in found.items() if number not in inside}
    found |= read_commits(place, [number for number in listed if number not in inside and number not in found])
    return CommitLog(place, listed, whole, dict(sorted(found.items())))


def write_checkpoint(log: CommitLog, least: int = checkpoints.COMMITS) -> bool:
    """Write a checkpoint if ``least`` commits are in none; whether one was written. Raises ``OSError``.

    None is written of commits that contradict one another, so that each question to them finds that.
    """
    if len(log.read) < max(1, least) or not log.is_sound:
        return False
    first, end, count = min(log.read), max(log.read) + 1, len(log.read)
    for part in reversed(log.whole):
        if part.end <= first and part.header.commits > checkpoints.GROWTH * count:
            break
        first, end, count = min(first, part.first), max(end, part.end), count + part.header.commits
    own = [commit for number, commit in log.all.items() if first <= number < end]
    replaced = merged(each for commit in own for each in commit.replaces)
    counting = [commit for commit in own if not overlaps(replaced, commit.shard, commit.shard + 1)]
    if any(faults(counting)):
        return False
    entries = [(commit, log.listed[commit.shard]) for commit in own]
    content = checkpoints.content_of(entries, first, end, summary_of(counting, replaced))
    path = log.place.checkpoints / checkpoints.name_of((first, end))
    if not log.place.backend.create(path, content):
        known = log.place.backend.read(path)
        if known != content:  # of other versions of the files, as in a copy of the archive, or damaged
            log.place.backend.replace(path, content)
    return True


def read_commits(place: LogPlace, numbers: Iterable[int]) -> dict[int, Commit]:
    """Commits by number. Raises ``OSError``, and ``FailureError`` naming a file that is not a whole commit."""
    paths = [place.path(number) for number in numbers]
    contents = place.backend.read_all(paths)
    found = (commit_at(path, parsed(path, content, Commit)) for path, content in zip(paths, contents, strict=True))
    return {commit.shard: commit for commit in found}


def commit_in(backend: Backend, path: PurePath) -> Commit:
    """The commit in a file. Raises ``FailureError`` for a damaged one, or one that has another number."""
    return commit_at(path, load(path, Commit, RESTORE, backend))


def commit_at(path: PurePath, commit: Commit) -> Commit:
    """The commit, which a file holds. Raises ``FailureError`` if it has another number."""
    if commit.shard != int(path.stem):
        raise FailureError(f"{path} is damaged (it says shard {commit.shard}): {RESTORE}")
    return commit


def covered_by(commits: Iterable[Commit]) -> dict[int, list[Range]]:
    """The pairs in commits: by pairing, sorted ranges ``(first_pair, end_pair)`` that do not touch."""
    ranges: dict[int, list[Range]] = {}
    for part in (part for commit in commits for part in commit.slices):
        ranges.setdefault(part.pairing, []).append((part.first_pair, part.end_pair))
    return {pairing: merged(ranges[pairing]) for pairing in sorted(ranges)}


def summary_of(commits: Iterable[Commit], replaces: Iterable[Range]) -> Summary:
    """The sums over commits that count; ``replaces`` are the numbers that any of the log replaced."""
    commits = list(commits)
    tallies = summed((part.pairing, part.tally) for commit in commits for part in commit.slices)
    return Summary(
        len(commits),
        sum(commit.games.rows for commit in commits),
        sum(commit.plies.rows for commit in commits),
        any(commit.derived for commit in commits),
        tuple(replaces),
        tuple(sorted(tallies.items())),
        tuple((pairing, tuple(ranges)) for pairing, ranges in covered_by(commits).items()),
    )


def total(summaries: Iterable[Summary]) -> Summary:
    """The sums over the commits of several summaries."""
    summaries = list(summaries)
    covered: dict[int, list[Range]] = {}
    tallies: dict[int, Tally] = summed(each for summary in summaries for each in summary.tallies)
    for pairing, ranges in (each for summary in summaries for each in summary.covered):
        covered.setdefault(pairing, []).extend(ranges)
    return Summary(
        sum(summary.shards for summary in summaries),
        sum(summary.games for summary in summaries),
        sum(summary.plies for summary in summaries),
        any(summary.derived for summary in summaries),
        tuple(merged(each for summary in summaries for each in summary.replaces)),
        tuple(sorted(tallies.items())),
        tuple((pairing, tuple(merged(covered[pairing]))) for pairing in sorted(covered)),
    )


def faults(commits: Iterable[Commit], held: dict[int, list[Range]] | None = None) -> Iterator[tuple[Commit, str]]:
    """The faults of commits that count, by number; ``held`` are the pairs of earlier ones, by pairing."""
    held = {} if held is None else held
    for commit in commits:
        yield from ((commit, what) for what in [*overlapping(commit, held), *_miscounted(commit)])


def overlapping(commit: Commit, held: dict[int, list[Range]]) -> Iterator[str]:
    """The pairs of a commit that earlier ones hold too; adds its own to ``held``, the pairs of earlier ones."""
    for part in commit.slices:
        known = held.setdefault(part.pairing, [])
        if overlaps(known, part.first_pair, part.end_pair):
            pairs = f"pairs {part.first_pair} to {part.end_pair - 1} of pairing {part.pairing}"
            yield f"{pairs} are, in part, also in an earlier commit"
        held[part.pairing] = merged([*known, (part.first_pair, part.end_pair)])


def _miscounted(commit: Commit) -> Iterator[str]:
    for table, stored, counted in (
        ("games", commit.games, sum(part.tally.games for part in commit.slices)),
        ("plies", commit.plies, sum(part.tally.plies for part in commit.slices)),
    ):
        if stored.rows != counted:
            yield f"{stored.rows} rows of {table} for tallies of {counted}"


class Ledger:
    """The commits of one run that were read so far: their numbers, and the pairs that they hold."""

    def __init__(self, place: LogPlace, log: Callable[[], CommitLog]) -> None:
        """``log`` reads the run's log as it is now."""
        self.place = place
        self.log = log
        self.lock = Lock()
        self.numbers: set[int] = set()
        self.ranges: dict[int, list[Range]] = {}
        self.refreshed = boot_seconds()
        self._names: set[str] = set()  # of files in the folder
        self._free = 0  # no lower number is

    @property
    def next_number(self) -> int:
        """The least free number: so a shard that is played again takes the place of a commit that was lost."""
        while self._free in self.numbers:
            self._free += 1
        return self._free

    def refresh(self) -> None:
        """Read the commits that are new since the last call: a commit never changes."""
        with explained("list", self.place.commits):
            names = set(self.place.backend.names(self.place.commits))
        if len(names - self._names) > checkpoints.COMMITS:
            self._take(self.log())
        new = (int(name[:-5]) for name in names - self._names if COMMIT.fullmatch(name))
        wanted = sorted(number for number in new if number not in self.numbers)
        with explained("read", self.place.commits):
            for commit in read_commits(self.place, wanted).values():
                self.learn(commit)
        self._names, self.refreshed = names, boot_seconds()

    def _take(self, log: CommitLog) -> None:
        self.numbers |= log.known
        for pairing, ranges in log.summary.covered:
            self.ranges[pairing] = merged([*self.ranges.get(pairing, []), *ranges])

    def learn(self, commit: Commit) -> None:
        """Note a commit. The numbers of those that it replaced are never free again."""
        self.numbers.add(commit.shard)
        self.numbers.update(each for first, end in commit.replaces for each in range(first, end))
        for part in commit.slices:
            known = self.ranges.get(part.pairing, [])
            self.ranges[part.pairing] = merged([*known, (part.first_pair, part.end_pair)])

    def holds_any(self, slices: Sequence[Slice]) -> bool:
        """Whether any pair of slices is taken."""
        return any(overlaps(self.ranges.get(part.pairing, []), part.first_pair, part.end_pair) for part in slices)

    def create(self, commit: Commit, pending: PendingFiles) -> bool:
        """Create a commit; false, with the ledger up to date, if its number was taken."""
        path = self.place.path(commit.shard)
        if not self.place.backend.create(path, dump(commit), pending.check):
            pending.refused()
            self.learn(commit_in(self.place.backend, path))
            return False
        # A writer that stood still for long may have taken the number of a commit that was replaced and removed
        # meanwhile: then ours does not count either, and needs another number.
        if boot_seconds() - self.refreshed > LEASE_SECONDS:
            self.refresh()
            if not self.log().counts(commit):
                return False
        self.learn(commit)
        return True


def publish(
    ledger: Ledger, slices: tuple[Slice, ...], games: StoredFile, plies: StoredFile, pending: PendingFiles
) -> Commit | None:
    """Create the next free commit, unless one that others created meanwhile holds some of our pairs."""
    while True:
        commit = Commit(ledger.next_number, games, plies, slices, now())
        if ledger.create(commit, pending):
            return commit
        if ledger.holds_any(slices):
            pending.drop()
            return None
