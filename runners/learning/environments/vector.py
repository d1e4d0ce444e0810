"""The vectorised Gymnasium environment: many games of a learner at once. ``gymnasium.make_vec`` builds it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path, PurePath
from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from agents.base.agent import Agent
from agents.base.player import KernelPlayer
from analytics import DEFAULT_ARCHIVE
from analytics.exchange.text import Heading, check_label, format_games
from analytics.store.files.backend import parse_location
from analytics.store.game_tables import select_games
from analytics.store.texts import format_count_with_noun
from quarto.batch import Games
from quarto.env import rendering
from quarto.env.rendering import RENDER_MODES
from quarto.errors import RequestError, suggest_valid_names
from quarto.observations import (
    ACTIONS,
    SHAPE,
    TURN_CODES,
    encode_observations_and_masks,
    encode_pieces_and_legal_turns,
    resolve_rules,
)
from quarto.rng import Streams
from quarto.rules import CELLS, NONE, PIECES, Rules
from runners.config.agents import agent_from_label
from runners.config.schemas import MAX_OPENING_PLIES
from runners.config.yaml_options import use_config_dir
from runners.hosting.guarded_agent import GuardedAgent
from runners.learning.environments.step_kernels import (
    BOTH_SEATS,
    RANDOM_SEAT,
    OpponentPositions,
    StepOptions,
    build_envs,
    play_opponent_turns,
    step_learners_and_count_replies,
    to_batch,
    to_games,
)

Observations = NDArray[np.int8]  # [N, 17, 8], or [N, 17] where an action is a whole turn
STILL_MODES = [mode for mode in RENDER_MODES if mode != "human"]
SEED_LIMIT = 1 << 63
Seed = int | np.integer[Any]
StepResults = tuple[Observations, NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]]


def build_opponent(
    opponent: str | Agent | None,
    rules: Rules,
    archive: str | PurePath = DEFAULT_ARCHIVE,
    config_dir: str | Path | None = None,
) -> GuardedAgent | None:
    """Build the opponent from a label, such as ``mcts(iterations=50)``, or from an agent object.

    If ``opponent`` is None, the learner plays both seats, and the result is None. Policies are read from ``archive``;
    ``config_dir`` is the user's own folder of agents and rules. Raises ``RequestError`` for an agent or a parameter
    that does not exist, and for an agent that does not play the rules.
    """
    if opponent is None:
        return None
    if not isinstance(opponent, str):
        return GuardedAgent(opponent, type(opponent).__name__, rules)
    with nullcontext() if config_dir is None else use_config_dir(Path(config_dir)):  # Hydra may run already
        spec = agent_from_label(opponent, parse_location(archive), True)
        return GuardedAgent(spec.build(), spec.label, rules)


def build_spaces(whole_turns: bool) -> tuple[spaces.Box, spaces.Discrete]:
    """Build the observation space and the action space, for whole turns or for single decisions."""
    if whole_turns:
        return spaces.Box(NONE, PIECES - 1, (CELLS + 1,), np.int8), spaces.Discrete(TURN_CODES)
    return spaces.Box(0, 1, SHAPE, np.int8), spaces.Discrete(ACTIONS)


def check_opening_plies(opening_plies: int, whole_turns: bool, rules: Rules) -> int:
    """Check the number of imposed plies, and return it.

    Raises ``RequestError`` if the number is out of range, or if whole turns are requested under rules by which the
    mover chooses the piece.
    """
    if whole_turns and rules.mover_chooses:
        raise RequestError(f"under rules {rules.name!r} the mover chooses the piece: a turn gives none")
    if not 0 <= opening_plies <= MAX_OPENING_PLIES:
        raise RequestError(f"opening_plies={opening_plies} is not a number of plies from 0 to {MAX_OPENING_PLIES}")
    return opening_plies


def parse_seat(seat: Any) -> int | None:
    """Return the learner's seat, or None if it is drawn at random in each game.

    Raises ``ValueError`` for any other value.
    """
    if seat not in (0, 1, None):
        raise ValueError(
            f"seat={seat!r} is not 0 (gives the first piece), 1 (places first) or None (either, at random)"
        )
    return None if seat is None else int(seat)


class GameLog:
    """A file to which finished games are appended, one per line, each with the labels of both players.

    Raises ``RequestError`` for a label that is not printable text.
    """

    def __init__(self, path: str | Path, learner: str, opponent: str, rules: str) -> None:
        check_label("name", learner)
        self.path = Path(path)
        seated = ((learner, opponent), (opponent, learner))
        self._headings = [Heading(rules, "", "", 0, *labels) for labels in seated]  # by the learner's seat

    def append_as_text(self, games: Games, seats: NDArray[np.int8]) -> None:
        """Append ``G`` games to the file; ``seats`` [G] holds the learner's seat in each game."""
        text = b"".join(format_games(self._headings[seat], select_games(games, seats == seat)) for seat in (0, 1))
        with self.path.open("ab") as file:
            file.write(text)


