"""A line of text for each game, with all that is needed to import it again."""

from __future__ import annotations

from collections.abc import Iterable
from typing import BinaryIO

from analytics.exchange.letters import Endings, lines_of
from analytics.exchange.sequence import Heading, Passage
from analytics.exchange.tags import ending_tags, heading_tags
from quarto.batch import ENDINGS, Games
from quarto.rules import NONE


def write_text(passages: Iterable[Passage], out: BinaryIO) -> None:
    """Write the games, tags and plies."""
    out.writelines(text_of(passage.heading, passage.chosen.games) for passage in passages)


def text_of(heading: Heading, games: Games) -> bytes:
    """The lines of games of one heading."""
    common = heading_tags(heading._asdict())
    texts = [f"{common} {ending_tags(winner, ending)}" for winner in (NONE, 0, 1) for ending in range(len(ENDINGS))]
    return lines_of(games, Endings.of([text.encode() for text in texts]))
