"""Training while playing: a learner plays one game after the other, and learns from each before the next begins.

The games of a training are those of one run, and the archive is the checkpoint: a stopped training first learns again
from the logged games, then plays the remaining ones. Nothing else has to be stored.
"""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

from agents.base.parameters import check_integer
from agents.base.player import KernelPlayer
from agents.learning.learner import Learner, TrainingGames
from analytics.policies.relearning import LearnerState, compute_learning_curve, read_pair_blocks
from analytics.store.records import LABEL, SEATS, run_id_to_stream_key
from analytics.store.schema import MAX_PAIRS
from quarto.batch import Block, Games
from quarto.errors import RequestError, is_ctrl_c_in_main_thread
from quarto.jit import load_kernel
from runners.arena.batch_engine import Pace, PairRange
from runners.arena.code_fingerprints import describe_code_differences
from runners.arena.experiment import Experiment, RangeWriter, open_experiment, record_contribution
from runners.arena.spec import AgentSpec, RunSpec, format_label
from runners.config.requests import describe_rounding
from runners.config.schemas import check_choice
from runners.config.yaml_options import list_options, load_option
from runners.learning.training.learning_kernel import GameBuffers, play_and_learn_and_check_room
from runners.learning.training.trainer import Trainer, TrainingContext, TrainingOutcome

logger = logging.getLogger(__name__)

LEARNER, OPPONENT = 0, 1  # indices into the agents of a training's run


class PreparedTraining(NamedTuple):
    """The learner of a training, and the run to which the games of the training belong."""

    experiment: Experiment
    learner: Learner


class Online(Trainer):
    """The trainer of learners that learn from each game as soon as it has ended.

    ``learner`` is a mapping with the ``_target_`` of a ``Learner`` and its parameters; ``opponent`` describes an agent
    in the same way as an entry of ``agents=[…]``. With ``seats='swapped'``, both games of each pair are played, and the
    learner has ``learner_seat`` in the first of them; with ``'fixed'``, the learner has that seat in every game.

    Raises ``RequestError`` for an invalid value.
    """

    length_key = "games"
    sequential_reason = "it learns from each game before the next one is played"

    def __init__(
        self,
        learner: Mapping[str, Any],
        opponent: str | Mapping[str, Any] = "semi_random",
        games: int = 10000,
        seats: str = "swapped",
        learner_seat: int = 0,
    ) -> None:
        if not isinstance(learner, Mapping) or not isinstance(learner.get("_target_"), str):
            raise RequestError(
                f"trainer.learner={learner!r} is not a mapping with the class of a learner under _target_"
            )
        check_choice("trainer.seats", seats, SEATS)
        games_a_pair = 1 + (seats == "swapped")
        try:
            check_integer("games", games, 1, MAX_PAIRS * games_a_pair)
            check_integer("learner_seat", learner_seat, 0, 1)
        except ValueError as error:
            raise RequestError(f"trainer.{error}") from error
        self.learner = learner
        self.opponent = opponent
        self.games = games + games % games_a_pair
        self.seats = seats
        self.learner_seat = learner_seat
        self._requested_games = games

    @property
    def notes(self) -> tuple[str, ...]:
        return describe_rounding("trainer.games", self._requested_games, self.games)

    def check(self, context: TrainingContext) -> None:
        self._prepare(context)

    def train(self, context: TrainingContext) -> TrainingOutcome:
        """Learn from the games that the archive holds; play the missing games and learn from them too."""
        experiment, learner = self._prepare(context)
        run_id, archive = experiment.run_id, experiment.archive
        stored_run = archive.find_run(run_id)
        if stored_run is not None and describe_code_differences(stored_run, experiment.code):
            logger.warning("run %s was begun by other code: this code may learn something else from its games", run_id)
        with record_contribution(experiment, context.command) as contribution:
            training = _OnlineTraining(experiment, learner, context)
            training.run()
            contribution.games = training.games_written
        missing_games = experiment.count_missing_games(self.games)
        learned = None if missing_games or training.stopped else learner.to_policy(training.state.knowledge)
        curve = compute_learning_curve(archive, run_id, self.games, context.curve_block)
        return TrainingOutcome(
            learned, (run_id,), self.games - missing_games, contribution.games, contribution.seconds, curve
        )

    def _prepare(self, context: TrainingContext) -> PreparedTraining:
        spec = self._build_run_spec(context)
        learner = spec.agents[LEARNER].build()
        if not isinstance(learner, Learner):
            raise RequestError(
                f"trainer '{context.name}': {self.learner['_target_']} is not a Learner "
                "(see agents/learning/learner.py)"
            )
        return PreparedTraining(open_experiment(context.build_request(spec, self.games)), learner)

    def _build_run_spec(self, context: TrainingContext) -> RunSpec:
        return RunSpec(
            rules=context.rules,
            agents=(self._build_learner_spec(context), context.build_agent(self.opponent, "trainer.opponent")),
            pairings=((LEARNER, OPPONENT) if self.learner_seat == 0 else (OPPONENT, LEARNER),),
            seed=context.seed,
            opening_plies=0,
            seats=self.seats,
            learner=LEARNER,
        )

    def _build_learner_spec(self, context: TrainingContext) -> AgentSpec:
        """Build the learner's specification; its label names the parameters that differ from the trainer's yaml."""
        trainer = context.name
        defaults = load_option("trainer", trainer).get("learner", {}) if trainer in list_options("trainer") else {}
        changed = format_label("", dict(self.learner), defaults).strip("()")
        label = f"{trainer}({','.join(['training', *([changed] if changed else [])])})"
        if not LABEL.fullmatch(label):
            label = f"{trainer}(training,{hashlib.sha256(changed.encode()).hexdigest()[:12]})"
        params = {key: value for key, value in self.learner.items() if key != "_target_"}
        return AgentSpec(label, self.learner["_target_"], params, trusted=context.trusted)


