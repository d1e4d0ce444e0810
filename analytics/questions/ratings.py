"""Ratings by one joint fit over all chosen games: strength of each agent, value of the first seat, frequency of draws.

The model is ``analytics.statistics.davidson``'s. Intervals and the likelihood of superiority come from a bootstrap over
openings. Games that share an opening are not independent, so all pairs with one opening are drawn together. Elo is 400
/ ln 10 times natural units.

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
from quarto.errors import RequestError

ELO_PER_UNIT = 400 / math.log(10)  # Elo points for one natural unit
DECIMALS = 6  # of reported values: further ones may depend on the machine's linear algebra
SAMPLES = 200
MAX_NAMED = 10  # agents of a sentence


@dataclass(frozen=True)
class Rating:
    """The rating of one agent."""

    agent: str
    # Relative to the anchor; infinite, or NaN without a chain of points to or from the anchor, or if the seat decides.
    elo: Estimate
    games: int
    group: int  # agents of different groups never met, not even through others: their ratings cannot be compared
    rank: int | None = None  # from 1, among the agents of its group that have one (``analytics.questions.ranking``)
    unranked: tuple[str, ...] = ()  # why it has no rank

    @property
    def bounded(self) -> bool:
        """Whether the games give a finite rating; they do not for an agent that won, or lost, all its games."""
        return math.isfinite(self.elo.mean)


@dataclass(frozen=True)
class Ratings:
    """The result of the fit: agents from best to worst within each group, larger groups first."""

    ratings: tuple[Rating, ...]
    seat: Estimate  # the value of seat 0, in Elo; NaN if the games do not determine it
    draws: Estimate  # share of draws between equals
    superiority: NDArray[np.float64]  # [A, A] probability that row is above column; NaN across groups
    undecided_by_seat: tuple[str, ...] = ()  # agents without a rating because the seat decided every game between them
    forfeited: tuple[tuple[str, int], ...] = ()  # agents that forfeited all of their games, and how many: not rated
    met_only_forfeiting: tuple[str, ...] = ()  # agents that met only those: not rated

    @property
    def group_count(self) -> int:
        return len({rating.group for rating in self.ratings})

    @property
    def ranked(self) -> list[Rating]:
        """The agents with a rank, best first, group by group."""
        return [rating for rating in self.ratings if rating.rank is not None]

    @property
    def best_first(self) -> list[str]:
        """All agents: those with a rank, then the others, each in the order of their ratings."""
        return [rating.agent for rating in sorted(self.ratings, key=lambda rating: rating.rank is None)]

    def find_rating(self, agent: str) -> Rating | None:
        """The rating of an agent; None if it is not rated."""
        return next((rating for rating in self.ratings if rating.agent == agent), None)

    def to_frame(self) -> pl.DataFrame:
        """A row an agent: ``rank``, ``agent``, ``elo``, ``low``, ``high``, ``games``, ``group``, ``bounded``.

        Then ``unranked``, which says why ``rank`` is null. ``elo``, ``low`` and ``high`` are infinite where the games
        set no bound on that side, and null where they tell nothing.

        Then ``seat`` and ``draws``, the same in all rows, each with ``_low`` and ``_high``. Then a column
        ``above LABEL`` for each agent: the probability that the row's agent is above that one, null across groups.
        """
        agents = [rating.agent for rating in self.ratings]
        common = {"seat": self.seat, "draws": self.draws}
        columns: dict[str, list[object]] = {
            "rank": [rating.rank for rating in self.ratings],
            "agent": [*agents],
            **{name: [getattr(rating.elo, name) for rating in self.ratings] for name in ("mean", "low", "high")},
            **{name: [getattr(rating, name) for rating in self.ratings] for name in ("games", "group", "bounded")},
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
        """Sentences beside a table of the ratings: the seat, draws, what stays unknown, agents without a rating."""
        lines = [self._describe_seat_and_draws(mover_chooses)]
        if self.group_count > 1:
            lines.append(
                f"{self.group_count} groups of agents have no games between them: compare ratings within a group only."
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
        return [*lines, *self._describe_unranked(), *self.unrated_sentences]

    def _describe_unranked(self) -> list[str]:
        """Sentences on agents without a rank, but for those whose rating has no bound: others are about these."""
        members = {
            reason: [rating.agent for rating in self.ratings if reason in rating.unranked]
            for reason in (A_PERSON, FEW_GAMES)
        }
        return [f"Without a rank, {reason}: {_list_names(agents)}." for reason, agents in members.items() if agents]

    @property
    def unrated_sentences(self) -> list[str]:
        """Sentences on agents that have no rating."""
        lines = [f"Not rated, forfeited every game: {agent} ({games:,} games)." for agent, games in self.forfeited]
        alone = ", ".join(self.met_only_forfeiting)
        return [*lines, *([f"Not rated, met only these: {alone}."] if alone else [])]

    def _list_agents_with_elo(self, elo: float) -> list[str]:
        return [rating.agent for rating in self.ratings if rating.elo.mean == elo]

    def _describe_seat_and_draws(self, mover_chooses: bool) -> str:
        if math.isnan(self.seat.mean):
            return "The games do not determine the value of seat 0: no agent both won and lost points."
        seat, draws = (
            "not sampled" if math.isnan(each.low) else format_interval(each.low, each.high, form)
            for each, form in ((self.seat, format_elo), (self.draws, format_percent))
        )
        drawn = f"of games between equals {format_percent(self.draws.mean)} % are drawn ({draws})"
        first = (SEAT_ROLES_MOVER if mover_chooses else SEAT_ROLES)[0]
        return f"Seat 0, which {first}, is worth {format_elo(self.seat.mean)} Elo ({seat}); {drawn}."


def _list_names(agents: Sequence[str]) -> str:
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
    """Rate all agents in the games that a condition on the view ``games`` chooses.

    The population is all chosen games, whichever agents are shown afterwards. Ratings and ranks do not depend on
    ``samples``; without samples no game is read. See ``compute_head_to_head`` and ``fit_ratings``.
    """
    chosen = load_chosen_results(opened, GameFilter(where, rules=rules, trainings=trainings))
    tallies = {(each.first, each.second): each.tally for each in merge_results_by_agents(chosen.results.values(), None)}
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
    """Fit the tallies of all agents together; intervals come from ``samples`` bootstrap samples.

    The samples draw pairs, and openings where ``shared`` has openings that several pairings played. Without samples
    there are no intervals. Ratings are relative to ``anchor``, whose rating is ``anchor_elo``; in a group without the
    anchor the mean of the bounded ratings is ``anchor_elo``. Games without information about strength are left out:
    those of an agent against itself, and those of agents that forfeited every game.

    Raises ``RequestError`` for an anchor that did not play, and when no two different agents played each other.
    """
    if not (math.isfinite(anchor_elo) and samples >= 0):
        raise RequestError(f"anchor_elo={anchor_elo:g} and samples={samples}: a finite rating and a count are needed")
    met = _select_and_orient_tallies(tallies)
    forfeited = _find_always_forfeiting_agents(met)
    tallies = {both: tally for both, tally in met.items() if not forfeited.keys() & both}
    agents, everybody = (sorted({agent for both in each for agent in both}) for each in (tallies, met))
    if not agents:
        why = f": {', '.join(forfeited)} forfeited every game" if forfeited else ": choose others, or play some"
        raise RequestError(f"there are no games between different agents{why}")
    if anchor in forfeited:
        raise RequestError(f"anchor {anchor!r} forfeited every game: name one of {', '.join(agents)}")
    if anchor is not None and anchor not in agents:
        raise RequestError(f"anchor {anchor!r} played none of the games chosen: name one of {', '.join(agents)}")
    pairs = BootstrapPopulation.build(tallies, agents, shared)
    games = pairs.count_games(pairs.cells)
    rated = _RatedAgents(
        _compute_group_numbers(len(agents), games),
        _count_games_by_agent(len(agents), games),
        agents.index(anchor) if anchor else None,
    )
    fitted, dice = fit_davidson(len(agents), games), np.random.default_rng(seed)
    again = [fit_davidson(len(agents), pairs.count_games(pairs.resample(dice)), fitted) for _ in range(samples)]
    elos, drawn = rated.compute_elos(fitted), [rated.compute_elos(each) for each in again]
    order = _sort_by_strength(elos, fitted, rated.groups)
    undecided = fitted.seat_decides & rated.mark_reference_agents(fitted)
    games_against_agents, ranks, found = count_games_against_agents(tallies), Counter[int](), []
    for i in order.tolist():
        agent, group = agents[i], int(rated.groups[i])
        elo = _estimate_interval(elos[i], [each[i] for each in drawn]) if math.isfinite(elos[i]) else None
        moved = Estimate(*(value + anchor_elo for value in elo or _build_unbounded_estimate(float(elos[i]), samples)))
        unranked = list_unranked_reasons(agent, moved.mean, games_against_agents[agent], bool(undecided[i]))
        ranks[group] += not unranked
        rank = None if unranked else ranks[group]
        found.append(Rating(agent, moved, int(rated.games[i]), group, rank, unranked))
    return Ratings(
        tuple(found),
        _estimate_interval(fitted.seat * ELO_PER_UNIT, [each.seat * ELO_PER_UNIT for each in again]),
        _estimate_interval(_compute_draw_share(fitted.draws), [_compute_draw_share(each.draws) for each in again]),
        _compute_superiority(fitted, again, rated.groups)[np.ix_(order, order)],
        tuple(agents[i] for i in order if undecided[i]),
        tuple(forfeited.items()),
        tuple(agent for agent in everybody if agent not in agents and agent not in forfeited),
    )


def _find_always_forfeiting_agents(tallies: Tallies) -> dict[str, int]:
    """The agents that forfeited all of their games, and how many these are."""
    games, forfeits = Counter[str](), Counter[str]()
    for both, tally in tallies.items():
        for agent, number in zip(both, tally.forfeits, strict=True):
            games[agent] += tally.games
            forfeits[agent] += number
    return {agent: number for agent, number in sorted(games.items()) if forfeits[agent] == number}


def _select_and_orient_tallies(tallies: Tallies) -> Tallies:
    """The tallies that are rated, in a fixed order and orientation: the bootstrap then depends on the games alone."""
    found = sum_tallies_by_key(
        ((first, second), tally) if first < second else ((second, first), tally.with_agents_swapped)
        for (first, second), tally in tallies.items()
        if first != second and tally.games
    )
    return dict(sorted(found.items()))


@dataclass(frozen=True)
class _RatedAgents:
    """The agents of a fit: their groups, and the agents that the ratings are relative to."""

    groups: NDArray[np.int64]  # [A]
    games: NDArray[np.int64]  # [A] games
    anchor: int | None

    def compute_elos(self, fitted: DavidsonFit) -> NDArray[np.float64]:
        """[A] Elo relative to a reference in each agent's group: the anchor or, without it, the mean of a component.

        NaN for the agents of a reference component in which the seat decided every game.
        """
        elos = np.empty(len(self.groups))
        for group in range(self.groups.max() + 1):
            members = np.flatnonzero(self.groups == group)
            reference = self._find_reference_component(members, fitted.above)
            centre = fitted.strengths[reference if self.anchor not in reference else self.anchor].mean()
            over = fitted.strengths[members] - centre
            over = np.where(np.abs(over) > FARTHEST_FINITE, np.copysign(np.inf, over), over)
            if fitted.seat_decides and len(reference) > 1:
                over[:] = math.nan
            to_reference, from_reference = fitted.above[members, reference[0]], fitted.above[reference[0], members]
            outside = np.where(to_reference, np.inf, np.where(from_reference, -np.inf, np.nan))
            elos[members] = np.where(to_reference & from_reference, over, outside)
        return np.round(elos * ELO_PER_UNIT, DECIMALS)

    def mark_reference_agents(self, fitted: DavidsonFit) -> NDArray[np.bool_]:
        """[A] whether an agent belongs to a reference component of more than one agent."""
        found = np.zeros(len(self.groups), np.bool_)
        for group in range(self.groups.max() + 1):
            reference = self._find_reference_component(np.flatnonzero(self.groups == group), fitted.above)
            found[reference] = len(reference) > 1
        return found

    def _find_reference_component(self, members: NDArray[np.int64], above: NDArray[np.bool_]) -> NDArray[np.int64]:
        """The component that a group's ratings are relative to: the anchor's, or the largest and most active."""
        both = above & above.T
        sizes = both[members].sum(axis=1)
        seed = members[np.lexsort((-self.games[members], -sizes))[0]]
        return np.flatnonzero(both[self.anchor if self.anchor in members else seed])


def _compute_group_numbers(agent_count: int, games: SeatCounts) -> NDArray[np.int64]:
    """The number of each agent's group, 0 the largest: agents joined by games, directly or through others."""
    met = np.zeros((agent_count, agent_count), np.bool_)
    met[games.zero, games.one] = met[games.one, games.zero] = True
    roots = transitive_closure(met).argmax(axis=1)
    sizes = np.bincount(roots, minlength=agent_count)
    by_size = sorted(set(roots.tolist()), key=lambda root: (-sizes[root], root))
    return np.array([by_size.index(root) for root in roots.tolist()])


