"""Self-improvement: each generation plays against itself, and the next policy is derived from the logged games.

The policy of each generation is derived as ``qarena policy build`` does it, so it has a name and can be rebuilt. A
stopped training continues from the games and policies in the archive.

The exact regret of a player is the value that its decisions give up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np
import polars as pl
from msgspec import Meta
from numpy.typing import NDArray

from agents.base.parameters import check_fields, check_integer
from agents.learning.evolution import compute_run_seed
from agents.learning.policy import Policy
from analytics import open_archive
from analytics.exact.annotation import AnnotationOptions, GameSolver
from analytics.policies.kinds.dataset import ID_RANGES_TABLE, GameStream
from analytics.questions.selection import select_games
from analytics.store import policy_store
from analytics.store.archive import ArchiveStore
from analytics.store.game_tables import RangeGames
from analytics.store.policy_cards import PolicyCard
from analytics.tables.derived.exact_values import ExactValues
from quarto.batch import GAME_BITS
from quarto.errors import RequestError, suggest_valid_names
from runners.arena.experiment import open_experiment
from runners.arena.request import RunRequest
from runners.arena.spec import AgentSpec, RunSpec
from runners.config.agents import parse_label
from runners.config.schemas import OpeningPlies
from runners.config.yaml_options import KIND_GROUP, load_option
from runners.learning.training.policy_build import (
    BuildRequest,
    build_kind,
    build_kind_code_record,
    build_policy,
    check_and_select_build_games,
)
from runners.learning.training.trainer import Trainer, TrainingContext, TrainingOutcome, TrainingRuns

GameCount = Annotated[int, Meta(ge=2, le=1 << 30)]
STRENGTH_SCHEMA = {
    **dict.fromkeys(("generation", "games"), pl.Int64),
    **dict.fromkeys(("player", "opponent", "run_id"), pl.String),
    **dict.fromkeys(("wins", "draws", "losses"), pl.Int64),
    **dict.fromkeys(("score", "low", "high", "regret"), pl.Float64),
    "decisions": pl.Int64,
}


class KindSettings(NamedTuple):
    """The name of a kind of policy, with the settings from which the kind is built."""

    name: str
    settings: dict[str, Any]  # its class under _target_ and its parameters


@dataclass(frozen=True, kw_only=True)
class SelfImprovement(Trainer):
    """The trainer ``self_improve``, whose yaml in ``conf/trainer`` explains each key.

    Raises ``RequestError`` for an invalid value.
    """

    length_key: ClassVar[str] = "generations"

    kind: str
    first: str
    player: str
    generations: Annotated[int, Meta(ge=1, le=10_000)]
    games: GameCount
    opening_plies: OpeningPlies
    remember: Annotated[str, ("all", "last")]
    opponents: Sequence[Any]
    strength_games: GameCount
    strength_opening_plies: OpeningPlies
    regret_games: int  # how many of the strength games are judged

    def __post_init__(self) -> None:
        try:
            check_fields(self)
            check_integer("regret_games", self.regret_games, 0, self.strength_games)
        except ValueError as error:
            raise RequestError(f"trainer.{error}") from error
        if isinstance(self.opponents, str) or not isinstance(self.opponents, Sequence) or not self.opponents:
            raise RequestError(f"trainer.opponents={self.opponents!r} is not a list of agents, [random, …]")
        for key in ("kind", "first", "player"):
            if not isinstance(getattr(self, key), str):
                raise RequestError(f"trainer.{key}={getattr(self, key)!r} is not NAME or NAME(parameter=value,…)")
        build_kind(*self.kind_settings, trusted=True)  # a yaml names its class

    @property
    def kind_settings(self) -> KindSettings:
        """The name of the kind of policy, with its class and parameters."""
        name, parameters = parse_label(self.kind, "trainer.kind")
        defaults = load_option(KIND_GROUP, name)
        for key in parameters:
            valid = [parameter for parameter in defaults if parameter != "_target_"]
            if key not in valid:
                raise RequestError(
                    f"trainer.kind={self.kind}: {name} has no parameter {key!r}{suggest_valid_names(key, valid)}"
                )
        return KindSettings(name, defaults | parameters)

    def check(self, context: TrainingContext) -> None:
        _SelfImprovementTraining(self, context).check()

    def train(self, context: TrainingContext) -> TrainingOutcome:
        return _SelfImprovementTraining(self, context).run()


class _SelfImprovementTraining:
    """A training by self-improvement in progress."""

    def __init__(self, plan: SelfImprovement, context: TrainingContext) -> None:
        self._plan, self._context = plan, context
        self._opponents = [context.build_agent(entry, "trainer.opponents") for entry in plan.opponents]
        self._first = context.build_agent(plan.first, "trainer.first")
        self._runs = TrainingRuns(
            context, (plan.generations + 1) * len(self._opponents) * plan.strength_games + plan.generations * plan.games
        )
        self._learned_from: list[str] = []  # ids of the runs learned from, one for each generation
        self._strength: list[tuple[Any, ...]] = []

    def check(self) -> None:
        """Raise ``RequestError`` if the first games cannot be played or if a policy's name is invalid."""
        policy_store.check_name(self._format_policy_name(self._plan.generations))
        agent, _ = parse_label(self._plan.player, "trainer.player")
        if "policy" not in load_option("agent", agent):
            raise RequestError(f"trainer.player={self._plan.player}: agent '{agent}' has no parameter 'policy'")
        self._context.build_agent(self._plan.player, "trainer.player").build()
        open_experiment(self._build_strength_request(self._first))
        open_experiment(self._build_self_play_request(0, self._first))

    def run(self) -> TrainingOutcome:
        plan = self._plan
        card: PolicyCard | None = None
        for generation in range(plan.generations + 1):
            card = self._derive_policy_unless_stored(generation) if generation else None
            if not self._measure_strength_unless_stopped(generation) or (
                generation < plan.generations and not self._play_itself_unless_stopped(generation)
            ):
                card = None
                break
        return self._build_outcome(card)

    def _build_outcome(self, card: PolicyCard | None) -> TrainingOutcome:
        """Build the outcome so far; ``card`` describes the last generation's policy, or is None if there is none."""
        archive = ArchiveStore.open(self._context.storage.root)
        policy: Policy | None = policy_store.read(archive, card.policy_id)[1] if card else None
        strength = pl.DataFrame(self._strength, schema=STRENGTH_SCHEMA, orient="row")
        tables = {"strength": strength} | (
            {ID_RANGES_TABLE: policy_store.read_table(archive, card, ID_RANGES_TABLE)} if card else {}
        )
        return TrainingOutcome(
            policy=policy,
            run_ids=tuple(card.learned["run_ids"] if card else self._learned_from),
            games=card.learned["games"] if card else len(self._learned_from) * self._plan.games,
            played=self._runs.played,
            seconds=self._runs.seconds,
            curve=build_strength_curve(strength),
            tables=tables,
            origin={key: card.learned[key] for key in ("where", "checksums", "derivation")} if card else {},
        )

    def _format_policy_name(self, generation: int) -> str:
        """Return the name of the policy of a generation."""
        return f"{self._context.policy}-{generation}"

    def _build_player(self, generation: int, label: str) -> AgentSpec:
        """Build the player of a generation.

        In generation 0, it is the agent ``first`` of the settings; later, it is the agent ``label``, which plays by the
        policy of the generation.
        """
        if generation == 0:
            return self._first
        agent, parameters = parse_label(label, "trainer.player")
        entry = {"agent": agent, **parameters, "policy": self._format_policy_name(generation)}
        return self._context.build_agent(entry, "trainer.player")

    def _measure_strength_unless_stopped(self, generation: int) -> bool:
        """Play the games of a generation's player against every opponent, and record the results.

        Returns whether all games were played before ``stop`` was set.
        """
        player = self._build_player(generation, "policy")
        outcome = self._runs.execute_run(self._build_strength_request(player))
        if outcome is None:
            return False
        learned = self._plan.games * (min(generation, 1) if self._plan.remember == "last" else generation)
        judged = self._measure_own_regret_by_opponent(outcome.run_id)
        for pairing, (opponent, result) in enumerate(zip(self._opponents, outcome.results, strict=True)):
            counts, regret = (result.wins, result.draws, result.losses), judged.get(pairing, PlayerRegret())
            row = (generation, learned, player.label, opponent.label, outcome.run_id, *counts, *result.score)
            self._strength.append((*row, regret.mean, regret.decisions))
        return True

    def _measure_own_regret_by_opponent(self, run_id: str) -> dict[int, PlayerRegret]:
        """Measure the player's exact regret in its games against each opponent.

        Returns a mapping from the number of the pairing to the regret. It is empty if the settings do not ask for
        regret, or if the rules let the mover choose the piece.
        """
        if not self._plan.regret_games or self._context.rules.mover_chooses:
            return {}
        archive = ArchiveStore.open(self._context.storage.root)
        return measure_first_agent_regret_by_pairing(archive, run_id, self._plan.regret_games, self._context.threads)

    def _play_itself_unless_stopped(self, generation: int) -> bool:
        """Play the self-play games from which the next policy is learned.

        Returns whether all games were played before ``stop`` was set.
        """
        outcome = self._runs.execute_run(
            self._build_self_play_request(generation, self._build_player(generation, self._plan.player))
        )
        if outcome is None:
            return False
        self._learned_from.append(outcome.run_id)
        return True

    def _derive_policy_unless_stored(self, generation: int) -> PolicyCard:
        """Derive the policy of a generation from the self-play games of earlier generations, and return its card.

        If the same policy is already stored, its card is returned instead.
        """
        plan, context = self._plan, self._context
        runs = self._learned_from if plan.remember == "all" else self._learned_from[-1:]
        kind, settings = plan.kind_settings
        request = BuildRequest(
            kind=kind,
            settings=settings,
            name=self._format_policy_name(generation),
            where=f"run_id IN ({', '.join(repr(run_id) for run_id in sorted(set(runs)))})",
            threads=context.threads,
            root=context.storage.root,
            command=context.command,
            executor=context.executor,
        )
        stored_card = policy_store.find_by_name(ArchiveStore.open(context.storage.root), request.name)
        if (
            stored_card
            and stored_card.learned["training"] == request.training_id
            and stored_card.code == build_kind_code_record(settings)
        ):
            return stored_card
        return build_policy(request, check_and_select_build_games(request))

    def _build_strength_request(self, player: AgentSpec) -> RunRequest:
        """Build the request for the games that the player plays against each opponent.

        The openings and the randomness are the same in all generations. Without openings, two deterministic players
        would play the same game again and again.
        """
        agents = (player, *self._opponents)
        pairings = tuple((0, opponent) for opponent in range(1, len(agents)))
        opening = self._plan.strength_opening_plies
        spec = RunSpec(self._context.rules, agents, pairings, self._compute_run_seed(0), opening_plies=opening)
        return self._context.build_request(spec, self._plan.strength_games)

    def _build_self_play_request(self, generation: int, player: AgentSpec) -> RunRequest:
        """Build the request for the games that the player plays against itself."""
        spec = RunSpec(
            self._context.rules,
            (player, player),
            ((0, 1),),
            self._compute_run_seed(generation + 1),
            self._plan.opening_plies,
        )
        return self._context.build_request(spec, self._plan.games)

    def _compute_run_seed(self, number: int) -> int:
        """Compute the seed of the run with this number.

        The seed depends on how many games are requested. Otherwise, a request for more games would extend the very runs
        from which stored policies were learned.
        """
        return compute_run_seed(
            self._context.seed, number, self._plan.strength_games if number == 0 else self._plan.games
        )


