"""The ledger of a writer: which numbers and which pairs of a run are taken, and creating the next commit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Lock

from analytics.files.atomic import explained
from analytics.files.pending import LEASE_SECONDS, PendingFiles, boot_seconds
from analytics.store import checkpoints
from analytics.store.commit_log import CommitLog, LogPlace, commit_in, read_commits
from analytics.store.json_records import dump
from analytics.store.ranges import Range, merged, overlaps
from analytics.store.records import COMMIT, Commit, Slice, StoredFile, now


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
