"""The kinds 'line_values' and 'line_network': values of afterstates that generalise, from features of their lines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from msgspec import Meta

from agents.learning.line_features import STAGE_SIZE, mark_of, words_of
from agents.learning.line_values import LINE_NETWORK, LINE_VALUES, MOST_UNITS, columns_of
from agents.learning.policy import Policy
from agents.parameters import check_fields
from analytics.policies.derived.dataset import GameSource, Learned
from analytics.policies.derived.line_cloning import clone
from analytics.policies.derived.line_outcomes import learn_from_outcomes
from analytics.policies.derived.line_sweep import LearningPlan, Sweep
from quarto.errors import RequestError
from quarto.rules import CELLS

OUTCOMES, FITTED, EXACT, CLONING = "outcomes", "fitted", "exact", "cloning"
PASSES = {OUTCOMES: 1, FITTED: 5, EXACT: 5, CLONING: 3}
PieceCount = Annotated[int, Meta(ge=1, le=CELLS)]


@dataclass(frozen=True, kw_only=True)
class LineValues:
    """Two linear values of sparse features for each number of pieces: the chances not to lose and to win.

    ``method`` chooses what is learned:

    - 'outcomes': how the logged games ended (Monte Carlo).
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
        if self.agent is not None and self.method != CLONING:
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
        )

    def derive(self, dataset: GameSource, threads: int) -> Policy:
        return self.learn(dataset, threads).policy

    def learn(self, dataset: GameSource, threads: int) -> Learned:
        words = words_of(dataset.rules, self.mobility, self.foresight)
        if self.method == OUTCOMES:
            stages, curve = learn_from_outcomes(dataset, words, self.hidden, self.plan, threads)
        elif self.method == CLONING:
            stages, curve = clone(dataset, words, self.hidden, self.plan, self.agent, threads)
        else:
            stages, curve = Sweep(dataset, words, self.hidden, self.plan, threads).run()
        if not stages:
            raise RequestError(f"{dataset.size:,} games have no board: choose more games")
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
