"""The Gymnasium environment of one game: a learner against an agent. Made by ``gymnasium.make``, see ``quarto.env``.

The opponent, the learner's seat, the spaces and the log of games are those of the environment of many games too.
"""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path, PurePath
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from agents.base import ERROR, LATE, Agent
from analytics import DEFAULT_ARCHIVE
from analytics.exchange.text import Heading, checked_text, text_of
from analytics.files.backend import location_of
from analytics.store.blocks import games_at, one_game
from quarto.batch import ENDINGS, FORFEIT_ERROR, FORFEIT_ILLEGAL, FORFEIT_TIME, FULL_BOARD, LINE, Batch, Games
from quarto.env.rendering import FRAMES_PER_SECOND, RENDER_MODES, Renderer
from quarto.errors import RequestError
from quarto.jit import uint64
from quarto.notation import format_game
from quarto.observations import (
    ACTIONS,
    CHOICES,
    SHAPE,
    TURNS,
    StepwiseGame,
    encoded_turns,
    mask,
    observation,
    rules_named,
)
from quarto.rng import OPENING, Streams, stream, turn_offset_of
from quarto.rules import CELLS, NONE, PIECES, Rules
from runners.arena.config import agent_named
from runners.arena.config_groups import MAX_OPENING_PLIES, user_config_dir
from runners.hosting.guarded_agent import GuardedAgent
from runners.hosting.lockstep import draw_openings

Step = tuple[NDArray[np.int8], float, bool, bool, dict[str, Any]]
SEEDS = 1 << 63


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


