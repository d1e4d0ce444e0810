"""Objectives of runs: what a run is judged by, also for sweepers that optimise; one class a yaml in conf/objective."""

from __future__ import annotations

import math
import random
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import contextmanager
from functools import reduce
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from quarto.errors import ArenaError, FailureError, RequestError, nearest
from runners.arena.schemas import check_range

if TYPE_CHECKING:
    from collections.abc import Iterator

    from analytics.perfect.annotate import AnnotationSettings
    from analytics.results.pairings import PairingResult
    from analytics.statistics.tally import Tally
    from quarto.batch import Games
    from quarto.rules import Rules
    from runners.arena.experiment import Experiment
    from runners.arena.spec import RunSpec

Direction = Literal["maximize", "minimize"]
MOST_SECONDS = 7 * 86400.0


class Objective(ABC):
    """A number that says how good the games of a run were for one of its agents."""

    direction: ClassVar[Direction] = "maximize"

    def __init__(self, agent: str | None = None) -> None:
        """``agent`` is ``a`` or ``b`` in a match, or a label; None: the first agent."""
        self.agent = agent

    def check(self, spec: RunSpec) -> None:
        """Raises ``RequestError`` if a run of this specification cannot have a value."""
        agent_in(spec, self.agent, "objective.agent")

    def probe(self, spec: RunSpec) -> None:  # noqa: B027  (most objectives cost nothing)
        """Raises ``RequestError`` if it shows, before any game is played, that the value would take too long."""

    @abstractmethod
    def value(self, experiment: Experiment, results: Sequence[PairingResult]) -> float:
        """The value of a run, whose results are those of its pairings in their order.

        Raises ``FailureError`` if the games do not determine it.
        """

    def heading(self, name: str) -> str:
        """The heading of its values in tables; ``name`` is its own in ``conf/objective``."""
        return f"{name} of {self.agent}" if self.agent else name

    def text(self, value: float) -> str:
        """A value as tables show it."""
        return f"{value:.4f}"


class Score(Objective):
    """The mean score of an agent over all its games: a win counts 1, a draw 1/2."""

    def value(self, experiment: Experiment, results: Sequence[PairingResult]) -> float:
        from analytics.statistics.intervals import mean_score

        return mean_score(_tally(experiment.request.spec, self.agent, results).trinomial).mean


class WinRate(Objective):
    """The share of its games that an agent wins."""

    def value(self, experiment: Experiment, results: Sequence[PairingResult]) -> float:
        tally = _tally(experiment.request.spec, self.agent, results)
        return tally.wins / tally.games


class Elo(Objective):
    """The Elo of an agent over another one, by one fit to the games of the run (``analytics.ratings``)."""

    def __init__(self, agent: str | None = None, anchor: str | None = None) -> None:
        """``anchor`` is named as ``agent`` is; None: the other agent of a match."""
        super().__init__(agent)
        self.anchor = anchor

    def check(self, spec: RunSpec) -> None:
        self._labels(spec)

    def _labels(self, spec: RunSpec) -> tuple[str, str]:
        """The labels of the agent and of the anchor."""
        agent = agent_in(spec, self.agent, "objective.agent")
        if self.anchor is None and len(spec.agents) > 2:
            labels = [each.label for each in spec.agents if each.label != spec.agents[agent].label]
            raise RequestError(f"objective=elo needs objective.anchor=LABEL in a tournament{nearest('', labels)}")
        anchor = 1 - agent if self.anchor is None else agent_in(spec, self.anchor, "objective.anchor")
        one, other = spec.agents[agent].label, spec.agents[anchor].label
        if one == other:
            raise RequestError(f"objective=elo compares '{one}' with itself: name another objective.anchor")
        return one, other

    def value(self, experiment: Experiment, results: Sequence[PairingResult]) -> float:
        from analytics.ratings.ratings import rate
        from analytics.statistics.tally import summed

        agent, anchor = self._labels(experiment.request.spec)
        tallies = summed(((result.first, result.second), result.tally) for result in results)
        found = {rating.agent: rating.elo.mean for rating in rate(tallies, anchor, samples=0).ratings}
        elo = found.get(agent, math.nan)
        if math.isnan(elo):
            raise FailureError(
                f"the games of run {experiment.run_id} do not determine the Elo of '{agent}' over '{anchor}': play more"
            )
        return elo

    def text(self, value: float) -> str:
        return f"{value:.1f}".replace("inf", "∞")

    def heading(self, name: str) -> str:
        over = f" over {self.anchor}" if self.anchor else ""
        return super().heading(name) + over


