"""Where and how a run stores its games."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePath

from analytics import DEFAULT_ARCHIVE

OTHER_CODE_ACTIONS = ("refuse", "extend", "new")


@dataclass(frozen=True)
class ArchiveOptions:
    """Where and how games are stored; nothing here affects them."""

    root: PurePath = DEFAULT_ARCHIVE  # of the archive
    shard_games: int = 1 << 18  # at most these are written together
    shard_seconds: float = 30.0  # after this time games are written even if there are fewer
    other_code: str = OTHER_CODE_ACTIONS[
        0
    ]  # if other code has begun the run: refuse, extend it, or play a new one beside it
    evaluations: bool = False  # those of the agents are stored too

    def max_units_per_file(self, games_a_pair: int) -> int:
        """The most units in a file: a power of two."""
        return 1 << (max(1, self.shard_games // games_a_pair).bit_length() - 1)