def _count_games_by_agent(agent_count: int, games: SeatCounts) -> NDArray[np.int64]:
    total = games.counts.sum(axis=1)
    played = np.bincount(games.zero, total, agent_count) + np.bincount(games.one, total, agent_count)
    return played.astype(np.int64)


def _sort_by_strength(elos: NDArray[np.float64], fitted: DavidsonFit, groups: NDArray[np.int64]) -> NDArray[np.int64]:
    """[A] indices of agents, best first in each group; of those without a bound, as far as their own games tell."""
    strengths = np.where(np.isnan(elos), 0.0, np.round(fitted.strengths, DECIMALS))
    below = np.where(np.isnan(elos), 0, fitted.above.sum(axis=1))
    return np.lexsort((-strengths, -below, np.nan_to_num(-elos, nan=np.inf, posinf=np.inf, neginf=-np.inf), groups))


def _compute_superiority(
    fitted: DavidsonFit, again: Sequence[DavidsonFit], groups: NDArray[np.int64]
) -> NDArray[np.float64]:
    """[A, A] the share of samples in which row is above column; equal or incomparable agents count as half.

    Half too where all games together do not tell, whatever a sample of them says. NaN across groups, and without
    samples.
    """
    points = np.zeros((len(groups), len(groups)))
    for sample in again:
        points += _compare_agents(sample)
    shares = points / len(again) if again else np.full_like(points, np.nan)
    shares[~_can_compare(fitted)] = 0.5 if again else np.nan
    shares[groups[:, None] != groups] = np.nan
    return shares