class Regret(Objective):
    """The mean regret of an agent's decisions by exact values, in half-points; it annotates the run."""

    direction = "minimize"

    def __init__(self, agent: str | None = None, from_pieces: int | None = None, seconds: float = 600.0) -> None:
        """Decisions on boards with fewer than ``from_pieces`` pieces are left out; judging takes ``seconds`` at most.

        Raises ``RequestError`` for a value out of range.
        """
        from quarto.rules import PIECES

        super().__init__(agent)
        for name, value, most in (("from_pieces", from_pieces, PIECES - 1), ("seconds", seconds, MOST_SECONDS)):
            if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
                raise RequestError(f"objective.{name}={value}: {value!r} is not a number")
            check_range(f"objective.{name}", value if value is not None else 0, 0, most)
        self.from_pieces, self.seconds = from_pieces, seconds

    def _first_ply(self, rules: Rules) -> int:
        from analytics.derived_tables.decisions import FIRST_PIECES_MOVER

        if self.from_pieces is not None:
            return int(self.from_pieces)
        return FIRST_PIECES_MOVER if rules.mover_chooses else 0

    def _settings(self, rules: Rules, threads: int) -> AnnotationSettings:
        from analytics.perfect.annotate import AnnotationSettings

        return AnnotationSettings(from_pieces=self._first_ply(rules), threads=threads)

    def probe(self, spec: RunSpec) -> None:
        """Judge one random game, whose earliest decisions take the longest."""
        import numpy as np

        from analytics.perfect.annotate import Evaluator

        settings = self._settings(spec.rules, 1)
        first = max(self._first_ply(spec.rules), spec.opening_plies)
        game = _random_game(spec.rules, first, random.Random(spec.seed))
        if game is None:
            return
        what = f"one random game under rules {spec.rules.name} from {first} pieces on"
        with self._in_time(what, RequestError) as on_wait:
            evaluator = Evaluator(spec.rules, settings)
            evaluator.values(game, np.array([first], np.int8), False, lambda _games: None, on_wait)

    def value(self, experiment: Experiment, results: Sequence[PairingResult]) -> float:  # noqa: ARG002
        from analytics import open_archive
        from analytics.perfect.annotate import annotate_runs
        from analytics.query.mistakes import decision_summaries, judged_agents
        from analytics.sql.views import among

        request = experiment.request
        label = request.spec.agents[agent_in(request.spec, self.agent, "objective.agent")].label
        settings = self._settings(request.spec.rules, request.threads)
        with self._in_time(f"the games of run {experiment.run_id}", FailureError) as on_wait:
            annotate_runs(experiment.archive, [experiment.run_id], settings, on_wait=on_wait)
        condition = f"{among([experiment.run_id])} AND ply >= {self._first_ply(request.spec.rules)}"
        with open_archive(request.storage.root) as opened:
            summaries = decision_summaries(opened, condition, False, judged_agents(opened, condition))
        own = summaries.filter(summaries["agent"] == label)
        if not len(own):
            raise FailureError(
                f"'{label}' has no decision in run {experiment.run_id} from {settings.from_pieces} pieces on"
            )
        return float((own["regret"] * own["decisions"]).sum()) / int(own["decisions"].sum())

    @contextmanager
    def _in_time(self, what: str, error: type[ArenaError]) -> Iterator[Callable[[], None]]:
        """A function to be called while judging goes on, which ends it after ``seconds``; raises ``error`` then."""
        end = time.monotonic() + self.seconds

        def on_wait() -> None:
            if time.monotonic() > end:
                raise _OutOfTimeError

        try:
            yield on_wait
        except _OutOfTimeError:
            raise error(
                f"{what} cannot be judged exactly within {self.seconds:g} s (objective=regret): leave out early boards "
                "with objective.from_pieces=N, or allow more with objective.seconds=…"
            ) from None


class _OutOfTimeError(Exception):
    """Judging takes longer than was allowed."""


def agent_in(spec: RunSpec, name: str | None, key: str) -> int:
    """The index of the agent of a run that a setting names. Raises ``RequestError`` if there is none."""
    if name is None:
        return spec.pairings[0][0]
    seats = ("a", "b") if len(spec.agents) == 2 and spec.pairings == ((0, 1),) else ()
    labels = [agent.label for agent in spec.agents]
    for names in (seats, labels):
        if name in names:
            return names.index(name)
    raise RequestError(f"{key}={name} does not play in this run{nearest(str(name), [*seats, *labels])}")


def _random_game(rules: Rules, least: int, dice: random.Random) -> Games | None:
    """A random game of more than ``least`` plies; None if there was none among a thousand."""
    from quarto.batch import ENDINGS, Games
    from quarto.rules import CELLS, NONE, PIECES, finished_lines

    for _ in range(1000):
        order = [dice.sample(range(PIECES), PIECES) for _ in ("pieces", "cells")]
        board, plies, won = [NONE] * CELLS, 0, False
        while plies < PIECES and not won:
            board[order[1][plies]] = order[0][plies]
            won, plies = bool(finished_lines(board, rules)), plies + 1
        if plies > least:
            game = Games.zeros(1)
            game.pieces[:, 0], game.cells[:, 0], game.plies[0] = order[0], order[1], plies
            game.winner[0] = plies & 1 if won else NONE
            game.ending[0] = ENDINGS.index("line" if won else "full_board")
            return game
    return None


def _tally(spec: RunSpec, name: str | None, results: Sequence[PairingResult]) -> Tally:
    """The tally of all games of an agent, from its perspective."""
    from analytics.statistics.tally import Tally

    agent = agent_in(spec, name, "objective.agent")
    views = []
    for result in results:
        pairing = spec.pairings[result.pairing]
        if agent in pairing:
            views.append(result.tally if pairing[0] == agent else result.tally.swapped)
    return reduce(Tally.__add__, views, Tally())


def objective_of(settings: Mapping[str, Any], name: str) -> Objective:
    """The objective that a node of the configuration describes; ``name`` is the option of the group.

    Raises ``RequestError`` for a setting that does not exist or does not fit.
    """
    from runners.arena.spec import made_of

    made: Objective = made_of(f"objective '{name}'", settings, Objective)
    return made