def _is_same_step_mode(mode: AutoresetMode | str) -> bool:
    """Return whether, in this mode, a new game begins in the same step in which the previous game ends.

    Raises ``RequestError`` for an unsupported mode.
    """
    supported_modes = (AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP)
    names = [supported_mode.value for supported_mode in supported_modes]
    if mode not in supported_modes and mode not in names:
        raise RequestError(f"autoreset_mode={mode} is not offered{suggest_valid_names(str(mode), names)}")
    return bool(AutoresetMode(mode) == AutoresetMode.SAME_STEP)


class QuartoVectorEnv(VectorEnv):
    """``num_envs`` games of a learner against ``opponent``, each at its own ply, stepped together by compiled code.

    The arguments are those of ``QuartoEnv``, with ``num_envs`` and ``autoreset_mode`` in addition. After
    ``reset(seed=s)``, game ``i`` is the game that ``QuartoEnv`` plays after ``reset(seed=s + i)``; a list of seeds has
    one seed for each game. For ``N`` games, observations are int8 [N, 17, 8] ([N, 17] for whole turns), rewards are
    float64 [N], and terminations and truncations are bool [N]. ``infos`` has ``action_mask`` int8 [N, 16] ([N, 289] for
    whole turns) and ``seat`` int8 [N]; if games have ended, it also has ``ending`` int8 [N], an index into
    ``quarto.batch.ENDINGS`` that is valid where ``_ending`` is true.

    After the end of a game, a new game begins in the next step, which ignores the action for that game
    (``AutoresetMode.NEXT_STEP``). With ``AutoresetMode.SAME_STEP``, the new game begins in the same step, and
    ``final_obs`` in ``infos`` has the last observation where ``_final_obs`` is true. In each step, a compiled agent
    takes the turns of all games in one call. An agent in Python is called once per ply number, with all games in which
    a turn is due at that ply. Copying or pickling preserves the state of all games, as with ``QuartoEnv``.
    """

    def __init__(  # noqa: PLR0913, PLR0917  (the keys that gymnasium.make_vec takes)
        self,
        num_envs: int = 1,
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
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
    ) -> None:
        if num_envs < 1:
            raise RequestError(f"num_envs={num_envs} is not a number of games: give 1 or more")
        if render_mode is not None and render_mode not in STILL_MODES:
            raise RequestError(
                f"render_mode {render_mode!r} does not exist{suggest_valid_names(render_mode, STILL_MODES)}"
            )
        self.rules = resolve_rules(rules)
        self.num_envs, self.render_mode = num_envs, render_mode
        self._resets_at_once = _is_same_step_mode(autoreset_mode)
        self.metadata = {"render_modes": STILL_MODES, "autoreset_mode": AutoresetMode(autoreset_mode)}
        self.single_observation_space, self.single_action_space = build_spaces(turns)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._opponent = build_opponent(opponent, self.rules, archive, config_dir)
        self._player = self._opponent.fork_player() if self._opponent else None
        fixed_seat = parse_seat(seat)
        learner_seat = BOTH_SEATS if self._opponent is None else RANDOM_SEAT if fixed_seat is None else fixed_seat
        self._options = StepOptions(learner_seat, int(turns), 0)
        self._openings = np.empty((2, check_opening_plies(opening_plies, turns, self.rules), 1), np.int8)
        opponent_name = self._opponent.label if self._opponent else name
        self._log = None if record is None else GameLog(record, name, opponent_name, self.rules.name)
        self.envs, self._opponent_positions = build_envs(num_envs), OpponentPositions.empty(num_envs)
        self._has_seeds = False

    def reset(
        self, *, seed: Seed | Sequence[Seed | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observations, dict[str, Any]]:
        """Begin all games anew, and return their first observations and ``infos``.

        Unfinished games are discarded. Without ``seed``, each environment keeps its seed and plays the next of the
        games that follow from it. If no seeds have been given yet, they are drawn at random.
        """
        envs = self.envs
        if seed is not None or not self._has_seeds:
            envs["seed"], envs["number"] = self._build_seeds(seed), -1
            self._has_seeds = True
        envs["over"] = True
        if self._player:
            self._player.start(range(self.num_envs))
        self._step_learners_then_opponents(np.zeros(self.num_envs, np.int64), player_has_started=True)
        observations, masks = self._encode_observations_and_masks()
        return observations, {"action_mask": masks, "seat": envs["seat"].copy()}

    def _build_seeds(self, seed: Seed | Sequence[Seed | None] | None) -> NDArray[np.uint64]:
        """Build one seed for each game: [N] uint64. Seeds that are not given are drawn at random."""
        super().reset(seed=int(seed) if isinstance(seed, int | np.integer) else None)
        drawn_seeds = self.np_random.integers(SEED_LIMIT, size=self.num_envs).tolist()
        if seed is None:
            seeds: Sequence[Seed | None] = drawn_seeds
        elif isinstance(seed, int | np.integer):
            seeds = range(int(seed), int(seed) + self.num_envs)
        else:
            seeds = seed
        if len(seeds) != self.num_envs:
            raise ValueError(
                f"{format_count_with_noun(len(seeds), 'seed')} for "
                f"{format_count_with_noun(self.num_envs, 'game')}: give one for each, or a single number"
            )
        return np.array(
            [
                game_seed if game_seed is not None else drawn_seed
                for game_seed, drawn_seed in zip(seeds, drawn_seeds, strict=True)
            ],
            np.uint64,
        )

    def step(self, actions: Any) -> StepResults:
        """Carry out an action in each game, then let the opponent take its turn where it is due.

        ``actions`` has one integer for each game, [N]. Returns observations, rewards, terminations, truncations and
        ``infos``.
        """
        action_array = np.asarray(actions, np.int64)
        if action_array.shape != (self.num_envs,):
            raise ValueError(f"actions have shape {action_array.shape}, not ({self.num_envs},)")
        envs = self.envs
        self._step_learners_then_opponents(action_array)
        observations, masks = self._encode_observations_and_masks()
        rewards, terminated, truncated = (envs[name].copy() for name in ("reward", "terminated", "truncated"))
        infos: dict[str, Any] = {}
        over = envs["over"].copy()
        if over.any():
            infos |= {"ending": envs["ending"].copy(), "_ending": over}
            if self._log is not None:
                self._log.append_as_text(to_games(envs[over]), envs["seat"][over])
            if self._resets_at_once:
                infos |= {"final_obs": observations, "_final_obs": over}
                self._step_learners_then_opponents(action_array, begins_only=True)
                observations, masks = self._encode_observations_and_masks()
        infos |= {"action_mask": masks, "seat": envs["seat"].copy()}
        return observations, rewards, terminated, truncated, infos

    def _step_learners_then_opponents(
        self, actions: NDArray[np.int64], player_has_started: bool = False, begins_only: bool = False
    ) -> None:
        """Take one step in all games; if ``begins_only``, only begin new games.

        ``player_has_started`` says whether the opponent's player has already been told that all games begin anew.
        """
        envs, due, rules = self.envs, self._opponent_positions, self.rules.tables
        size = step_learners_and_count_replies(
            envs, due, actions, self._options._replace(begin=int(begins_only)), self._openings, rules
        )
        if self._opponent is None or self._player is None:
            return
        if self._player.game_words and not player_has_started:
            self._player.restart(np.flatnonzero(envs["begun"]))
        if size == 0:
            return
        batch = due.batch.select_range(0, size)
        slots, seeds, turns = due.slots[:size], due.seeds[:size], due.turns[:size]
        if isinstance(self._player, KernelPlayer):
            play_opponent_turns(
                envs, slots, self._opponent.take_turns(self._player, batch, Streams(seeds), slots), rules
            )
            return
        for turn in np.unique(turns):
            at_turn = turns == turn
            answers = self._opponent.take_turns(
                self._player, batch.select(at_turn), Streams(seeds[at_turn]), slots[at_turn]
            )
            play_opponent_turns(envs, slots[at_turn], answers, rules)

    def _encode_observations_and_masks(self) -> tuple[Observations, NDArray[np.int8]]:
        """Encode the observations and the action masks; in a finished game, the mask allows every action."""
        positions = to_batch(self.envs)
        if self._options.turns:
            observations, legal = encode_pieces_and_legal_turns(positions, self.rules)
            masks = legal.view(np.int8)
        else:
            observations, masks = encode_observations_and_masks(positions)
        masks[self.envs["over"]] = 1
        return observations, masks

    def render(self) -> tuple[Any, ...] | None:
        """Render the board of each game as text (``ansi``) or as an image uint8 [height, width, 3] (``rgb_array``).

        Returns None if there is no render mode.
        """
        if self.render_mode is None:
            return None
        positions = to_batch(self.envs)
        render_position = (
            rendering.render_position_and_left_as_text
            if self.render_mode == "ansi"
            else rendering.render_position_and_left_as_image
        )
        return tuple(render_position(positions.position(i)) for i in range(self.num_envs))
