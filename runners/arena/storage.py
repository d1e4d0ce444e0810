"""The options for storing the games of a run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePath

from analytics import DEFAULT_ARCHIVE

OTHER_CODE_ACTIONS = ("refuse", "extend", "new")


@dataclass(frozen=True)
class ArchiveOptions:
    """The options that say where and how games are stored. No option affects the games."""

    root: PurePath = DEFAULT_ARCHIVE  # location of the archive
    shard_games: int = 1 << 18  # the most games in a file
    shard_seconds: float = 30.0  # time after which games are written even if a file could hold more
    # What to do with a run that other code began: refuse it, extend it, or play a new run beside it.
    other_code: str = OTHER_CODE_ACTIONS[0]
    evaluations: bool = False  # whether the agents' evaluations are stored too

    def max_units_per_file(self, games_a_pair: int) -> int:
        """Return the largest number of units that a file may hold. It is a power of two."""
        return 1 << (max(1, self.shard_games // games_a_pair).bit_length() - 1)
