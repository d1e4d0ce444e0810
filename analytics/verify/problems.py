"""Problems that verification finds."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePath


@dataclass(frozen=True)
class Problem:
    """Something that is wrong with a file."""

    file: PurePath
    what: str
    game_id: int | None = None

    def __str__(self) -> str:
        game = "" if self.game_id is None else f" game {self.game_id}:"
        return f"{self.file}:{game} {self.what}"