def build_strength_curve(strength: pl.DataFrame) -> pl.DataFrame:
    """Build a curve with one row for each generation.

    A row holds the number of games from which the generation has learned, the mean score against all opponents, the
    mean regret of a decision, and then the score against each opponent with its interval.
    """
    regret = (pl.col("regret") * pl.col("decisions")).sum() / pl.col("decisions").sum()
    columns = [pl.col("score").mean().alias("strength"), regret.alias("regret")]
    for opponent in strength["opponent"].unique(maintain_order=True):
        for name, column in (("", "score"), (" low", "low"), (" high", "high")):
            against = pl.col(column).filter(pl.col("opponent") == opponent).first()
            columns.append(against.alias(f"v {opponent}{name}"))
    return strength.group_by("generation", "games", maintain_order=True).agg(columns)


MIN_PIECES = 6  # decisions with fewer pieces are nearly always right, and take long to judge without a tablebase
TABLE_MEGABYTES = 64.0


class GameRegrets(NamedTuple):
    """The total regret of the first agent in each of ``G`` games, and the number of decisions that were judged."""

    half_points: NDArray[np.int64]  # [G] given up
    decisions: NDArray[np.int64]  # [G]


class PlayerRegret(NamedTuple):
    """The half-points that a player gave up, and the number of its decisions that were judged."""

    total: int = 0
    decisions: int = 0

    @property
    def mean(self) -> float | None:
        """The mean number of half-points given up per decision, or None if no decision was judged."""
        return self.total / self.decisions if self.decisions else None


