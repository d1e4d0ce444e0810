"""The kinds 'q_table' and 'encoded_q': games replayed one by one, in order, through an online learner's update."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numba
import numpy as np
from numba import types
from numpy.typing import NDArray

from agents.base.agent import AGENT_TYPE, RULES_TYPE
from agents.learning.learner import SPAN_TYPE, UPDATE_RESULT_TYPE, UPDATE_TYPE, FinishedGame, Learner, UpdateKernel
from agents.learning.policy import Policy
from agents.q_table import QTableLearner
from agents.rl_encoded import EncodedLearner
from analytics.policies.kinds.dataset import Dataset, check_agent_played, find_agent_seat_bits
from analytics.policies.relearning import LearnerState
from analytics.store.records import run_id_to_stream_key
from quarto.batch import GAME_BITS, Games
from quarto.jit import int64, kernel
from quarto.rng import stream
from quarto.rules import CELLS

GAMES_TYPE = numba.typeof(Games.allocate(1))
SEATS_TYPE, IDS_TYPE = types.int8[::1], types.int64[::1]


@kernel(
    UPDATE_RESULT_TYPE(UPDATE_TYPE, RULES_TYPE, AGENT_TYPE, types.uint64, IDS_TYPE, SEATS_TYPE, SPAN_TYPE, GAMES_TYPE)
)
def learn_views_and_report_room(
    update: UpdateKernel,
    rules: Any,
    agent: Any,
    run: int,
    game_ids: Any,
    seats: Any,
    span: tuple[int, int],
    games: Games,
) -> tuple[int, bool]:
    """Learn from the views ``span[0]`` up to but not including ``span[1]`` of a run; stop early if the table is full.

    A view is a game as the learner sees it from one seat: view ``2 g + s`` is game ``g`` with the learner in seat
    ``s``. It is used if bit ``s`` of ``seats[g]`` is set. ``run`` is the run's stream key. Returns the number of the
    next view, and whether the table still has room.
    """
    pieces, cells = np.empty(CELLS, np.int8), np.empty(CELLS, np.int8)
    for view in range(span[0], span[1]):
        game, seat = view >> 1, int64(view & 1)
        if (seats[game] >> seat) & 1:
            for ply in range(CELLS):
                pieces[ply], cells[ply] = games.pieces[ply, game], games.cells[ply, game]
            number = game_ids[game] & ((int64(1) << GAME_BITS) - 1)
            source = stream(run, number >> 1, number & 1)
            plies, winner = int64(games.plies[game]), int64(games.winner[game])
            if not update(FinishedGame(pieces, cells, plies, winner, seat, source), rules, agent):
                return view + 1, False
    return span[1], True


def learn_policy_from_games(learner: Learner, dataset: Dataset, seats: NDArray[np.int8]) -> Policy:
    """Learn a policy from all games of a dataset, run by run, and in the order of game ids within each run.

    ``seats`` [G] has the seats that the learner takes in each game, as bits.
    """
    state = LearnerState(learner, dataset.rules)
    update, rules = learner.load_update(), dataset.rules.tables
    for record, first, end in dataset.list_run_spans():
        view, run = 2 * first, run_id_to_stream_key(record.run_id)
        while view < 2 * end:
            agent, span = state.player.agent, (view, 2 * end)
            view, room = learn_views_and_report_room(
                update, rules, agent, run, dataset.game_id, seats, span, dataset.games
            )
            if not room:
                state.enlarge_knowledge()
    return learner.to_policy(state.knowledge)


class QTable:
    """Q-learning from logged games, with the same update that ``QTableLearner`` uses while it plays.

    The method learns from every turn of both players, so learning from the logged games of a training reproduces the
    policy that the training saved. It learns from imposed plies, too, because the value of a turn does not depend on
    who chose it. Raises ``ValueError`` for a parameter outside 0 to 1.
    """

    def __init__(self, learning_rate: float = 0.3, discount: float = 0.98) -> None:
        self.learner = QTableLearner(learning_rate, discount)

    def derive(self, dataset: Dataset, threads: int) -> Policy:  # noqa: ARG002  (one game after the other)
        return learn_policy_from_games(self.learner, dataset, np.ones(len(dataset.game_id), np.int8))  # once a game


class EncodedQ:
    """The method by which study C learns the values of boards, applied to the games of any agents.

    Each board is encoded in eight digits. The method learns from each game twice, first in seat 0 and then in seat 1.
    With ``agent``, it takes only the seats that the agent with that label held. The update is in
    ``agents/rl_encoded.py``. The policy is of kind 'encoded_values', which ``rl_encoded`` plays. Raises ``ValueError``
    for a parameter that the learner refuses. ``derive`` raises ``RequestError`` if ``agent`` played none of the games.
    """

    def __init__(
        self,
        learning_rate: float = 0.1,
        discount: float = 0.7,
        rewards: Sequence[float] = (5.0, -5.0, -2.0, 0.0),
        values_seed: int = 0,
        agent: str | None = None,
    ) -> None:
        self.learner = EncodedLearner(learning_rate, discount, rewards=rewards, values_seed=values_seed)
        self.agent = agent

    def derive(self, dataset: Dataset, threads: int) -> Policy:  # noqa: ARG002  (one game after the other)
        seats = np.concatenate(
            [
                find_agent_seat_bits(self.agent, record, dataset.game_id[first:end])
                for record, first, end in dataset.list_run_spans()
            ]
        )
        check_agent_played(self.agent, bool(seats.any()), dataset.runs)
        return learn_policy_from_games(self.learner, dataset, seats)
