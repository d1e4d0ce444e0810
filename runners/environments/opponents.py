"""What the environments of one game and of many share: the opponent of a learner, its seat, what is seen and done."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path, PurePath
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from agents.base import Agent
from analytics import DEFAULT_ARCHIVE
from analytics.exchange.text import Heading, checked_text, text_of
from analytics.files.backend import location_of
from analytics.store.blocks import games_at
from quarto.batch import Games
from quarto.errors import RequestError
from quarto.observations import ACTIONS, SHAPE, TURNS
from quarto.rules import CELLS, NONE, PIECES, Rules
from runners.arena.config import agent_named
from runners.arena.config_groups import MAX_OPENING_PLIES, user_config_dir
from runners.hosting.guarded_agent import GuardedAgent


def opponent_of(
    opponent: str | Agent | None,
    rules: Rules,
    archive: str | PurePath = DEFAULT_ARCHIVE,
    config_dir: str | Path | None = None,
) -> GuardedAgent | None:
    """The opponent that a label names, ``random`` or ``mcts(iterations=50)``, or that is given as an object.

    None if there is none: the learner plays both seats.

    Policies are those of ``archive``; ``config_dir`` is a folder with agents of the user's own. Raises
    ``RequestError`` for an agent or a parameter that does not exist, and for an agent that does not play the rules.
    """
    if opponent is None:
        return None
    if not isinstance(opponent, str):
        return GuardedAgent(opponent, type(opponent).__name__, rules)
    with nullcontext() if config_dir is None else user_config_dir(Path(config_dir)):  # Hydra may run already
        spec = agent_named(opponent, location_of(archive), True)
        return GuardedAgent(spec.build(), spec.label, rules)


def spaces_of(turns: bool) -> tuple[spaces.Box, spaces.Discrete]:
    """The space of an observation and that of an action: of whole turns, or of single decisions."""
    if turns:
        return spaces.Box(NONE, PIECES - 1, (CELLS + 1,), np.int8), spaces.Discrete(TURNS)
    return spaces.Box(0, 1, SHAPE, np.int8), spaces.Discrete(ACTIONS)


def checked_plies(opening_plies: int, turns: bool, rules: Rules) -> int:
    """The number of imposed plies. Raises ``RequestError`` for one that cannot be, and for turns without gifts."""
    if turns and rules.mover_chooses:
        raise RequestError(f"under rules {rules.name!r} the mover chooses the piece: a turn gives none")
    if not 0 <= opening_plies <= MAX_OPENING_PLIES:
        raise RequestError(f"opening_plies={opening_plies} is not a number of plies from 0 to {MAX_OPENING_PLIES}")
    return opening_plies


def checked_seat(seat: Any) -> int | None:
    """The learner's seat, or None for a random one in each game. Raises ``ValueError`` for another value."""
    if seat not in (0, 1, None):
        raise ValueError(
            f"seat={seat!r} is not 0 (gives the first piece), 1 (places first) or None (either, at random)"
        )
    return None if seat is None else int(seat)


class GameLog:
    """Appends finished games to a file: a line each, with the labels of both players.

    Raises ``RequestError`` for a label that is no printable text.
    """

    def __init__(self, path: str | Path, learner: str, opponent: str, rules: str) -> None:
        checked_text("name", learner)
        self.path = Path(path)
        seated = ((learner, opponent), (opponent, learner))
        self._headings = [Heading(rules, "", "", 0, *labels) for labels in seated]  # by the learner's seat

    def add(self, games: Games, seats: NDArray[np.int8]) -> None:
        """Append ``G`` games; ``seats`` [G] are the learner's."""
        text = b"".join(text_of(self._headings[seat], games_at(games, seats == seat)) for seat in (0, 1))
        with self.path.open("ab") as file:
            file.write(text)
