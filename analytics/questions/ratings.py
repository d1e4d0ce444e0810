"""Ratings by one joint fit over all chosen games: the strength of each agent, the value of seat 0, the share of draws.

The model is that of ``analytics.statistics.davidson``. Intervals and the likelihood of superiority come from a
bootstrap over openings: all pairs with one opening are drawn together, because games that share an opening are not
independent. Elo is 400 / ln 10 times natural units.

Sources: B. Efron and R. Tibshirani, "An introduction to the bootstrap", 1993. For clusters: A. C. Davison and D. V.
Hinkley, "Bootstrap methods and their application", 1997, section 3.8.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from analytics.questions.columns import SEAT_ROLES, SEAT_ROLES_MOVER, format_elo, format_interval, format_percent
from analytics.questions.head_to_head import load_chosen_results, load_shared_openings, merge_results_by_agents
from analytics.questions.pairings import SharedOpenings
from analytics.questions.ranking import A_PERSON, FEW_GAMES, count_games_against_agents, list_unranked_reasons
from analytics.questions.rating_bootstrap import BootstrapPopulation, Tallies
from analytics.questions.selection import GameFilter
from analytics.questions.sql.database import OpenArchive
from analytics.statistics.davidson import FARTHEST_FINITE, DavidsonFit, SeatCounts, fit_davidson, transitive_closure
from analytics.statistics.tally import CONFIDENCE, Estimate, sum_tallies_by_key
from analytics.store.texts import format_count_with_noun
from quarto.errors import RequestError

ELO_PER_UNIT = 400 / math.log(10)  # Elo points for one natural unit
DECIMALS = 6  # of reported values; further digits may depend on the machine's linear algebra
SAMPLES = 200
MAX_NAMED = 10  # agents that a sentence names
LARGEST_EXPONENT = 300.0  # so that no power is too large for a float


@dataclass(frozen=True)
class Rating:
    """The rating and the rank of one agent."""

    agent: str
    # Relative to the anchor; infinite, or NaN without a chain of points to or from the anchor, or if the seat decides.
    elo: Estimate
    games: int
    group: int  # agents of different groups never met, not even through others: their ratings cannot be compared
    rank: int | None = None  # from 1, among the agents of its group that have one (``analytics.questions.ranking``)
    unranked: tuple[str, ...] = ()  # the reasons why the agent has no rank

    @property
    def has_finite_elo(self) -> bool:
        """Whether the rating is finite.

        The rating of an agent that won, or lost, all its games is infinite, for example.
        """
        return math.isfinite(self.elo.mean)


@dataclass(frozen=True)
class Ratings:
    """The ratings of all agents, sorted from best to worst within each group, with the largest group first."""

    ratings: tuple[Rating, ...]
    seat: Estimate  # the value of seat 0, in Elo; NaN if the games do not determine it
    draws: Estimate  # share of draws between equals
    superiority: NDArray[np.float64]  # [A, A] probability that row is above column; NaN across groups
    undecided_by_seat: tuple[str, ...] = ()  # agents without a rating because the seat decided every game between them
    forfeited: tuple[tuple[str, int], ...] = ()  # agents that forfeited all of their games, and how many: not rated
    met_only_forfeiting: tuple[str, ...] = ()  # agents that met only agents that forfeited everything: not rated

    @property
    def group_count(self) -> int:
        return len({rating.group for rating in self.ratings})

    @property
    def ranked(self) -> list[Rating]:
        """The ratings of the agents that have a rank, group by group, with the best of each group first."""
        return [rating for rating in self.ratings if rating.rank is not None]

    @property
    def agents_ranked_first(self) -> list[str]:
        """The labels of all agents: agents with a rank first, then agents without one, both parts sorted by rating."""
        return [rating.agent for rating in sorted(self.ratings, key=lambda rating: rating.rank is None)]

    def find_rating(self, agent: str) -> Rating | None:
        """Return the rating of an agent, or None if the agent is not rated."""
        return next((rating for rating in self.ratings if rating.agent == agent), None)

    def expect_score(self, agent: str, opponent: str, seat: int) -> float | None:
        """Return the score (0 to 1) that the fitted model expects of an agent in ``seat`` against an opponent.

        It is None if one of the two has no finite rating, or if their ratings cannot be compared.
        """
        own, other = self.find_rating(agent), self.find_rating(opponent)
        if own is None or other is None or own.group != other.group:
            return None
        advantage = self.seat.mean if seat == 0 else -self.seat.mean
        difference = (own.elo.mean - other.elo.mean + advantage) / ELO_PER_UNIT  # in natural units
        if not math.isfinite(difference) or not 0 <= self.draws.mean < 1:
            return None
        half = math.exp(min(abs(difference) / 2, LARGEST_EXPONENT))
        draw = 2 * self.draws.mean / (1 - self.draws.mean)  # exp of the draw parameter
        better = (half + draw / 2) / (half + draw + 1 / half)
        return better if difference >= 0 else 1 - better

    def to_frame(self) -> pl.DataFrame:
        """Return a row for each agent.

        Columns:

        - ``rank``, ``agent``, ``elo``, ``low``, ``high``, ``games``, ``group``, ``bounded``. ``elo``, ``low`` and
          ``high`` are infinite if the games set no bound on that side, and null if the games do not determine them;
        - ``group`` is numbered from 1, as in the titles of tables;
        - ``unranked``: the reasons why ``rank`` is null;
        - ``seat``: the advantage of giving the first piece, in Elo, and ``draws``: the share of draws between equally
          strong agents. Both are the same in all rows, and each has an interval, ``_low`` and ``_high``;
        - ``above LABEL`` for each agent: the probability that the row's agent is stronger than that agent, null if the
          two agents are in different groups or if there are no bootstrap samples.
        """
        agents = [rating.agent for rating in self.ratings]
        common = {"seat": self.seat, "draws": self.draws}
        columns: dict[str, list[object]] = {
            "rank": [rating.rank for rating in self.ratings],
            "agent": [*agents],
            **{name: [getattr(rating.elo, name) for rating in self.ratings] for name in ("mean", "low", "high")},
            "games": [rating.games for rating in self.ratings],
            "group": [rating.group + 1 for rating in self.ratings],
            "bounded": [rating.has_finite_elo for rating in self.ratings],
            "unranked": ["; ".join(rating.unranked) or None for rating in self.ratings],
            **{
                f"{name}{end}": [value] * len(agents)
                for name, estimate in common.items()
                for end, value in zip(("", "_low", "_high"), estimate, strict=True)
            },
            **{f"above {agent}": [*self.superiority[:, i].tolist()] for i, agent in enumerate(agents)},
        }
        integers, texts = ("rank", "games", "group"), ("agent", "unranked")
        kinds = dict.fromkeys(integers, pl.Int64()) | dict.fromkeys(texts, pl.String()) | {"bounded": pl.Boolean()}
        schema = {name: kinds.get(name, pl.Float64()) for name in columns}
        return pl.DataFrame(columns, schema=schema).fill_nan(None).rename({"mean": "elo"})

    def describe(self, mover_chooses: bool) -> list[str]:
        """Describe, in sentences, what a table of the ratings does not show.

        The sentences are about the value of the seat, the share of draws, groups without games between them, ratings
        without a bound, and agents without a rank or a rating. ``mover_chooses`` says whether the rules let the mover
        choose the piece.
        """
        lines = [self._describe_seat_and_draws(mover_chooses)]
        if self.group_count > 1:
            lines.append(
                f"{format_count_with_noun(self.group_count, 'group')} of agents have no games "
                "between them: compare ratings within a group only."
            )
        for text, agents in (
            (
                "won every point against the agents below it: its rating has no upper bound",
                self._list_agents_with_elo(math.inf),
            ),
            (
                "lost every point to the agents above it: its rating has no lower bound",
                self._list_agents_with_elo(-math.inf),
            ),
            (
                "cannot be rated: no chain of won points connects it with the others",
                [r.agent for r in self.ratings if math.isnan(r.elo.mean) and r.agent not in self.undecided_by_seat],
            ),
        ):
            lines += [f"{agent} {text}." for agent in agents]
        if self.undecided_by_seat:
            seat, level = int(self.seat.mean < 0), ", ".join(self.undecided_by_seat)
            lines.append(
                f"Seat {seat} won every game between {level}: these games do not show which of them is stronger."
            )
        return [*lines, *self._describe_people_and_few_games(), *self.unrated_sentences]

    def _describe_people_and_few_games(self) -> list[str]:
        """Describe which agents have no rank because they are people or have too few games.

        ``describe`` explains the other reasons.
        """
        members = {
            reason: [rating.agent for rating in self.ratings if reason in rating.unranked]
            for reason in (A_PERSON, FEW_GAMES)
        }
        return [
            f"Without a rank, {reason}: {_format_first_names(agents)}." for reason, agents in members.items() if agents
        ]

    @property
    def unrated_sentences(self) -> list[str]:
        """Sentences about the agents that have no rating, and why."""
        lines = [
            f"Not rated, forfeited every game: {agent} ({format_count_with_noun(games, 'game')})."
            for agent, games in self.forfeited
        ]
        agents = ", ".join(self.met_only_forfeiting)
        return [*lines, *([f"Not rated, met only these: {agents}."] if agents else [])]

    def _list_agents_with_elo(self, elo: float) -> list[str]:
        return [rating.agent for rating in self.ratings if rating.elo.mean == elo]

    def _describe_seat_and_draws(self, mover_chooses: bool) -> str:
        if math.isnan(self.seat.mean):
            return "The games do not determine the value of seat 0: no agent both won and lost points."
        seat, draws = (
            "not sampled" if math.isnan(estimate.low) else format_interval(estimate.low, estimate.high, format_value)
            for estimate, format_value in ((self.seat, format_elo), (self.draws, format_percent))
        )
        drawn = f"of games between equals {format_percent(self.draws.mean)} % are drawn ({draws})"
        first = (SEAT_ROLES_MOVER if mover_chooses else SEAT_ROLES)[0]
        return f"Seat 0, which {first}, is worth {format_elo(self.seat.mean)} Elo ({seat}); {drawn}."


def _format_first_names(agents: Sequence[str]) -> str:
    more = f" and {len(agents) - MAX_NAMED:,} more" if len(agents) > MAX_NAMED else ""
    return f"{', '.join(agents[:MAX_NAMED])}{more}"


def compute_ratings(
    opened: OpenArchive,
    where: str | None = None,
    rules: str | None = None,
    anchor: str | None = None,
    anchor_elo: float = 0.0,
    samples: int = SAMPLES,
    trainings: bool = False,
) -> Ratings:
    """Rate all agents in the games that meet ``where``, a condition on the view ``games``.

    All chosen games are counted, whichever agents are shown later. ``samples`` is the number of bootstrap samples for
    the confidence intervals; ratings and ranks do not depend on it. With 0 samples and no condition, no game is read,
    because the stored tallies suffice. ``compute_head_to_head`` and ``fit_ratings`` explain the other arguments and the
    errors.
    """
    chosen = load_chosen_results(opened, GameFilter(where, rules=rules, trainings=trainings))
    tallies = {
        (result.first, result.second): result.tally for result in merge_results_by_agents(chosen.results.values(), None)
    }
    shared = load_shared_openings(opened, where, chosen.records, chosen.results) if samples else None
    return fit_ratings(tallies, anchor, anchor_elo, samples=samples, shared=shared)


def fit_ratings(
    tallies: Tallies,
    anchor: str | None = None,
    anchor_elo: float = 0.0,
    samples: int = SAMPLES,
    seed: int = 1,
    shared: SharedOpenings | None = None,
) -> Ratings:
    """Fit the ratings of all agents together, from their tallies.

    Intervals come from ``samples`` bootstrap samples; with 0 samples, there are no intervals. A sample draws pairs of
    games or, if ``shared`` shows that several pairings played the same openings, these openings. Ratings are relative
    to ``anchor``, whose rating is ``anchor_elo``. In a group without the anchor, the mean of the bounded ratings is
    ``anchor_elo``. Games that say nothing about strength are left out: the games of an agent against itself, and the
    games of agents that forfeited every game.

    Raises ``RequestError`` if the anchor did not play, or if no two different agents played each other.
    """
    if not (math.isfinite(anchor_elo) and samples >= 0):
        raise RequestError(f"anchor_elo={anchor_elo:g} and samples={samples}: a finite rating and a count are needed")
    oriented_tallies = _orient_tallies_between_different_agents(tallies)
    forfeited = _find_always_forfeiting_agents(oriented_tallies)
    tallies = {agent_pair: tally for agent_pair, tally in oriented_tallies.items() if not forfeited.keys() & agent_pair}
    agents, everybody = (
        sorted({agent for agent_pair in agent_pairs for agent in agent_pair})
        for agent_pairs in (tallies, oriented_tallies)
    )
    if not agents:
        reason = f": {', '.join(forfeited)} forfeited every game" if forfeited else ": choose others, or play some"
        raise RequestError(f"there are no games between different agents{reason}")
    if anchor in forfeited:
        raise RequestError(f"anchor {anchor!r} forfeited every game: name one of {', '.join(agents)}")
    if anchor is not None and anchor not in agents:
        raise RequestError(f"anchor {anchor!r} played none of the games chosen: name one of {', '.join(agents)}")
    population = BootstrapPopulation.build(tallies, agents, shared)
    games = population.count_games(population.cells)
    rated = _RatedAgents(
        _compute_group_numbers(len(agents), games),
        _count_games_by_agent(len(agents), games),
        agents.index(anchor) if anchor else None,
    )
    fitted, dice = fit_davidson(len(agents), games), np.random.default_rng(seed)
    resampled_fits = [
        fit_davidson(len(agents), population.count_games(population.resample(dice)), fitted) for _ in range(samples)
    ]
    elos, resampled_elos = rated.compute_elos(fitted), [rated.compute_elos(fit) for fit in resampled_fits]
    order = _sort_by_strength(elos, fitted, rated.groups)
    undecided = fitted.seat_decides & rated.mark_multi_agent_reference_components(fitted)
    games_against_agents, ranks, ratings = count_games_against_agents(tallies), Counter[int](), []
    for i in order.tolist():
        agent, group = agents[i], int(rated.groups[i])
        elo = _estimate_interval(elos[i], [sample[i] for sample in resampled_elos]) if math.isfinite(elos[i]) else None
        anchored_elo = Estimate(
            *(value + anchor_elo for value in elo or _build_unbounded_estimate(float(elos[i]), samples))
        )
        unranked = list_unranked_reasons(agent, anchored_elo.mean, games_against_agents[agent], bool(undecided[i]))
        ranks[group] += not unranked
        rank = None if unranked else ranks[group]
        ratings.append(Rating(agent, anchored_elo, int(rated.games[i]), group, rank, unranked))
    return Ratings(
        tuple(ratings),
        _estimate_interval(fitted.seat * ELO_PER_UNIT, [fit.seat * ELO_PER_UNIT for fit in resampled_fits]),
        _estimate_interval(
            _compute_draw_share(fitted.draws), [_compute_draw_share(fit.draws) for fit in resampled_fits]
        ),
        _compute_superiority(fitted, resampled_fits, rated.groups)[np.ix_(order, order)],
        tuple(agents[i] for i in order if undecided[i]),
        tuple(forfeited.items()),
        tuple(agent for agent in everybody if agent not in agents and agent not in forfeited),
    )


def _find_always_forfeiting_agents(tallies: Tallies) -> dict[str, int]:
    """Return the agents that forfeited all of their games, each with its number of games."""
    games, forfeits = Counter[str](), Counter[str]()
    for agent_pair, tally in tallies.items():
        for agent, number in zip(agent_pair, tally.forfeits, strict=True):
            games[agent] += tally.games
            forfeits[agent] += number
    return {agent: number for agent, number in sorted(games.items()) if forfeits[agent] == number}


def _orient_tallies_between_different_agents(tallies: Tallies) -> Tallies:
    """Return the tallies between different agents, sorted, each with its two agents in alphabetical order.

    The bootstrap then depends on the games alone, not on the order of the tallies or of the agents in them.
    """
    oriented_tallies = sum_tallies_by_key(
        ((first, second), tally) if first < second else ((second, first), tally.with_agents_swapped)
        for (first, second), tally in tallies.items()
        if first != second and tally.games
    )
    return dict(sorted(oriented_tallies.items()))


@dataclass(frozen=True)
class _RatedAgents:
    """The agents of a fit, with their groups and the agent or agents to which ratings are relative.

    The agents of one group met directly or through others. Ratings have finite differences only within a component: a
    set in which each agent is connected to each other one by a chain of agents, each of which scored at least half a
    point against the next.
    """

    groups: NDArray[np.int64]  # [A]
    games: NDArray[np.int64]  # [A] games
    anchor: int | None

    def compute_elos(self, fitted: DavidsonFit) -> NDArray[np.float64]:
        """Compute the Elo of each agent, [A], relative to the reference of its group.

        The reference is the anchor or, in a group without the anchor, the mean of the group's reference component (see
        ``_find_reference_component``). If the same seat won every game between agents of the same component, the games
        say nothing about strength: then the Elos in a reference component with more than one agent are NaN.
        """
        elos = np.empty(len(self.groups))
        for group in range(self.groups.max() + 1):
            members = np.flatnonzero(self.groups == group)
            reference = self._find_reference_component(members, fitted.above)
            centre = fitted.strengths[reference if self.anchor not in reference else self.anchor].mean()
            differences = fitted.strengths[members] - centre
            differences = np.where(np.abs(differences) > FARTHEST_FINITE, np.copysign(np.inf, differences), differences)
            if fitted.seat_decides and len(reference) > 1:
                differences[:] = math.nan
            to_reference, from_reference = fitted.above[members, reference[0]], fitted.above[reference[0], members]
            outside = np.where(to_reference, np.inf, np.where(from_reference, -np.inf, np.nan))
            elos[members] = np.where(to_reference & from_reference, differences, outside)
        return np.round(elos * ELO_PER_UNIT, DECIMALS)

    def mark_multi_agent_reference_components(self, fitted: DavidsonFit) -> NDArray[np.bool_]:
        """Return, as an array [A], whether each agent is in a reference component with more than one agent.

        ``_RatedAgents`` says what a component is. The ratings of a group are relative to its reference component.
        """
        is_reference = np.zeros(len(self.groups), np.bool_)
        for group in range(self.groups.max() + 1):
            reference = self._find_reference_component(np.flatnonzero(self.groups == group), fitted.above)
            is_reference[reference] = len(reference) > 1
        return is_reference

    def _find_reference_component(self, members: NDArray[np.int64], above: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Return the indices of the agents in the component to which a group's ratings are relative.

        This is the anchor's component or, in a group without the anchor, the largest one. If several components tie
        for the largest, the one with the agent that has the most games is taken. ``members`` are the indices of the
        group's agents, and ``above`` is ``DavidsonFit.above``.
        """
        is_connected = above & above.T
        sizes = is_connected[members].sum(axis=1)
        seed = members[np.lexsort((-self.games[members], -sizes))[0]]
        return np.flatnonzero(is_connected[self.anchor if self.anchor in members else seed])


