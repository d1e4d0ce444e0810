"""The player of any policy: who says its name need not know its kind."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from agents.learning.policy import COUNTERS, ENCODED_VALUES, FITTED_Q, GENOME, GIFT, MC_AFTERSTATE, Q_PLACEMENT, Q_TABLE
from agents.learning.policy import Policy as Learned
from quarto.errors import nearest

AFTERSTATES = "agents.learning.afterstates.Afterstates"
PLAYERS = {  # by kind: who plays it. The first genetic player that has all genes of a genome plays that
    MC_AFTERSTATE: (AFTERSTATES,),
    Q_TABLE: (AFTERSTATES,),
    FITTED_Q: (AFTERSTATES,),
    GIFT: ("agents.learning.gifts.Gifts",),
    ENCODED_VALUES: ("agents.rl_encoded.RlEncoded",),
    Q_PLACEMENT: ("agents.q_placement.QPlacement",),
    COUNTERS: ("agents.rl_tabular.RlTabular",),
    GENOME: ("agents.ga2.Ga2", "agents.ga5.Ga5"),
}


class Policy:
    """Plays by a policy of any kind, as the player of that kind does with its other parameters as usual.

    Making one makes that player, so it plays at its speed. ``fallback``, ``unknown`` and ``exploration`` are for the
    kinds that tell values of afterstates (``agents/learning/afterstates.py``), and for no policy at all: then every
    turn is the fallback's. Raises ``ValueError`` for a kind that nobody plays, and what the player raises.
    """

    def __new__(
        cls,
        policy: Learned | None = None,
        fallback: str = "semi_random",
        unknown: float = -1.0,
        exploration: float = 0.0,
    ) -> Any:
        return player_of(policy, {"fallback": fallback, "unknown": unknown, "exploration": exploration})


def player_of(policy: Learned | None, settings: Mapping[str, Any] = MappingProxyType({})) -> Any:
    """The player of a policy; ``settings`` are those of ``Afterstates``. Raises ``ValueError`` as ``Policy`` does."""
    afterstates = _class(AFTERSTATES)
    untrained = afterstates(None, **settings)  # which also checks them
    if policy is None:
        return untrained
    if not isinstance(policy, Learned):
        raise ValueError(f"policy={policy!r} is no policy")
    if policy.kind not in PLAYERS:
        raise ValueError(f"policy of kind '{policy.kind}' has no player here{nearest(policy.kind, PLAYERS)}")
    players = [_class(path) for path in PLAYERS[policy.kind]]
    if policy.kind == GENOME:
        return _by_genes(policy, players)
    player = players[0]
    return afterstates(policy, **settings) if player is afterstates else player(policy)


def _by_genes(policy: Learned, players: list[Any]) -> Any:
    for player in players:
        if set(policy.parameters) <= set(inspect.signature(player).parameters):
            return player(**policy.parameters)
    raise ValueError(f"policy of kind '{GENOME}' has genes that no player has: {', '.join(policy.parameters)}")


def _class(path: str) -> Any:
    """A player's class, imported when it is needed: kernels take their time to load."""
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(module), name)