def measure_first_agent_regret_by_pairing(
    archive: ArchiveStore, run_id: str, games_per_pairing: int, threads: int
) -> dict[int, PlayerRegret]:
    """Measure, for each pairing, the regret of the first agent in the pairing's first ``games_per_pairing`` games.

    Only decisions that the agent itself made on boards with at least ``MIN_PIECES`` pieces are judged, so imposed plies
    do not count. The rules of the run must let the opponent choose the piece. Raises ``FailureError`` for a damaged
    file.
    """
    regrets: dict[int, PlayerRegret] = {}
    with open_archive(archive.root) as opened:
        number = f"game_id % {1 << GAME_BITS}"
        stream = GameStream(select_games(opened, f"run_id = '{run_id}' AND {number} < {games_per_pairing}"))
        evaluator = GameSolver(stream.rules, AnnotationOptions(threads=threads, megabytes=TABLE_MEGABYTES))
        for _, range_games in stream.read_blocks():
            first_plies = np.maximum(range_games.opening, MIN_PIECES).astype(np.int8)
            values = evaluator.solve_games(range_games.games, first_plies, False, lambda _games: None)
            half_points, decisions = sum_first_agent_regret(range_games, first_plies, values)
            for pairing in np.unique(range_games.pairing).tolist():
                rows = range_games.pairing == pairing
                total, count = regrets.get(pairing, PlayerRegret())
                regrets[pairing] = PlayerRegret(
                    total + int(half_points[rows].sum()), count + int(decisions[rows].sum())
                )
    return regrets


def sum_first_agent_regret(range_games: RangeGames, first_plies: NDArray[np.int8], values: ExactValues) -> GameRegrets:
    """Sum the half-points that the first agent gives up in each of ``G`` games, and count the agent's decisions.

    Decisions before ply ``first_plies`` [G] of a game are left out.
    """
    seat, plies = range_games.game_id & 1, range_games.games.plies
    half_points, decisions = np.zeros(len(plies), np.int64), np.zeros(len(plies), np.int64)
    for ply in range(len(values.placement)):
        counts = (ply >= first_plies) & (ply < plies)
        gives = counts & (seat == ply & 1)
        places = counts & (seat != ply & 1)
        after = np.where(ply + 1 < plies, values.gift[ply + 1], values.end).astype(np.int64)
        loss = np.where(gives, values.gift[ply] + values.placement[ply].astype(np.int64), 0)
        half_points += loss + np.where(places, values.placement[ply] - after, 0)
        decisions += counts
    return GameRegrets(half_points, decisions)
