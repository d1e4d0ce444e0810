"""Export as text: a line a game, with everything that is needed to import it again."""

from __future__ import annotations

from collections.abc import Iterable
from typing import BinaryIO

from analytics.exchange.sequence import GameChunk, Heading
from analytics.exchange.tags import ending_tags, heading_tags
from analytics.exchange.text_kernels import Prefixes, lines_of
from quarto.batch import ENDINGS, Games
from quarto.rules import NONE


def write_text(chunks: Iterable[GameChunk], out: BinaryIO) -> None:
    """Write the games: tags and plies."""
    out.writelines(text_of(chunk.heading, chunk.chosen.games) for chunk in chunks)


def text_of(heading: Heading, games: Games) -> bytes:
    """The lines of games of one heading."""
    common = heading_tags(heading._asdict())
    texts = [f"{common} {ending_tags(winner, ending)}" for winner in (NONE, 0, 1) for ending in range(len(ENDINGS))]
    return lines_of(games, Prefixes.from_texts([text.encode() for text in texts]))
