"""The opponent of a learner: any agent, by its label or as an object."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path, PurePath
from typing import Any

from agents.base import Agent
from analytics import DEFAULT_ARCHIVE
from analytics.files.location import location_of
from quarto.rules import Rules
from runners.arena.config import agent_named
from runners.hosting.guarded_agent import GuardedAgent
from runners.hydra_app.config_dir import user_config_dir


def opponent_of(
    opponent: str | Agent, rules: Rules, archive: str | PurePath = DEFAULT_ARCHIVE, config_dir: str | Path | None = None
) -> GuardedAgent:
    """The opponent that a label names, ``random`` or ``mcts(iterations=50)``, or that is given as an object.

    Policies are those of ``archive``; ``config_dir`` is a folder with agents of the user's own. Raises
    ``RequestError`` for an agent or a parameter that does not exist, and for an agent that does not play the rules.
    """
    if not isinstance(opponent, str):
        return GuardedAgent(opponent, type(opponent).__name__, rules)
    with nullcontext() if config_dir is None else user_config_dir(Path(config_dir)):  # Hydra may run already
        spec = agent_named(opponent, location_of(archive), True)
        return GuardedAgent(spec.build(), spec.label, rules)


def checked_seat(seat: Any) -> int | None:
    """The learner's seat, or None for a random one in each game. Raises ``ValueError`` for another value."""
    if seat not in (0, 1, None):
        raise ValueError(
            f"seat={seat!r} is not 0 (gives the first piece), 1 (places first) or None (either, at random)"
        )
    return None if seat is None else int(seat)