def _can_compare(fitted: DavidsonFit) -> NDArray[np.bool_]:
    """[A, A] whether the games tell which of two agents is above the other."""
    above, below = fitted.above, fitted.above.T
    return (above | below) & ~(above & below & fitted.seat_decides)


def _compare_agents(fitted: DavidsonFit) -> NDArray[np.float64]:
    """[A, A] 1 where row is above column, 0 where it is below, half where they are equal or cannot be compared."""
    strengths = np.round(fitted.strengths * ELO_PER_UNIT, DECIMALS)
    within = fitted.above & fitted.above.T
    ahead = np.where(within, np.sign(strengths[:, None] - strengths), fitted.above * 1.0 - fitted.above.T)
    return 0.5 + np.where(_can_compare(fitted), ahead, 0.0) / 2


def _build_unbounded_estimate(elo: float, samples: int) -> Estimate:
    """A rating without a bound and its interval, which is no wider: no sample of the games can set the bound."""
    return Estimate(elo, *(elo if samples else math.nan,) * 2)


def _estimate_interval(value: float, samples: Sequence[float]) -> Estimate:
    """A value with the interval of its samples. NaN samples are left out; without samples the interval is NaN."""
    known = np.array([sample for sample in samples if not math.isnan(sample)])
    tails = [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2]
    # No interpolation between two samples: one may be infinite.
    low, high = np.quantile(known, tails, method="inverted_cdf").tolist() if len(known) else (math.nan,) * 2
    return Estimate(*(round(float(number), DECIMALS) for number in (value, low, high)))


def _compute_draw_share(draw_parameter: float) -> float:
    """The share of draws between equals if the seat made no difference."""
    return math.exp(draw_parameter) / (2 + math.exp(draw_parameter))
