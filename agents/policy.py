"""The player of any policy: who says its name need not know its kind."""

from __future__ import annotations

import importlib
import inspect
from typing import Any

from agents.learning.afterstates import VALUE_COLUMNS, Afterstates
from agents.learning.policy import COUNTERS, ENCODED_VALUES, GENOME, GIFT, Q_PLACEMENT
from agents.learning.policy import Policy as Learned
from quarto.errors import nearest

OTHERS = {  # who plays the kinds that tell no values of afterstates; the first player that has all genes plays a genome
    GIFT: ("agents.learning.gifts.Gifts",),
    ENCODED_VALUES: ("agents.rl_encoded.RlEncoded",),
    Q_PLACEMENT: ("agents.q_placement.QPlacement",),
    COUNTERS: ("agents.rl_tabular.RlTabular",),
    GENOME: ("agents.ga2.Ga2", "agents.ga5.Ga5"),
}
KINDS = (*VALUE_COLUMNS, *OTHERS)


class Policy(Afterstates):
    """Plays by a policy of any kind, as the player of that kind does with its other parameters as usual.

    Making one for a kind that tells no values of afterstates makes that kind's player instead, which plays at its own
    speed; ``fallback``, ``unknown`` and ``exploration`` mean nothing to it. Without a policy every turn is the
    fallback's. Raises ``ValueError`` for a kind that nobody plays, and what the player raises.
    """

    def __new__(
        cls,
        policy: Learned | None = None,
        fallback: str = "semi_random",
        unknown: float = -1.0,
        exploration: float = 0.0,
    ) -> Any:
        if not isinstance(policy, Learned) or policy.kind in VALUE_COLUMNS:
            return super().__new__(cls)  # and so ``Afterstates`` checks what it is given
        Afterstates(None, fallback, unknown, exploration)  # checks the parameters
        if policy.kind not in OTHERS:
            raise ValueError(f"policy of kind '{policy.kind}' has no player here{nearest(policy.kind, KINDS)}")
        players = [_class(path) for path in OTHERS[policy.kind]]
        return _by_genes(policy, players) if policy.kind == GENOME else players[0](policy)


def _by_genes(policy: Learned, players: list[Any]) -> Any:
    for player in players:
        if set(policy.parameters) <= set(inspect.signature(player).parameters):
            return player(**policy.parameters)
    raise ValueError(f"policy of kind '{GENOME}' has genes that no player has: {', '.join(policy.parameters)}")


def _class(path: str) -> Any:
    """A player's class, imported when it is needed: kernels take their time to load."""
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(module), name)
