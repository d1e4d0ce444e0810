"""Plain comma-separated values: a row a ply, or a row a game with its plies as text."""

from __future__ import annotations

from collections.abc import Iterable
from typing import BinaryIO

import numpy as np
import polars as pl
from numpy.typing import NDArray

from analytics.exchange.letters import Endings, lines_of
from analytics.exchange.sequence import Passage
from analytics.exchange.turns import PERSPECTIVES
from quarto.batch import ENDINGS, Games
from quarto.rules import NONE, PIECES

NOTHING = Endings.of([b""] * (3 * len(ENDINGS)))


def write_games(passages: Iterable[Passage], out: BinaryIO) -> None:
    """Write a row a game."""
    _write((_game_rows(passage) for passage in passages), out)


def write_plies(passages: Iterable[Passage], perspective: str, out: BinaryIO) -> None:
    """Write a row a ply, game by game, with the outcome from a perspective."""
    _write((_ply_rows(passage, perspective) for passage in passages), out)


def _write(frames: Iterable[pl.DataFrame], out: BinaryIO) -> None:
    out.writelines(frame.write_csv(include_header=number == 0).encode() for number, frame in enumerate(frames))


def heads(passage: Passage) -> pl.DataFrame:
    """[G] what is known of each game but its plies."""
    heading, record, chosen = passage
    games = chosen.games
    return pl.DataFrame(
        {
            "run_id": pl.repeat(record.run_id, len(chosen.game_id), eager=True),
            "game_id": chosen.game_id,
            "rules": pl.repeat(heading.rules, len(chosen.game_id), eager=True),
            "agent_0": pl.repeat(heading.agent_0, len(chosen.game_id), eager=True),
            "agent_1": pl.repeat(heading.agent_1, len(chosen.game_id), eager=True),
            "winner": games.winner.astype(np.int32),
            "plies": games.plies.astype(np.int32),
            "opening": chosen.opening.astype(np.int32),
            "ending": pl.Series(ENDINGS).gather(games.ending.astype(np.uint32)),
        }
    )


def _game_rows(passage: Passage) -> pl.DataFrame:
    texts = lines_of(passage.chosen.games, NOTHING).decode().split("\n")[:-1]
    return heads(passage).with_columns(game=pl.Series(texts, dtype=pl.String))


def _ply_rows(passage: Passage, perspective: str) -> pl.DataFrame:
    games = passage.chosen.games
    game, ply = np.nonzero(np.arange(PIECES) < games.plies[:, None])
    seat = (ply + 1) % 2
    told = seat if PERSPECTIVES[perspective] < 0 else np.full(len(ply), PERSPECTIVES[perspective])
    return heads(passage)[game].with_columns(
        ply=ply.astype(np.int32),
        seat=seat.astype(np.int32),
        imposed=(ply < passage.chosen.opening[game]).astype(np.int32),
        piece=games.pieces[ply, game].astype(np.int32),
        cell=games.cells[ply, game].astype(np.int32),
        **{f"outcome_{perspective}": _outcome(games, game, told).astype(np.int32)},
    )


def _outcome(games: Games, game: NDArray[np.intp], seat: NDArray[np.intp]) -> NDArray[np.int64]:
    """[R] 1 won, 0 drew, -1 lost, for a seat."""
    winner = games.winner[game]
    return np.where(winner == NONE, 0, np.where(winner == seat, 1, -1))
