"""A kind of policy that d3rlpy trains: `qarena policy build --config-dir docs/d3rlpy kind=d3rlpy`.

Learned are the turns of the first agent of each pairing, as in the benchmark's datasets. What is learned becomes a
policy of kind 'network', which plays without d3rlpy. With values (dqn, cql), illegal actions get none: neither the
greatest value of the next position nor CQL's mean is about them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from agents.learning.policy import Policy
from agents.network import PLANES, build_network_inputs, to_policy
from analytics.exchange.episodes import EpisodeOptions, build_episodes
from analytics.policies.kinds.dataset import Dataset
from analytics.store.game_tables import select_games
from quarto.batch import Games
from quarto.errors import require_extra
from quarto.observations import TURN_CODES

NO_VALUE = -1000.0  # of an illegal action
BATCH = 256
ALGORITHMS = ("bc", "dqn", "cql")


@dataclass(frozen=True, kw_only=True)
class D3rlpyNetwork:
    """A network of all turns' values. Raises ``ValueError`` for an algorithm that is none of ``ALGORITHMS``."""

    algorithm: str = "cql"
    steps: int = 5_000
    games: int = 30_000
    units: Sequence[int] = (128, 128)
    rate: float = 3e-4
    alpha: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        if self.algorithm not in ALGORITHMS:
            raise ValueError(f"algorithm={self.algorithm!r} is not one of {', '.join(ALGORITHMS)}")

    def derive(self, dataset: Dataset, threads: int) -> Policy:  # noqa: ARG002  (one thread, see below)
        """Train the network for ``steps``.

        The network is the same on one machine and one version of PyTorch, whatever ``threads`` is.
        """
        with require_extra("d3rlpy", "kind d3rlpy"):
            import d3rlpy
            import torch
        torch.set_num_threads(1)  # so that sums are always in the same order
        d3rlpy.seed(self.seed)
        algorithm = self._algorithm(d3rlpy, torch)
        algorithm.fit(
            self._steps(dataset, d3rlpy),
            n_steps=self.steps,
            n_steps_per_epoch=self.steps,
            logger_adapter=d3rlpy.logging.NoopAdapterFactory(),
            show_progress=False,
        )
        network = algorithm.impl.modules.imitator if self.algorithm == "bc" else algorithm.impl.q_function[0]
        arrays = [each.numpy().astype(np.float64) for each in network.state_dict().values()]
        return to_policy([(weights.T, biases) for weights, biases in zip(arrays[::2], arrays[1::2], strict=True)])

    def _steps(self, dataset: Dataset, d3rlpy: Any) -> Any:
        """Build the dataset of the turns of the first agents, as d3rlpy takes it."""
        chosen = np.unique(np.linspace(0, dataset.size - 1, min(self.games, dataset.size)).astype(int))
        parts = []
        for seat in (0, 1):  # of the first agent: that of the game's number in its pair
            rows = chosen[dataset.game_id[chosen] & 1 == seat]
            games = Games(*(np.ascontiguousarray(each) for each in select_games(dataset.games, rows)))
            options = EpisodeOptions(seat, 0, 1, 0)
            parts.append(build_episodes(dataset.opening[rows], games, options, dataset.rules.tables))
        fields = []
        for episodes in parts:
            decided = np.ones(len(episodes.observations), bool)
            decided[episodes.final] = False
            ends = np.zeros((2, len(episodes.actions)), np.float32)
            ends[0, episodes.last], ends[1, episodes.last] = episodes.terminated, ~episodes.terminated
            seen = build_network_inputs(episodes.observations[decided], episodes.masks[decided])
            fields.append((seen.astype(np.float32), episodes.actions, episodes.rewards, *ends))
        columns = (np.concatenate(each) for each in zip(*fields, strict=True))
        return d3rlpy.dataset.MDPDataset(*columns, action_space=d3rlpy.ActionSpace.DISCRETE, action_size=TURN_CODES)

    def _algorithm(self, d3rlpy: Any, torch: Any) -> Any:
        encoder = d3rlpy.models.VectorEncoderFactory([*self.units])
        common: dict[str, Any] = {"batch_size": BATCH, "learning_rate": self.rate, "encoder_factory": encoder}
        if self.algorithm == "bc":
            return d3rlpy.algos.DiscreteBCConfig(beta=0.0, **common).create(device="cpu")
        common |= {"gamma": 1.0, "target_update_interval": 1000, "q_func_factory": _masked(torch)}
        if self.algorithm == "dqn":
            return d3rlpy.algos.DoubleDQNConfig(**common).create(device="cpu")
        return d3rlpy.algos.DiscreteCQLConfig(alpha=self.alpha, **common).create(device="cpu")


def _masked(torch: Any) -> Any:
    """Return a factory of Q functions that give illegal actions ``NO_VALUE``."""
    from d3rlpy.models.q_functions import MeanQFunctionFactory
    from d3rlpy.models.torch.q_functions.base import QFunctionOutput
    from d3rlpy.models.torch.q_functions.mean_q_function import DiscreteMeanQFunction, DiscreteMeanQFunctionForwarder

    class MaskedQFunction(DiscreteMeanQFunction):
        def forward(self, x: Any) -> Any:
            values = self._fc(self._encoder(x))
            return QFunctionOutput(torch.where(x[:, PLANES:] > 0, values, NO_VALUE), quantiles=None, taus=None)

    @dataclass()
    class MaskedFactory(MeanQFunctionFactory):
        def create_discrete(self, encoder: Any, hidden_size: int, action_size: int) -> Any:
            function = MaskedQFunction(encoder, hidden_size, action_size)
            return function, DiscreteMeanQFunctionForwarder(function, action_size)

        @staticmethod
        def get_type() -> str:
            return "masked"

    return MaskedFactory()
