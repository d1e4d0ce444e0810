"""The archive's games in a position: what was played there, how often, and with what results."""

from __future__ import annotations

import time
from collections.abc import Mapping
from threading import Event
from typing import Any, NamedTuple

from analytics.query.openings import OpeningsQuery, explore
from analytics.sql.database import OpenArchive
from analytics.sql.limits import Limits
from quarto.errors import ArenaError
from runners.web.background import Background, BackgroundJob
from runners.web.settings import Site

SECONDS = 20.0
FILL = "qarena run rule_based random games=10000"
FRESH_SECONDS = 60  # for which an answer is shown again


class PlayedDecision(NamedTuple):
    """A decision that was made in the position, up to symmetry."""

    word: str  # as in a line
    alike: int  # decisions that are equivalent by symmetry
    games: int
    share: float  # of the games there
    score: float  # points a game of the player that decides, a draw counting half


class Found(NamedTuple):
    """The games in which a decision was made in the position."""

    games: int
    rows: tuple[PlayedDecision, ...]
    reason: str = ""  # why there are none


class Statistics:
    """Questions to the openings index, each in a thread of its own."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._background = Background(2, waiting=50, kept=300, idle_seconds=SECONDS, politely=True)

    def close(self) -> None:
        self._background.close()

    def of(self, position: str) -> BackgroundJob:
        """The search for the games in a position in text form; its result is ``Found``."""
        minute = int(time.monotonic()) // FRESH_SECONDS
        return self._background.job(position, lambda job: self._find(job, position), SECONDS, version=minute)

    def _find(self, job: BackgroundJob, position: str) -> Found:
        if self._site.existing_archive() is None:
            return Found(0, (), f"the archive is empty: {FILL} fills it")
        try:
            stopped = Event()
            job.when_stopped(stopped.set)
            with OpenArchive(self._site.settings.archive, Limits(stopped=stopped)) as opened:
                explored = explore(opened, OpeningsQuery(position), samples=False)
        except ArenaError as error:  # the board is shown whatever the archive is like
            return Found(0, (), str(error))
        rows = (_played(explored.by, row) for row in explored.rows.iter_rows(named=True))
        return Found(explored.games, tuple(rows))


def _played(by: str, row: Mapping[str, Any]) -> PlayedDecision:
    word = {"gift": row.get("gift"), "placement": row.get("cell"), "turn": f"{row.get('piece')}@{row.get('cell')}"}[by]
    score = (row["wins"] + row["draws"] / 2) / row["games"]
    return PlayedDecision(str(word), row["alike"], row["games"], row["share"], score)
