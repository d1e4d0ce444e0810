"""Quarto for reinforcement learning: ``env()`` is its PettingZoo environment, two seats in turns.

Importing this package registers environments by name. PettingZoo makes this one:
``pettingzoo.make("aec", "quarto-arena/Quarto-v0")``. Gymnasium's environment of the same name has one seat, and any
agent of the project in the other one. ``gymnasium.make_vec`` makes many such games at once. Gymnasium's environments
need players, so they are in ``runners/learning/environments``, which Gymnasium imports when it makes one. This package
needs the extra ``rl``: without it the import raises ``MissingExtraError``. docs/rl.md shows all of them.
"""

from __future__ import annotations

from quarto.errors import require_extra

with require_extra("rl", "quarto.env"):
    import gymnasium
    import pettingzoo

    from quarto.env.aec import env, raw_env

ENV_ID = "quarto-arena/Quarto-v0"
TURNS_ID = "quarto-arena/QuartoTurns-v0"  # a step is a whole turn, as in exported episodes

pettingzoo.register("aec", ENV_ID, "quarto.env.aec:env")
for name, turns in ((ENV_ID, False), (TURNS_ID, True)):
    gymnasium.register(
        name,
        entry_point="runners.learning.environments.single:QuartoEnv",
        vector_entry_point="runners.learning.environments.vector:QuartoVectorEnv",
        kwargs={"turns": turns},
    )

__all__ = ["ENV_ID", "TURNS_ID", "env", "raw_env"]
