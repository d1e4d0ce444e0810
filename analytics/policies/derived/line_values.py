"""The kinds 'line_values' and 'line_network': values of afterstates that generalise, from features of their lines."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np
import polars as pl
from msgspec import Meta
from numpy.typing import NDArray

from agents.learning.line_features import (
    BOARD,
    DANGERS,
    MOST_FEATURES,
    STAGE_SIZE,
    clear_lines,
    features_of,
    mark_of,
    put_on_lines,
    survey,
    words_of,
)
from agents.learning.policy import Policy
from agents.line_values import HEADS, LINE_NETWORK, LINE_VALUES, MOST_UNITS, NOT_LOST, WON, columns_of
from agents.parameters import check_fields
from analytics.policies.derived.dataset import GameSource, Learned, check_played, seats_of
from analytics.policies.derived.line_cloning import clone
from analytics.policies.derived.line_fit import (
    GAMES_AT_A_TIME,
    LearningPlan,
    StageFit,
    StageLearner,
    Stages,
    chance_of,
    forward,
    learn_in_passes,
    learn_outputs,
    learn_rows,
    step_memory,
)
from analytics.policies.derived.line_sweep import Sweep
from quarto.batch import NO_VALUE, VALUE_UNITS, Games
from quarto.errors import RequestError
from quarto.jit import float64, int64, kernel
from quarto.position import ALL_PIECES
from quarto.rules import CELLS, NONE, PIECES
from quarto.threats import SAFE_PIECES


class LoggedGames(NamedTuple):
    """Games that are learned from."""

    games: Games
    opening: NDArray[np.int8]  # [G] plies that were imposed
    thought: NDArray[np.int32]  # [16, G] millionths that the turns were worth to their players, or NO_VALUE; [16, 0]
    seats: NDArray[np.int8]  # [G] whose turns are learned, a bit each


@kernel()
def learn_games(
    logged: LoggedGames,
    stage: int,
    words: Any,
    rate: float,
    fit: StageFit,
    sums: Any,
) -> int:
    """Learn one stage from some games, in their order; returns how many boards there were.

    A game counts if a player chose the gift and it could finish no line at once. The answer to a gift that can finish a
    line says nothing about the board. What is learned is how the game ended or, if there are thoughts, the score that
    the player expected when it made the turn. Games in which it told none are left out. The squared errors are added
    to ``sums`` [HEADS].
    """
    board, found = np.empty((2, BOARD), np.int64), np.empty(MOST_FEATURES, np.int64)
    values, slopes = np.empty(HEADS + fit.units, np.float32), np.empty(max(fit.units, 1), np.float32)
    boards, rate32, steps = int64(0), np.float32(rate), step_memory()
    errors, targets = np.empty(HEADS, np.float32), np.empty(HEADS, np.float64)
    games, thought, thinks = logged.games, int64(NO_VALUE), logged.thought.shape[1] > 0
    for game in range(logged.opening.shape[0]):
        if games.plies[game] <= stage or logged.opening[game] > stage or (logged.seats[game] >> (stage & 1)) & 1 == 0:
            continue
        if thinks:
            thought = int64(logged.thought[stage - 1, game])
            if thought == NO_VALUE:
                continue
        occupied, left = int64(0), int64(ALL_PIECES)
        clear_lines(words, board[0])
        for ply in range(stage):
            piece, cell = int64(games.pieces[ply, game]), int64(games.cells[ply, game])
            left &= ~(int64(1) << piece)
            occupied |= int64(1) << cell
            put_on_lines(board[0], piece, cell, words)
        gift = int64(games.pieces[stage, game])
        survey(occupied, words, board[0])
        if (SAFE_PIECES[board[0, DANGERS]] >> gift) & 1 == 0:
            continue
        count = features_of(occupied, gift, left & ~(int64(1) << gift), words, board[0], board[1], found)
        winner = int64(games.winner[game])
        targets[NOT_LOST] = float64(int64(winner == NONE or winner == stage & 1))
        targets[WON] = float64(int64(winner == stage & 1))
        if thinks:
            targets[:] = (float64(thought) / VALUE_UNITS + 1.0) / 2.0
        forward(found, count, fit, values)
        for head in range(HEADS):
            errors[head] = np.float32(targets[head] - chance_of(float64(values[head])))
            sums[head] += errors[head] * errors[head]
        mean = learn_outputs(errors, rate32, fit, values, slopes)
        learn_rows(found, count, errors, rate32, fit, slopes, mean, steps)
        boards += 1
    return boards


def learn_from_games(
    dataset: GameSource, words: NDArray[np.uint64], units: int, plan: LearningPlan, agent: str | None, threads: int
) -> tuple[Stages, pl.DataFrame]:
    """The weights by how the games ended, or by what was thought in them, and the errors of each pass.

    See ``learn_in_passes``. Raises ``RequestError`` for an agent without games.
    """

    def blocks(_number: int) -> Iterator[StageLearner]:
        met = False
        for record, part in dataset.parts():
            seats = seats_of(agent, record, part.game_id)
            met |= bool(seats.any())
            nothing = np.empty((PIECES, 0), np.int32)
            thought = dataset.thought_values(record.run_id, part) if plan.thoughts else nothing
            for first in range(0, len(part.game_id), GAMES_AT_A_TIME):
                span = slice(first, first + GAMES_AT_A_TIME)
                block = part.part(span)
                told = np.ascontiguousarray(thought[:, span])
                logged = LoggedGames(block.games, block.opening, told, seats[span])

                def learn(
                    stage: int, rate: float, fit: StageFit, sums: NDArray[np.float64], logged: LoggedGames = logged
                ) -> None:
                    sums[0, 0] += learn_games(logged, stage, words, rate, fit, sums[0, 1:])

                yield learn
        check_played(agent, met, dataset.runs)

    return learn_in_passes(words, units, plan, blocks, threads)


OUTCOMES, THOUGHTS, FITTED, EXACT, CLONING = "outcomes", "thoughts", "fitted", "exact", "cloning"
PASSES = {OUTCOMES: 1, THOUGHTS: 3, FITTED: 5, EXACT: 5, CLONING: 3}
PieceCount = Annotated[int, Meta(ge=1, le=CELLS)]


@dataclass(frozen=True, kw_only=True)
class LineValues:
    """Two linear values of sparse features for each number of pieces: the chances not to lose and to win.

    ``method`` chooses what is learned:

    - 'outcomes': how the logged games ended (Monte Carlo).
    - 'thoughts': the values that the logged turns had for their players, as far as these told any: a search's values
      (``archive.thoughts=true``). Both heads learn the expected score. ``agent``: those of one label alone.
    - 'fitted': the value that the best reply by the rules leaves, in one sweep backwards over the numbers of pieces
      (fitted Q-iteration, D. Ernst et al., 2005). With ``solved_from`` pieces or more on the board it is the mean of
      that value and of the exact one. With ``exact_from`` it is the exact value alone. The boards are those that were
      logged and others one turn away.
    - 'exact': the exact values of the same boards.
    - 'cloning': which turns were made, by the agent with the label ``agent`` or by all (``line_cloning.py``).

    ``conf/kind/line_values.yaml`` explains the other parameters. The features are in
    ``agents/learning/line_features.py``, the update in ``line_fit.py``.

    Columns: ``pieces`` int8, ``feature`` int32, ``part`` int8, ``weight`` float64; ascending by the first three. Part 0
    is the head of not losing, part 1 that of winning, others are hidden units. Raises ``ValueError`` for a parameter
    that is out of range. ``derive`` raises ``RequestError`` for games without a board to learn from.
    """

    kind: ClassVar[str] = LINE_VALUES

    method: Annotated[str, tuple(PASSES)] = FITTED
    mobility: bool = True
    foresight: PieceCount = 9
    exact_from: PieceCount = 12
    solved_from: PieceCount = 7
    breadth: Annotated[int, Meta(ge=0, le=256)] = 0
    deep_from: PieceCount = 6
    deep_to: PieceCount = 9
    boards: Annotated[int, Meta(ge=1, le=1 << 24)] = 150_000
    passes: Annotated[int | None, Meta(ge=1, le=1000)] = None
    rate: Annotated[float, Meta(ge=0)] = 0.05
    seed: Annotated[int, Meta(ge=0, le=1 << 31)] = 0
    agent: str | None = None

    def __post_init__(self) -> None:
        check_fields(self)
        if self.rate == 0:
            raise ValueError(f"rate={self.rate} is not above 0")
        if self.agent is not None and self.method not in (CLONING, THOUGHTS):
            raise ValueError(f"agent={self.agent} has no effect on method={self.method}: leave it out")

    @property
    def hidden(self) -> int:
        """The number of hidden units."""
        return 0

    @property
    def plan(self) -> LearningPlan:
        passes = PASSES[self.method] if self.passes is None else self.passes
        return LearningPlan(
            self.exact_from,
            self.solved_from,
            self.boards,
            passes,
            self.rate,
            self.seed,
            self.breadth,
            (self.deep_from, self.deep_to),
            self.method == EXACT,
            self.method == THOUGHTS,
        )

    def derive(self, dataset: GameSource, threads: int) -> Policy:
        return self.learn(dataset, threads).policy

    def learn(self, dataset: GameSource, threads: int) -> Learned:
        words = words_of(dataset.rules, self.mobility, self.foresight)
        if self.method in (OUTCOMES, THOUGHTS):
            stages, curve = learn_from_games(dataset, words, self.hidden, self.plan, self.agent, threads)
        elif self.method == CLONING:
            stages, curve = clone(dataset, words, self.hidden, self.plan, self.agent, threads)
        else:
            stages, curve = Sweep(dataset, words, self.hidden, self.plan, threads).run()
        if not stages:
            told = " of which an agent told a value (archive.thoughts=true logs them)" * (self.method == THOUGHTS)
            raise RequestError(f"{dataset.size:,} games have no board{told}: choose more games")
        parameters = {  # what a player needs to know of the features
            "mobility": float(self.mobility),
            "foresight": float(self.foresight),
            "units": float(self.hidden),
            "lines": mark_of(dataset.rules),
        }
        return Learned(Policy(self.kind, parameters, columns_of(stages, int(words[STAGE_SIZE]), self.hidden)), curve)


@dataclass(frozen=True, kw_only=True)
class LineNetwork(LineValues):
    """The same with a hidden layer of ``units`` rectified linear units between the features and both heads.

    Raises ``ValueError`` as ``LineValues`` does.
    """

    kind: ClassVar[str] = LINE_NETWORK

    units: Annotated[int, Meta(ge=1, le=MOST_UNITS)] = 16

    @property
    def hidden(self) -> int:
        return self.units
