"""The kind 'line_values': values of afterstates, computed from features of their lines so that they generalise."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np
import polars as pl
from msgspec import Meta
from numpy.typing import NDArray

from agents.base.parameters import check_fields
from agents.learning.line_boards import (
    BOARD,
    DANGERS,
    STAGE_SIZE,
    fill_board_survey,
    fill_empty_line_states,
    update_line_states,
)
from agents.learning.line_features import (
    MAX_FEATURES,
    build_feature_words,
    compute_feature_hash,
    fill_features_returning_count_or_outcome,
)
from agents.learning.policy import Policy
from agents.line_values import FEATURE_HASH, HEADS, LINE_VALUES, sigmoid, to_columns
from analytics.policies.kinds.dataset import GameSource, LearnedPolicy, check_agent_played, find_agent_seat_bits
from analytics.policies.kinds.line_cloning import learn_stages_from_turns
from analytics.policies.kinds.line_fit import (
    BLOCK_GAMES,
    LearningPlan,
    StageFit,
    StageLearner,
    Stages,
    allocate_step_memory,
    fill_logits,
    learn_feature_weights,
    learn_in_passes,
    learn_output_weights_and_fill_slopes,
)
from analytics.policies.kinds.line_sweep import MAX_GAMES, LineSweep, build_stage_plans
from analytics.store.texts import format_count_with_noun
from quarto.batch import NO_VALUE, VALUE_UNITS, Games
from quarto.errors import RequestError
from quarto.jit import float64, int64, kernel
from quarto.position import ALL_PIECES
from quarto.threats import SAFE_PIECES


class ValuesBlock(NamedTuple):
    """A block of games to learn from, with the values that players reported for their turns."""

    games: Games
    opening: NDArray[np.int8]  # [G] plies that were imposed
    evaluations: NDArray[np.int32]  # [16, G] values of the turns for their players, in millionths, or NO_VALUE
    seats: NDArray[np.int8]  # [G] seats whose turns are learned, a bit each


@kernel()
def learn_and_count_stage_boards(
    block: ValuesBlock,
    stage: int,
    words: Any,
    rate: float,
    fit: StageFit,
    sums: Any,
) -> int:
    """Learn from the boards with ``stage`` pieces in a block of games; return how many boards were learned from.

    The games are learned in their order. The target is the score expected by the player whose turn led to the board. A
    game is skipped in any of these cases: it is too short; this player's turns are not to be learned; the player did
    not choose the gift; the player reported no value; the gift can finish a line at once, so that the reply says
    nothing about the board; or the replies already show how the game ends. The squared errors are added to ``sums``
    [HEADS].
    """
    board, features = np.empty((4, BOARD), np.int64), np.empty(MAX_FEATURES, np.int64)
    values, slopes = np.empty(HEADS + fit.units, np.float32), np.empty(max(fit.units, 1), np.float32)
    boards, rate32, steps = int64(0), np.float32(rate), allocate_step_memory()
    errors, targets = np.empty(HEADS, np.float32), np.empty(HEADS, np.float64)
    games = block.games
    for game in range(block.opening.shape[0]):
        if games.plies[game] <= stage or block.opening[game] > stage or (block.seats[game] >> (stage & 1)) & 1 == 0:
            continue
        expected = int64(block.evaluations[stage - 1, game])
        if expected == NO_VALUE:
            continue
        occupied, available = int64(0), int64(ALL_PIECES)
        fill_empty_line_states(words, board[0])
        for ply in range(stage):
            piece, cell = int64(games.pieces[ply, game]), int64(games.cells[ply, game])
            available &= ~(int64(1) << piece)
            occupied |= int64(1) << cell
            update_line_states(board[0], piece, cell, words)
        gift = int64(games.pieces[stage, game])
        fill_board_survey(occupied, words, board[0])
        if (SAFE_PIECES[board[0, DANGERS]] >> gift) & 1 == 0:
            continue
        count = fill_features_returning_count_or_outcome(
            occupied, gift, available & ~(int64(1) << gift), words, board[0], board[1:], features
        )
        if count < 0:
            continue
        targets[:] = (float64(expected) / VALUE_UNITS + 1.0) / 2.0
        fill_logits(features, count, fit, values)
        for head in range(HEADS):
            errors[head] = np.float32(targets[head] - sigmoid(float64(values[head])))
            sums[head] += errors[head] * errors[head]
        mean = learn_output_weights_and_fill_slopes(errors, rate32, fit, values, slopes)
        learn_feature_weights(features, count, errors, rate32, fit, slopes, mean, steps)
        boards += 1
    return boards


def learn_stages_from_evaluations(
    dataset: GameSource, words: NDArray[np.uint64], plan: LearningPlan, agent: str | None, threads: int
) -> tuple[Stages, pl.DataFrame]:
    """Learn weights from the evaluations in the games; return the weights by stage, and the errors of each pass.

    See ``learn_in_passes``. If ``agent`` is not None, only the turns of the agent with this label are learned. Raises
    ``RequestError`` if this agent played none of the games.
    """

    def read_learners(_number: int) -> Iterator[StageLearner]:
        """Yield a learner for each block of games.

        ``_number``, the number of the pass, is ignored because all passes are alike.
        """
        met = False
        for record, part in dataset.read_blocks():
            seats = find_agent_seat_bits(agent, record, part.game_id)
            met |= bool(seats.any())
            values = dataset.read_evaluation_values_if_any(record.run_id, part)
            for first in range(0, len(part.game_id), BLOCK_GAMES):
                span = slice(first, first + BLOCK_GAMES)
                block = part.select_as_contiguous_arrays(span)
                logged = ValuesBlock(block.games, block.opening, np.ascontiguousarray(values[:, span]), seats[span])

                def learn(
                    stage: int, rate: float, fit: StageFit, sums: NDArray[np.float64], logged: ValuesBlock = logged
                ) -> None:
                    sums[0, 0] += learn_and_count_stage_boards(logged, stage, words, rate, fit, sums[0, 1:])

                yield learn
        check_agent_played(agent, met, dataset.runs)

    return learn_in_passes(words, plan, read_learners, threads)


FITTED, EVALUATIONS, CLONING = "fitted", "evaluations", "cloning"
GAME_PASSES = 3  # over the games, with evaluations and cloning


@dataclass(frozen=True, kw_only=True)
class LineValuesKind:
    """The kind of policies that compute the chances of not losing and of winning from features of an afterstate.

    The features are sparse, and the two outputs are called heads. Each number of pieces on the board has its own
    weights. ``method`` chooses what is learned:

    - 'fitted': late in the game, exact values; early in the game, the value of the position after the best reply that
      the rules allow; with seven pieces on the board, the mean of the two. One sweep goes backwards over the numbers of
      pieces on the board (fitted Q-iteration, D. Ernst et al., 2005). It learns from the logged boards and from boards
      in which the last one or two turns are replaced with random turns. Stages with many boards have a hidden layer:
      see ``line_sweep.py``.
    - 'evaluations': the values that players reported for their logged turns, such as those of a search
      (``archive.evaluations=true``). Both heads learn the expected score. With ``agent``, only the turns of the agent
      with that label are used.
    - 'cloning': the turns that were chosen by the agent with the label ``agent`` or, without it, by all agents: see
      ``line_cloning.py``.

    ``conf/kind/line_values.yaml`` explains the other parameters. The features are in
    ``agents/learning/line_features.py``, the update is in ``line_fit.py``.

    Columns: ``pieces`` int8 (on the board), ``feature`` int32, ``part`` int8, ``weight`` float64; ascending by the
    first three. Part 0 is the head of not losing, part 1 is the head of winning, and higher parts are hidden units.
    Raises ``ValueError`` for a parameter that is out of range. ``derive`` raises ``RequestError`` if the games have no
    board to learn from.
    """

    kind: ClassVar[str] = LINE_VALUES

    method: Annotated[str, (FITTED, EVALUATIONS, CLONING)] = FITTED
    games: Annotated[int, Meta(ge=1, le=MAX_GAMES)] = MAX_GAMES
    passes: Annotated[int | None, Meta(ge=1, le=1000)] = None
    rate: Annotated[float, Meta(ge=0)] = 0.05
    seed: Annotated[int, Meta(ge=0, le=1 << 31)] = 0
    agent: str | None = None

    def __post_init__(self) -> None:
        check_fields(self)
        if self.rate == 0:
            raise ValueError(f"rate={self.rate} is not above 0")
        if self.agent is not None and self.method == FITTED:
            raise ValueError(f"agent={self.agent} has no effect on method={self.method}: leave it out")

    def derive(self, dataset: GameSource, threads: int) -> Policy:
        return self.learn(dataset, threads).policy

    def learn(self, dataset: GameSource, threads: int) -> LearnedPolicy:
        words, plan = build_feature_words(dataset.rules), LearningPlan(self.passes or GAME_PASSES, self.rate, self.seed)
        if self.method == FITTED:
            plans = build_stage_plans(min(self.games, dataset.size), self.passes)
            stages, curve = LineSweep(dataset, words, plans, plan, threads).run()
        else:
            learn = learn_stages_from_turns if self.method == CLONING else learn_stages_from_evaluations
            stages, curve = learn(dataset, words, plan, self.agent, threads)
        if not stages:
            condition = (
                " of which an agent reported a value (archive.evaluations=true stores them)"
                if self.method == EVALUATIONS
                else ""
            )
            raise RequestError(
                f"no board in {format_count_with_noun(dataset.size, 'game')}{condition}: choose more games"
            )
        parameters = {FEATURE_HASH: compute_feature_hash(dataset.rules)}
        return LearnedPolicy(Policy(self.kind, parameters, to_columns(stages, int(words[STAGE_SIZE]))), curve)
