"""Results of a run, from the tallies of its stored ranges: no game is read, however many there are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

import polars as pl

from analytics.statistics.intervals import Estimate, mean_score, score, win_rate
from analytics.statistics.tally import Row, Tally
from analytics.store.archive import Archive, unknown_run
from analytics.store.range_files import read_tallies

if TYPE_CHECKING:
    from analytics.results.shared_openings import SharedOpenings
    from analytics.statistics.tally import Clusters


@dataclass(frozen=True)
class PairingResult:
    """The results of one pairing, from the perspective of its first agent."""

    pairing: int
    first: str  # label
    second: str  # label
    tally: Tally
    by_pairs: bool  # the games of a pair share an opening, so variances are over pairs
    clusters: Clusters | None = None  # where the two met again on the same openings: variances are over openings

    @property
    def games(self) -> int:
        return self.tally.games

    @property
    def wins(self) -> int:
        return self.tally.wins

    @property
    def draws(self) -> int:
        return self.tally.draws

    @property
    def losses(self) -> int:
        return self.tally.losses

    def in_seat(self, seat: int) -> Row:
        """The first agent's (losses, draws, wins) in ``seat``, which it holds in game ``seat`` of each pair."""
        return self.tally.results(seat)

    @property
    def win_rate(self) -> Estimate:
        """Share of games won by the first agent, with Wilson's interval."""
        return win_rate(self.tally, self.by_pairs, self.clusters)

    @property
    def score(self) -> Estimate:
        """Mean score of the first agent (win 1, draw 1/2) with its normal interval."""
        return score(self.tally, self.by_pairs, self.clusters)

    @property
    def forfeits(self) -> tuple[int, int]:
        """Games forfeited by the first and by the second agent, by an illegal turn, an exception or a late turn."""
        return self.tally.forfeits

    @property
    def mean_plies(self) -> float:
        """Plies a game, imposed ones included."""
        return self.tally.plies / self.games


def results(archive: Archive, run_id: str) -> list[PairingResult]:
    """The pairings of a run that have games, in the run's order.

    Raises ``RequestError`` for a run that is not in the archive, ``FailureError`` for a damaged record.
    """
    record = archive.run(run_id)
    if record is None:
        raise unknown_run(archive, run_id, archive.run_ids())
    labels = record.pairings
    return [
        PairingResult(pairing, *labels[pairing], tally, record.by_pairs)
        for pairing, tally in read_tallies(archive, run_id).items()
        if pairing < len(labels)
    ]


def pairings_frame(found: Sequence[PairingResult]) -> pl.DataFrame:
    """A row a result, as its first agent sees it.

    Columns: ``first``, ``second``, ``games``, ``wins``, ``draws``, ``losses``; ``score`` and ``win_rate`` as shares,
    with ``_low`` and ``_high``; ``first_forfeits``, ``second_forfeits``.
    """
    rows = [
        (
            *(each.first, each.second, each.games, each.wins, each.draws, each.losses),
            *(*each.score, *each.win_rate, *each.forfeits),
        )
        for each in found
    ]
    shares = [f"{share}{end}" for share in ("score", "win_rate") for end in ("", "_low", "_high")]
    schema = dict.fromkeys(("first", "second"), pl.String()) | {
        **dict.fromkeys(("games", "wins", "draws", "losses"), pl.Int64()),
        **dict.fromkeys(shares, pl.Float64()),
        **dict.fromkeys(("first_forfeits", "second_forfeits"), pl.Int64()),
    }
    return pl.DataFrame(rows, schema=schema, orient="row")


@dataclass(frozen=True)
class Standing:
    """The results of one agent over all pairings with other agents."""

    agent: str  # label
    games: int
    wins: int
    draws: int
    losses: int
    forfeits: int
    score: Estimate
    against: dict[str, float]  # mean score by opponent's label


@dataclass(frozen=True)
class Crosstable:
    """The agents of a tournament, best score first."""

    standings: tuple[Standing, ...]

    @property
    def agents(self) -> tuple[str, ...]:
        return tuple(standing.agent for standing in self.standings)

    def frame(self) -> pl.DataFrame:
        """One row an agent: its score with interval, its counts, and its mean score against each other agent.

        The mean scores are in columns named ``v `` and the other's label; null where the two did not meet.
        """
        rows = [
            {
                "agent": standing.agent,
                **dict(zip(("score", "low", "high"), standing.score, strict=True)),
                **{name: getattr(standing, name) for name in ("games", "wins", "draws", "losses", "forfeits")},
                **{f"v {agent}": standing.against.get(agent) for agent in self.agents},
            }
            for standing in self.standings
        ]
        counts = dict.fromkeys(("games", "wins", "draws", "losses", "forfeits"), pl.Int64)
        schema = {"agent": pl.String, **dict.fromkeys(("score", "low", "high"), pl.Float64), **counts}
        return pl.DataFrame(rows, schema={**schema, **{f"v {agent}": pl.Float64 for agent in self.agents}})


def crosstable(pairing_results: Sequence[PairingResult], shared: SharedOpenings | None = None) -> Crosstable:
    """The crosstable of all pairings. Games of an agent against itself are left out.

    With ``shared``, intervals are over openings: all pairs of an agent with the same opening are one unit, whoever the
    opponent was. Without it, pairs of different pairings count as independent, which they are not if pairings share
    openings.
    """
    meetings: dict[str, dict[str, Tally]] = {}
    for result in pairing_results:
        for agent, opponent, tally in (
            (result.first, result.second, result.tally),
            (result.second, result.first, result.tally.swapped),
        ):
            met = meetings.setdefault(agent, {})
            if agent != opponent:
                met[opponent] = met.get(opponent, Tally()) + tally
    by_pairs = any(result.by_pairs for result in pairing_results)
    standings = [_standing(agent, met, by_pairs, shared) for agent, met in meetings.items()]
    return Crosstable(tuple(sorted(standings, key=lambda standing: (-standing.score.mean, standing.agent))))


def _standing(agent: str, met: dict[str, Tally], by_pairs: bool, shared: SharedOpenings | None) -> Standing:
    total = reduce(Tally.__add__, met.values(), Tally())
    return Standing(
        agent,
        total.games,
        total.wins,
        total.draws,
        total.losses,
        total.forfeits[0],
        score(total, by_pairs, shared.of_agent(agent, total) if shared else None),
        {opponent: mean_score(tally.trinomial).mean for opponent, tally in met.items()},
    )