class _OnlineTraining:
    """A training that is carried out in this process."""

    def __init__(self, experiment: Experiment, learner: Learner, context: TrainingContext) -> None:
        self.games_written = 0  # games, by this process
        self.stopped = False  # before it had learned from all games
        self._experiment = experiment
        self._spec = experiment.request.spec
        self._learner = learner
        self._stop = context.stop
        self._progress = context.progress
        self._pace = Pace()
        self.state = LearnerState(learner, self._spec.rules)

    def run(self) -> None:
        """Learn from all games in order; when a game is missing from the archive, play it first."""
        games = self._experiment.request.games
        if self._progress and self._experiment.count_missing_games(games):
            self._progress.start(self._experiment.count_missing_games(games))
        reached, end_pair = 0, games // self._spec.games_per_pair
        for first, end in self._experiment.missing_units(games):
            self._learn_from_logged_pairs(reached, first)
            self._play_missing_pairs(first, end)
            reached = end
        self._learn_from_logged_pairs(reached, end_pair)

    def _learn_from_logged_pairs(self, first_pair: int, end_pair: int) -> None:
        """Learn from the pairs ``first_pair`` up to but not including ``end_pair``, which the archive holds."""
        if first_pair == end_pair:
            return
        for first, games in read_pair_blocks(self._experiment.archive, self._experiment.run_id, first_pair, end_pair):
            if self._is_stopping():
                return
            self.state.learn(games, self._build_training_games(first))

    def _play_missing_pairs(self, first_pair: int, end_pair: int) -> None:
        """Play the pairs ``first_pair`` up to but not including ``end_pair``, learn from them, and store them.

        The run has only one pairing, so a unit of the run is one pair.
        """
        total_units = self._experiment.unit_line.count_units_of_all_pairings(self._experiment.request.games)
        with RangeWriter(self._experiment, first_pair, total_units) as writer:
            while first_pair < end_pair and not self._is_stopping():
                pairs, started = min(self._pace.next_pair_count(0), end_pair - first_pair), time.perf_counter()
                games = self._play_and_learn_block(first_pair, pairs)
                self._pace.add_block_time(0, pairs, time.perf_counter() - started)
                block = Block(0, first_pair, 0, games, self._spec.games_per_pair == 2)
                first_pair += pairs
                writer.add(first_pair, [block])
                if self._progress:
                    self._progress.advance(len(games.plies))
        self.games_written += writer.games_written

    def _is_stopping(self) -> bool:
        self.stopped = self.stopped or self._stop.is_set()
        return self.stopped

    def _play_and_learn_block(self, first_pair: int, pairs: int) -> Games:
        """Play ``pairs`` pairs from ``first_pair`` on, and return their games.

        The learner learns from each game before the next one begins.
        """
        column, end = 0, pairs * self._spec.games_per_pair
        buffers, training_games = GameBuffers.from_games(Games.allocate(end)), self._build_training_games(first_pair)
        while column < end:
            column, room = self._play_compiled_and_check_room(training_games, (column, end), buffers)
            if not room:
                self.state.enlarge_knowledge()
            elif column < end:
                self._play_and_learn_game(training_games, column, buffers.games)
                column += 1
        return buffers.games

    def _play_compiled_and_check_room(
        self, training_games: TrainingGames, column_range: tuple[int, int], buffers: GameBuffers
    ) -> tuple[int, bool]:
        """Play as many games in ``column_range`` as one kernel call can, and learn from each.

        Returns the column after the last game, and whether the learner's tables have room for more games. If the
        opponent cannot play in a kernel, no game is played.
        """
        opponent = self._experiment.engine.get_player(OPPONENT)
        if not isinstance(opponent, KernelPlayer) or opponent.game_words:  # the engine owns the memory of such agents
            return column_range[0], True
        buffers.finished_columns[0] = column_range[0]
        state = self.state
        turn, update, both = state.player.turn, state.learner.load_update(), (state.player.agent, opponent.agent)
        play = load_kernel(play_and_learn_and_check_room)  # an error of compiling it is none of a turn
        try:
            column, room = play(
                turn, opponent.turn, update, both, self._spec.rules.tables, training_games, column_range, buffers
            )
        except BaseException as error:  # a turn raised: the engine plays that game again and logs the forfeit
            if is_ctrl_c_in_main_thread(error):
                raise
            return int(buffers.finished_columns[0]), True
        return int(column), bool(room)

    def _play_and_learn_game(self, training_games: TrainingGames, column: int, games: Games) -> None:
        """Play the game in ``column`` with the ``BatchEngine``, which accepts any opponent, and learn from it."""
        engine = self._experiment.engine
        engine.replace_player(LEARNER, self.state.player)
        pair, game = divmod(column, training_games.games_per_pair)
        pair_games = Games.allocate(training_games.games_per_pair)
        engine.play_half(PairRange(0, training_games.first_pair + pair, 1), game, pair_games)
        for block_field, game_field in zip(games, pair_games, strict=True):
            block_field[..., column] = game_field[..., game]
        self.state.learn(games, training_games, column, column + 1)

    def _build_training_games(self, first_pair: int) -> TrainingGames:
        spec = self._spec
        return TrainingGames(
            run_id_to_stream_key(spec.run_id), first_pair, spec.games_per_pair, spec.pairings[0].index(LEARNER)
        )
