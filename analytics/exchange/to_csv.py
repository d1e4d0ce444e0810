"""Export as CSV: a row a ply, or a row a game with its plies as text."""

from __future__ import annotations

import numpy as np
import polars as pl

from analytics.exchange.sequence import GameChunk
from analytics.exchange.text_kernels import Prefixes, lines_of
from analytics.exchange.turns import BOTH_SEATS
from quarto.batch import ENDINGS
from quarto.rules import NONE, PIECES

NO_PREFIX = Prefixes.from_texts([b""] * (3 * len(ENDINGS)))


def game_columns(chunk: GameChunk) -> pl.DataFrame:
    """[G] the columns of each game without its plies."""
    heading, record, chosen, *_ = chunk
    games = chosen.games
    return pl.DataFrame(
        {
            "run_id": record.run_id,
            "game_id": chosen.game_id,
            "rules": heading.rules,
            "agent_0": heading.agent_0,
            "agent_1": heading.agent_1,
            "winner": games.winner.astype(np.int32),
            "plies": games.plies.astype(np.int32),
            "opening": chosen.opening.astype(np.int32),
            "ending": pl.Series(ENDINGS).gather(games.ending.astype(np.uint32)),
        }
    )


def game_rows(chunk: GameChunk) -> pl.DataFrame:
    """[G] a row a game, with its plies as text."""
    texts = lines_of(chunk.chosen.games, NO_PREFIX).decode().split("\n")[:-1]
    return game_columns(chunk).with_columns(game=pl.Series(texts, dtype=pl.String))


def ply_rows(chunk: GameChunk, perspective: str) -> pl.DataFrame:
    """[R] a row a ply, game by game, with the outcome from a perspective."""
    games = chunk.chosen.games
    game, ply = np.nonzero(np.arange(PIECES) < games.plies[:, None])
    seat = (ply + 1) % 2
    player = seat if chunk.seat(perspective) == BOTH_SEATS else chunk.seat(perspective)
    winner = games.winner[game]
    outcome = np.where(winner == NONE, 0, np.where(winner == player, 1, -1))
    return game_columns(chunk)[game].with_columns(
        ply=ply.astype(np.int32),
        seat=seat.astype(np.int32),
        imposed=(ply < chunk.chosen.opening[game]).astype(np.int32),
        piece=games.pieces[ply, game].astype(np.int32),
        cell=games.cells[ply, game].astype(np.int32),
        **{f"outcome_{perspective}": outcome.astype(np.int32)},
    )
