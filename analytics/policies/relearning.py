"""Learning again from logged games: the updates that a learner made while it played, replayed in the games' order.

A learner's knowledge is a pure function of its games, so it is stored only when a training is complete. A training that
was stopped continues from its games, and a policy can be derived from them again, bit for bit.

The learning curve of a training is counted from the games in the archive.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import polars as pl

from agents.base.agent import Knowledge
from agents.base.player import KernelPlayer
from agents.learning.learner import Learner, TrainingGames, learn_games_returning_end_and_has_room
from analytics.questions.selection import find_pair_slice
from analytics.store.archive import ArchiveStore, check_record_format
from analytics.store.range_files import read_games, read_rows
from analytics.store.records import RunRecord, run_id_to_stream_key
from quarto.batch import Games
from quarto.errors import RequestError
from quarto.rules import Rules


class LearnerState:
    """A learner with the knowledge that it has so far."""

    def __init__(self, learner: Learner, rules: Rules) -> None:
        self.learner = learner
        self.rules = rules
        self._set_knowledge(learner.knowledge(rules))

    def learn(self, games: Games, training_games: TrainingGames, start: int = 0, end: int | None = None) -> None:
        """Learn from the games of a block in order, from index ``start`` up to but not including index ``end``.

        ``end=None`` means all games from ``start`` on. The knowledge is enlarged when it is full.
        """
        end = len(games.plies) if end is None else end
        update, rules = self.learner.load_update(), self.rules.tables
        while start < end:
            start, room = learn_games_returning_end_and_has_room(
                update, rules, self.player.agent, training_games, (start, end), games
            )
            if not room:
                self.enlarge_knowledge()

    def enlarge_knowledge(self) -> None:
        """Replace the knowledge with a larger copy, after an update has reported that there is no room left."""
        self._set_knowledge(self.learner.enlarge(self.knowledge))

    def _set_knowledge(self, knowledge: Knowledge) -> None:
        """Set the knowledge, and build the player that plays by it."""
        self.knowledge = knowledge  # its arrays change as it learns
        self.player = KernelPlayer(type(self.learner).kernel, knowledge, self.rules)


class LoggedTraining(NamedTuple):
    """A logged run in which an agent learned."""

    record: RunRecord
    learner: int  # index of the agent
    seat: int  # the learner's seat in game 0 of each pair

    @property
    def label(self) -> str:
        """The learner's label."""
        return self.record.labels[self.learner]

    def build_training_games(self, first_pair: int) -> TrainingGames:
        """Build what a learner needs to know about a block of games; ``first_pair`` is the number of its first pair."""
        return TrainingGames(
            run_id_to_stream_key(self.record.run_id), first_pair, self.record.unit_line.games_a_pair, self.seat
        )


def find_training(archive: ArchiveStore, run_id: str) -> LoggedTraining:
    """Return the run with this id as a training.

    Raises ``RequestError`` if the archive lacks the run, or if no agent learned in it.
    """
    record = archive.load_requested_run(run_id)
    learner = check_record_format(record).spec.get("learner")
    if learner is None or len(record.pairings) != 1:
        raise RequestError(f"no agent learned in run {run_id}: policies come from runs of trainings")
    return LoggedTraining(record, int(learner), list(record.spec["pairings"][0]).index(learner))


def relearn_knowledge(archive: ArchiveStore, run_id: str, learner: Learner, game_count: int | None = None) -> Knowledge:
    """Learn again from the first ``game_count`` games of a training (None: all); return the learner's knowledge.

    The knowledge has the same bytes as the knowledge that the learner had after these games. Only one file of games is
    in memory at a time. Raises ``RequestError`` if no agent learned in the run or the archive lacks some of these
    games, and ``FailureError`` for a damaged file.
    """
    training = find_training(archive, run_id)
    state, games_per_pair = LearnerState(learner, training.record.rules), training.record.unit_line.games_a_pair
    pairs = archive.list_effective_ranges(run_id).units if game_count is None else game_count // games_per_pair
    reached = 0
    for first_pair, played in read_pair_blocks(archive, run_id, 0, pairs):
        if first_pair != reached:
            break
        state.learn(played, training.build_training_games(first_pair))
        reached += len(played.plies) // games_per_pair
    if reached != pairs:
        raise RequestError(
            f"run {run_id} lacks games from number {reached * games_per_pair} on: repeat the command of the run to "
            "play them"
        )
    return state.knowledge


def read_pair_blocks(archive: ArchiveStore, run_id: str, first_pair: int, end_pair: int) -> Iterator[tuple[int, Games]]:
    """Yield, for each block of consecutive pairs of a run, the number of its first pair and its games.

    The run must have only one pairing, as trainings do. The blocks hold the pairs from ``first_pair`` up to but not
    including ``end_pair``, in order; pairs that the archive lacks are left out. Raises ``FailureError`` for a damaged
    file.
    """
    for stored in archive.list_effective_ranges(run_id).select_overlapping(first_pair, end_pair):  # a unit is a pair
        pairs = max(stored.first, first_pair), min(stored.end, end_pair)
        range_games = read_games(archive, run_id, stored)
        columns = find_pair_slice(range_games.game_id, 0, *pairs)
        yield pairs[0], Games(*(np.ascontiguousarray(field[..., columns]) for field in range_games.games))


CURVE_BLOCK = 1000  # games in each row, as in study B's chart


def compute_learning_curve(
    archive: ArchiveStore, run_id: str, game_count: int, block_games: int = CURVE_BLOCK
) -> pl.DataFrame:
    """Compute the learner's results in each block of ``block_games`` among the first ``game_count`` games.

    There is one row for each block, in the order of play; the last block may be shorter. Columns: ``first_game`` (from
    0), ``games``, ``wins``, ``draws``, ``losses`` of the learner (Int64), ``win_rate`` (Float64). Raises
    ``RequestError`` if no agent learned in the run.
    """
    training = find_training(archive, run_id)
    parts = (read_rows(archive, run_id, stored, "games") for stored in archive.list_effective_ranges(run_id))
    number = pl.col("game_id") * training.record.unit_line.games_a_pair // 2
    seat = (pl.col("agent_1").cast(pl.String) == training.label).cast(pl.Int8)
    columns = {"number": number, "winner": pl.col("winner"), "seat": seat}
    rows = [part.select(**columns) for part in parts]
    if not rows:
        return pl.DataFrame(schema=CURVE_SCHEMA)
    return (
        pl.concat(rows)
        .filter(pl.col("number") < game_count)
        .group_by(first_game=pl.col("number") // block_games * block_games)
        .agg(games=pl.len(), wins=(pl.col("winner") == pl.col("seat")).sum(), draws=(pl.col("winner") == -1).sum())
        .with_columns(losses=pl.col("games") - pl.col("wins") - pl.col("draws"))
        .with_columns(win_rate=pl.col("wins") / pl.col("games"))
        .select(pl.col(name).cast(kind) for name, kind in CURVE_SCHEMA.items())
        .sort("first_game")
    )


CURVE_SCHEMA = {
    **dict.fromkeys(("first_game", "games", "wins", "draws", "losses"), pl.Int64()),
    "win_rate": pl.Float64(),
}