class QuartoEnv(gymnasium.Env):
    """A game of a learner against ``opponent``, which answers within ``step``.

    Observations are int8 [17, 8], actions 0 to 15 are cells or pieces, see ``quarto.observations``. With ``turns`` an
    observation is int8 [17], the piece on each cell, then the one in hand, -1 for none; an action is a whole turn, 0 to
    288, as in exported episodes. ``info`` has the legal actions as ``action_mask``, int8 [16] or [289], and the
    learner's ``seat``; at the end of a game also its ``ending`` and the ``game`` as text. Rewards: 1 won, -1 lost, 0
    drawn or not over. An illegal action forfeits the game (-1). If the opponent forfeits, which no action of the
    learner caused, the game is truncated with reward 0.

    ``opponent``: an agent's label or object, or None: the learner plays both seats. Then ``seat`` of ``info`` is the
    one that acts next, and a reward is for the one that acted. ``rules``: ``Rules`` or a yaml's name. ``seat``: 0, 1,
    or None for a random one in each game. ``record``: a file to which finished games are appended as text, where the
    learner is called ``name``. ``archive``, ``config_dir``: see ``opponent_of``. ``opening_plies`` are random ones
    before the first action, which finish no line. Raises ``RequestError`` for ``turns`` where the mover chooses the
    piece.

    Once the game is over the mask allows every action: where Gymnasium begins a new game in the next step, it asks for
    one more action, which it ignores. The first game after ``reset(seed=s)`` is game 0 of seed s, further resets
    without a seed go on with games 1, 2, …; seat and randomness of the opponent depend on both numbers alone.
    """

    metadata = {"render_modes": RENDER_MODES, "render_fps": FRAMES_PER_SECOND}  # noqa: RUF012  (Gymnasium's form)

    def __init__(  # noqa: PLR0913, PLR0917  (the keys that gymnasium.make takes)
        self,
        opponent: str | Agent | None = "random",
        rules: Rules | str = "classic",
        seat: int | None = None,
        render_mode: str | None = None,
        record: str | Path | None = None,
        name: str = "learner",
        archive: str | PurePath = DEFAULT_ARCHIVE,
        config_dir: str | Path | None = None,
        opening_plies: int = 0,
        turns: bool = False,
    ) -> None:
        self.rules = rules_named(rules)
        self.render_mode = render_mode
        self.observation_space, self.action_space = spaces_of(turns)
        self.seat = 0
        self.game = StepwiseGame(self.rules)
        self._turns, self._opening_plies = turns, checked_plies(opening_plies, turns, self.rules)
        self._fixed_seat = checked_seat(seat)
        self._opponent = opponent_of(opponent, self.rules, archive, config_dir)
        self._player = self._opponent.player() if self._opponent else None
        self._renderer = Renderer(render_mode)
        against = self._opponent.label if self._opponent else name
        self._log = None if record is None else GameLog(record, name, against, self.rules.name)
        self._seed: int | None = None
        self._number = 0  # of the game under this seed
        self._stream = np.zeros(1, np.uint64)  # of the opponent in this game

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.int8], dict[str, Any]]:
        """Begin a new game, in which the opponent may already have decided."""
        super().reset(seed=seed)
        self._number += 1
        if seed is not None or self._seed is None:
            self._seed = int(self.np_random.integers(SEEDS)) if seed is None else seed
            self._number = 0
        self.game = StepwiseGame(self.rules)
        word = uint64(self._seed)
        for decision in self._opening(word).T.ravel().tolist():
            self.game.act(decision)
        self._stream[0] = stream(word, self._number, 0)
        random_seat = int(stream(word, self._number, OPENING) & uint64(1))
        self.seat = random_seat if self._fixed_seat is None else self._fixed_seat
        if self._player:
            self._player.start(range(1))
        found, _, _, _, info = self._step(self._answer())
        return found, info

    def step(self, action: Any) -> Step:
        """Take the learner's decision or turn and, if it is then the opponent's turn, that turn."""
        if not 0 <= int(action) < self.action_space.n or not self._legal()[int(action)]:
            return self._step(FORFEIT_ILLEGAL, forfeit_of=self.seat)
        decisions = divmod(int(action), CHOICES) if self._turns else (int(action),)
        for decision in decisions:
            if decision < ACTIONS:  # otherwise it is no placement, or no gift
                self.game.act(decision)
        return self._step(self._answer())

    def _opening(self, seed: int) -> NDArray[np.int8]:
        """The imposed plies of this game, which finish no line: [2, K] pieces, then cells."""
        openings = np.empty((2, self._opening_plies, 1), np.int8)
        draw_openings(seed, self._number, self.rules.tables, openings)
        return openings[:, :, 0]

    def _answer(self) -> int | None:
        """Play the opponent's turn if it is its turn. Returns the ending if it forfeits."""
        game, rng = self.game, Streams(self._stream + turn_offset_of(self.game.turn))
        if self._opponent is None or self._player is None or self.game.over or game.seat == self.seat:
            return None
        turns = self._opponent.ask(self._player, Batch.of([game.position]), rng, np.zeros(1, np.uint32))
        cell, gift = int(turns.cells[0]), int(turns.gifts[0])
        if cell in (ERROR, LATE):
            return FORFEIT_ERROR if cell == ERROR else FORFEIT_TIME
        actions = (gift, cell) if self.rules.mover_chooses else (gift,) if game.hand == NONE else (cell, gift)
        for action in actions:
            if game.over:
                break
            if not 0 <= action < ACTIONS or not game.legal >> action & 1:
                return FORFEIT_ILLEGAL
            game.act(action)
        return None

    def _step(self, forfeit: int | None, forfeit_of: int | None = None) -> Step:
        """The values of ``step``: ``forfeit`` is the ending of a forfeited game, the opponent's fault by default."""
        lost_by = 1 - self.seat if forfeit_of is None else forfeit_of
        game, acted = self.game, self.seat
        self._renderer.watched(game.position)
        over = game.over or forfeit is not None
        if self._opponent is None and not over:
            self.seat = game.seat
        legal = np.ones(self.action_space.n, np.bool_) if over else self._legal()
        info: dict[str, Any] = {"action_mask": legal.astype(np.int8), "seat": self.seat}
        truncated = forfeit is not None and lost_by != self.seat
        terminated = not truncated and over
        winner = game.winner if forfeit is None else 1 - lost_by
        if terminated or truncated:
            ending = forfeit if forfeit is not None else FULL_BOARD if winner == NONE else LINE
            info |= {"ending": ENDINGS[ending], "game": format_game(game.plies)}
            self._record(winner, ending)
        reward = 0.0 if truncated or not terminated or winner == NONE else 1.0 if winner == acted else -1.0
        seen = np.array(game.pieces, np.int8) if self._turns else observation(game.pieces)
        return seen, reward, terminated, truncated, info

    def _legal(self) -> NDArray[np.bool_]:
        """The legal actions of a game that is not over: bool [16], or [289] for whole turns."""
        if not self._turns:
            return mask(self.game.legal).astype(np.bool_)
        _, legal = encoded_turns(Batch.of([self.game.position]), self.rules)
        return legal.reshape(-1)

    def _record(self, winner: int, ending: int) -> None:
        if self._log is not None:
            self._log.add(one_game(self.game.plies, winner, ending), np.array([self.seat], np.int8))

    def action_masks(self) -> NDArray[np.bool_]:
        """The legal actions, all of them once the game is over, under the name that sb3-contrib asks for."""
        return np.ones(self.action_space.n, np.bool_) if self.game.over else self._legal()

    def render(self) -> Any:
        """The board as text (``ansi``) or as an image, [height, width, 3] uint8; ``human`` shows it in a window."""
        return self._renderer.rendered(self.game.position)

    def close(self) -> None:
        self._renderer.close()
