"""The archive's part of a board: what was played in a position, and the values of a logged game that are known."""

from __future__ import annotations

from contextlib import suppress

from analytics.query.openings import OpeningsQuery
from quarto.errors import ArenaError, FailureError
from runners.browse import replay
from runners.browse.explorer import Found, found_in, nothing
from runners.browse.games import ArchivedGame
from runners.browse.library import StillOpeningError
from runners.browse.replay import GIFT
from runners.web.background import Background, BackgroundJob
from runners.web.reader import ArchiveReader, ArchiveService
from runners.web.settings import Site

SECONDS = 20.0
FILL = "qarena run rule_based random games=10000"


class PlayedHere:
    """Questions about positions, each in a thread of its own: no page waits for them."""

    def __init__(self, site: Site) -> None:
        self._library = site.service(ArchiveService).library
        self._background = Background(2, waiting=50, kept=300, idle_seconds=SECONDS, politely=True)

    def close(self) -> None:
        self._background.close()

    def of(self, position: str) -> BackgroundJob:
        """The search for the decisions in a position in text form; its result is ``Found``."""
        try:
            content = self._library.content()
        except (ArenaError, StillOpeningError) as error:  # the board is shown whatever the archive is like
            reason = str(error) or "the archive is being opened"
            return self._background.job((position, reason), lambda _job: nothing(reason))

        def work(_job: BackgroundJob) -> Found:
            if content is None:
                return nothing(f"the archive is empty: {FILL} fills it")
            try:
                return content.ask(found_in, OpeningsQuery(position))
            except ArenaError as error:
                return nothing(str(error))

        return self._background.job(position, work, SECONDS, version=content and id(content))


def known_values(reader: ArchiveReader, game: ArchivedGame) -> dict[int, int]:
    """The annotated values of a logged game for seat 0, by the number of decisions before."""
    found: dict[int, int] = {}
    with suppress(FailureError):  # a damaged file: then all values are searched for here
        judged = reader.ask(replay.annotated, game.record.run_id, game.game_id)
        for (ply, kind), value in judged.items():
            at, mover = (ply if game.record.rules.mover_chooses else 2 * ply + (kind != GIFT)), (ply + 1) % 2
            sign = 1 if (mover == 0) == (kind != GIFT) else -1
            found |= {at: sign * value.before, at + 1: sign * value.after}
    return found
