"""Training while playing: one game after the other, and what one has taught is known in the next.

The archive is the checkpoint. The games are those of a run, so a training that was stopped learns again from what is
there and plays the rest; nothing else has to be kept.
"""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Mapping
from typing import Any

from agents.learning.game_updates import Lessons
from agents.learning.learner import Learner
from agents.lift import KernelPlayer
from analytics.policies.learning_curve import learning_curve
from analytics.policies.relearn import Student, logged
from analytics.store.records import SEATS
from analytics.store.schema import MAX_PAIRS
from quarto.batch import Block, Games
from quarto.errors import RequestError, nearest
from quarto.jit import uint64
from runners.arena.agent_labels import agent_of
from runners.arena.checks import check_range, rounding_notes
from runners.arena.config_groups import names, settings_of
from runners.arena.engine import Order
from runners.arena.experiment import Experiment, contribute, prepare
from runners.arena.schedule import Pace
from runners.arena.spec import LABEL, AgentSpec, RunSpec, label_of
from runners.training.practice import Desk, practise
from runners.training.trainer import Setting, Trained

logger = logging.getLogger(__name__)

LEARNER, OPPONENT = 0, 1  # indices into the agents of a training's run


class Online:
    """The trainer of learners that learn from each game as soon as it is over.

    ``learner`` is a mapping with the ``_target_`` of a ``Learner`` and its parameters, ``opponent`` an agent as
    ``agents=[…]`` names them. With ``seats='swapped'`` both games of each pair are played, the learner in
    ``learner_seat`` first; with ``'fixed'`` it has that seat in every game. Raises ``RequestError`` for a value that
    makes no sense.
    """

    extent = "games"

    def __init__(
        self,
        learner: Mapping[str, Any],
        opponent: str | Mapping[str, Any] = "semi_random",
        games: int = 10000,
        seats: str = "swapped",
        learner_seat: int = 0,
    ) -> None:
        if not isinstance(learner, Mapping) or not isinstance(learner.get("_target_"), str):
            raise RequestError(f"trainer.learner={learner!r} is no mapping with the class of a learner under _target_")
        if seats not in SEATS:
            raise RequestError(f"trainer.seats={seats} does not exist{nearest(str(seats), SEATS)}")
        games_a_pair = 1 + (seats == "swapped")
        for key, value, least, most in (
            ("games", games, 1, MAX_PAIRS * games_a_pair),
            ("learner_seat", learner_seat, 0, 1),
        ):
            if isinstance(value, bool) or not isinstance(value, int):
                raise RequestError(f"trainer.{key}={value!r} is not a whole number")
            check_range(f"trainer.{key}", value, least, most)
        self.learner = learner
        self.opponent = opponent
        self.games = games + games % games_a_pair
        self.seats = seats
        self.learner_seat = learner_seat
        self.notes = rounding_notes("trainer.games", games, self.games)

    def check(self, setting: Setting) -> None:
        """Raises ``RequestError`` if ``train`` would."""
        self._prepared(setting)

    def train(self, setting: Setting) -> Trained:
        """Learn from the games that the archive has and play those it lacks.

        Raises ``RequestError`` before anything is played if the agents make no sense or other code began the training,
        ``FailureError`` when the disk refuses; what was committed before is kept.
        """
        experiment, learner = self._prepared(setting)
        run_id, archive = experiment.run_id, experiment.archive
        begun = archive.run(run_id)
        if begun is not None and begun.code.get("fingerprint") != experiment.code["fingerprint"]:
            logger.warning(
                "run %s was begun by other code: what is learned from its games is what this code makes of them", run_id
            )
        with contribute(experiment, setting.command) as contribution:
            course = _Course(experiment, learner, setting)
            course.run()
            contribution.games = course.committed
        left = experiment.games_left(self.games)
        learned = None if left or course.stopped else learner.policy(course.student.knowledge)
        curve = learning_curve(archive, run_id, self.games, setting.curve_block)
        return Trained(learned, (run_id,), self.games - left, contribution.games, contribution.seconds, curve)

    def _prepared(self, setting: Setting) -> tuple[Experiment, Learner]:
        spec = self._spec(setting)
        learner = spec.agents[LEARNER].build()
        if not isinstance(learner, Learner):
            raise RequestError(
                f"trainer '{setting.name}': {self.learner['_target_']} is no Learner (see agents/learning/learner.py)"
            )
        return prepare(setting.request(spec, self.games)), learner

    def _spec(self, setting: Setting) -> RunSpec:
        return RunSpec(
            rules=setting.rules,
            agents=(self._learner(setting.name), agent_of(self.opponent, setting.storage.root, "trainer.opponent")),
            pairings=((LEARNER, OPPONENT) if self.learner_seat == 0 else (OPPONENT, LEARNER),),
            seed=setting.seed,
            opening_plies=0,
            seats=self.seats,
            learner=LEARNER,
        )

    def _learner(self, trainer: str) -> AgentSpec:
        """The learner, labelled with those of its parameters that differ from the trainer's yaml."""
        own = settings_of("trainer", trainer).get("learner", {}) if trainer in names("trainer") else {}
        changed = label_of("", dict(self.learner), own).strip("()")
        label = f"{trainer}({','.join(['training', *([changed] if changed else [])])})"
        if not LABEL.fullmatch(label):
            label = f"{trainer}(training,{hashlib.sha256(changed.encode()).hexdigest()[:12]})"
        params = {key: value for key, value in self.learner.items() if key != "_target_"}
        return AgentSpec(label, self.learner["_target_"], params)