def _compute_group_numbers(agent_count: int, games: SeatCounts) -> NDArray[np.int64]:
    """Compute the number of each agent's group, [A]; group 0 is the largest.

    Games connect the agents of a group, directly or through other agents.
    """
    has_met = np.zeros((agent_count, agent_count), np.bool_)
    has_met[games.zero, games.one] = has_met[games.one, games.zero] = True
    roots = transitive_closure(has_met).argmax(axis=1)
    sizes = np.bincount(roots, minlength=agent_count)
    by_size = sorted(set(roots.tolist()), key=lambda root: (-sizes[root], root))
    return np.array([by_size.index(root) for root in roots.tolist()])


def _count_games_by_agent(agent_count: int, games: SeatCounts) -> NDArray[np.int64]:
    total = games.counts.sum(axis=1)
    played = np.bincount(games.zero, total, agent_count) + np.bincount(games.one, total, agent_count)
    return played.astype(np.int64)


def _sort_by_strength(elos: NDArray[np.float64], fitted: DavidsonFit, groups: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the indices of the agents, [A], group by group, with the best agent of each group first.

    Agents without a bounded rating are sorted by the results of their own games.
    """
    strengths = np.where(np.isnan(elos), 0.0, np.round(fitted.strengths, DECIMALS))
    below = np.where(np.isnan(elos), 0, fitted.above.sum(axis=1))
    return np.lexsort((-strengths, -below, np.nan_to_num(-elos, nan=np.inf, posinf=np.inf, neginf=-np.inf), groups))


def _compute_superiority(
    fitted: DavidsonFit, resampled_fits: Sequence[DavidsonFit], groups: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Compute the share of bootstrap samples in which the row's agent is stronger than the column's agent, [A, A].

    A sample in which the two agents are equally strong or not comparable counts as half. If two agents are not
    comparable even by all games together, their share is 1/2, whatever the samples say. The share is NaN if the two
    agents are in different groups, and everywhere if there are no samples.
    """
    points = np.zeros((len(groups), len(groups)))
    for sample in resampled_fits:
        points += _compare_agents(sample)
    shares = points / len(resampled_fits) if resampled_fits else np.full_like(points, np.nan)
    shares[~_is_order_determined(fitted)] = 0.5 if resampled_fits else np.nan
    shares[groups[:, None] != groups] = np.nan
    return shares


def _is_order_determined(fitted: DavidsonFit) -> NDArray[np.bool_]:
    """Return, as an array [A, A], whether the games determine which agent is stronger: the row's or the column's."""
    above, below = fitted.above, fitted.above.T
    return (above | below) & ~(above & below & fitted.seat_decides)


def _compare_agents(fitted: DavidsonFit) -> NDArray[np.float64]:
    """Compare each pair of agents, [A, A]: 1 if the row's agent is stronger than the column's agent, 0 if it is weaker.

    The value is 1/2 if the two agents are equally strong, or if the games do not show which one is stronger.
    """
    strengths = np.round(fitted.strengths * ELO_PER_UNIT, DECIMALS)
    within = fitted.above & fitted.above.T
    ahead = np.where(within, np.sign(strengths[:, None] - strengths), fitted.above * 1.0 - fitted.above.T)
    return 0.5 + np.where(_is_order_determined(fitted), ahead, 0.0) / 2


def _build_unbounded_estimate(elo: float, samples: int) -> Estimate:
    """Build the estimate of a rating without a bound: ``elo`` is infinite or NaN.

    The interval is the single point ``elo``, because the rating has no bound in any bootstrap sample either. If the
    number of bootstrap samples, ``samples``, is 0, the interval is NaN.
    """
    return Estimate(elo, *(elo if samples else math.nan,) * 2)


def _estimate_interval(value: float, samples: Sequence[float]) -> Estimate:
    """Build the estimate of ``value`` with an interval from bootstrap samples.

    NaN samples are left out; if no other samples remain, the interval is NaN.
    """
    defined_samples = np.array([sample for sample in samples if not math.isnan(sample)])
    tails = [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2]
    # No interpolation between two samples: one may be infinite.
    low, high = (
        np.quantile(defined_samples, tails, method="inverted_cdf").tolist() if len(defined_samples) else (math.nan,) * 2
    )
    return Estimate(*(round(float(number), DECIMALS) for number in (value, low, high)))


def _compute_draw_share(draw_parameter: float) -> float:
    """Compute the share of draws between equally strong agents from Davidson's draw parameter.

    The share holds for games in which the seat has no effect.
    """
    return math.exp(draw_parameter) / (2 + math.exp(draw_parameter))