class _Course:
    """One training, while it goes on."""

    def __init__(self, experiment: Experiment, learner: Learner, setting: Setting) -> None:
        self.committed = 0  # games, by this process
        self.stopped = False  # before it had learned from all games
        self._experiment = experiment
        self._spec = experiment.request.spec
        self._learner = learner
        self._stop = setting.stop
        self._progress = setting.progress
        self._pace = Pace()
        self.student = Student(learner, self._spec.rules)

    def run(self) -> None:
        """Learn from all games in their order, and play those that the archive lacks when it is their turn."""
        games = self._experiment.request.games
        if self._progress and self._experiment.games_left(games):
            self._progress.start(self._experiment.games_left(games))
        self._pass()
        # Again only if another process was faster with some games: our shards that hold any of those were dropped.
        while self._experiment.games_left(games) and not self.stopped:
            self.student = Student(self._learner, self._spec.rules)
            self._pass()

    def _pass(self) -> None:
        reached, end_pair = 0, self._experiment.request.games // self._spec.games_a_pair
        for first, end in self._experiment.left(self._experiment.request.games)[0]:
            self._recall(reached, first)
            self._go_on(first, end)
            reached = end
        self._recall(reached, end_pair)

    def _recall(self, first_pair: int, end_pair: int) -> None:
        """Learn from pairs that the archive holds."""
        if first_pair == end_pair:
            return
        for first, games in logged(self._experiment.archive, self._experiment.run_id, first_pair, end_pair):
            if self._stopping():
                return
            self.student.learn(games, self._lessons(first))

    def _go_on(self, first_pair: int, end_pair: int) -> None:
        """Play pairs that it does not hold, learn from them and commit them."""
        with self._experiment.shard_writer() as writer:
            while first_pair < end_pair and not self._stopping():
                pairs, started = min(self._pace.pairs(0), end_pair - first_pair), time.perf_counter()
                games = self._block(first_pair, pairs)
                self._pace.update(0, pairs, time.perf_counter() - started)
                writer.add(Block(0, first_pair, 0, games, self._spec.games_a_pair == 2))
                first_pair += pairs
                if self._progress:
                    self._progress.advance(len(games.plies))
        self.committed += writer.committed

    def _stopping(self) -> bool:
        self.stopped = self.stopped or self._stop.is_set()
        return self.stopped

    def _block(self, first_pair: int, pairs: int) -> Games:
        """Play consecutive pairs and learn from each game before the next."""
        desk, lessons = Desk.of(Games.zeros(pairs * self._spec.games_a_pair)), self._lessons(first_pair)
        column, end = 0, pairs * self._spec.games_a_pair
        while column < end:
            column, room = self._together(lessons, (column, end), desk)
            if not room:
                self.student.grow()
            elif column < end:
                self._alone(lessons, column, desk.games)
                column += 1
        return desk.games

    def _together(self, lessons: Lessons, span: tuple[int, int], desk: Desk) -> tuple[int, bool]:
        """Play as many games as one kernel can: the column after the last one, and whether there is room for more."""
        opponent = self._experiment.engine.player(OPPONENT)
        if not isinstance(opponent, KernelPlayer) or opponent.game_words:  # what it remembers, the engine looks after
            return span[0], True
        desk.finished[0] = span[0]
        student = self.student
        turn, update, both = student.player.turn, type(student.learner).update, (student.player.own, opponent.own)
        try:
            column, room = practise(turn, opponent.turn, update, both, self._spec.rules.tables, lessons, span, desk)
        except Exception:  # noqa: BLE001  (a turn raised: the engine plays that game anew, and logs and forfeits it)
            return int(desk.finished[0]), True
        return int(column), bool(room)

    def _alone(self, lessons: Lessons, column: int, games: Games) -> None:
        """Play one game as the engine plays all others, with whatever opponent, and learn from it."""
        engine = self._experiment.engine
        engine.replace_player(LEARNER, self.student.player)
        pair, game = divmod(column, lessons.games_a_pair)
        played = Games.zeros(lessons.games_a_pair)
        engine.play_game(Order(0, lessons.first_pair + pair, 1), game, played)
        for whole, part in zip(games, played, strict=True):
            whole[..., column] = part[..., game]
        self.student.learn(games, lessons, column, column + 1)

    def _lessons(self, first_pair: int) -> Lessons:
        spec = self._spec
        return Lessons(uint64(spec.seed), first_pair, spec.games_a_pair, spec.pairings[0].index(LEARNER))
