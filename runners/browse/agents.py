"""One agent: its rating, its results against each opponent, its regret by ply, its worst mistakes."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from analytics.query.game_filter import GameFilter
from analytics.query.mistakes import decision_summaries, judged_agents
from analytics.ratings.head_to_head import HeadToHead, head_to_head
from analytics.ratings.ratings import rate
from analytics.report.content import PageTable, linked
from analytics.results.columns import count, decision_columns, elo, pairing_columns
from analytics.results.pairings import PairingResult, pairings_frame
from analytics.sql.database import OpenArchive
from analytics.sql.views import among
from quarto.errors import NotFoundError, RequestError, nearest
from runners.browse import links
from runners.browse.runs import chosen_records, known, run_rows
from runners.browse.sections import worst


class Ranked(NamedTuple):
    """An agent among all others under its rules."""

    agent: str
    rank: int  # from 1
    of: int  # agents that are rated
    elo: str


class OneAgent(NamedTuple):
    """An agent under some rules."""

    agent: str
    rules: str
    rules_played: tuple[str, ...]
    ranked: Ranked | None
    opponents: PageTable
    regret: PageTable | None
    worst: PageTable | None


def ranking(opened: OpenArchive, rules: str) -> tuple[Ranked, ...]:
    """The agents under some rules, best first, those that the games rate. Trainings are left out."""
    try:
        met = head_to_head(opened, GameFilter(rules=rules))
    except RequestError:  # all of these games are those of trainings, or nobody met another agent
        return ()
    rated = [each for each in rate(met.tallies, samples=0).ratings if each.elo.mean == each.elo.mean]
    return tuple(Ranked(each.agent, rank, len(rated), elo(each.elo.mean)) for rank, each in enumerate(rated, 1))


def one_agent(opened: OpenArchive, agent: str, rules: str = "") -> OneAgent:
    """An agent by its label. Raises ``NotFoundError`` if it has not played, by these rules if they are named."""
    rows = [row for row in run_rows(opened) if agent in row.agents]
    played = known(rows).rules
    if not played or (rules and rules not in played):
        where = f" under {rules} rules" if played else nearest(agent, known(run_rows(opened)).agents)
        raise NotFoundError(f"agent {agent!r} has not played in this archive{where}")
    rules = rules or played[0]
    wanted = GameFilter(rules=rules, agent=agent, trainings=True)
    found = next((each for each in ranking(opened, rules) if each.agent == agent), None)
    regret = _regret(opened, wanted)
    opponents = _opponents(head_to_head(opened, wanted), agent)
    return OneAgent(agent, rules, played, found, opponents, regret, regret and worst(opened, wanted))


def _opponents(met: HeadToHead, agent: str) -> PageTable:
    """The results as one agent sees them, a row an opponent, the most games first."""
    seen = sorted((_seen_by(agent, each, met) for each in met.results), key=lambda each: -each.games)
    opponents = [each.second for each in seen]
    counts = [count(each.games) for each in seen]
    games = [links.games_page(agent=agent, opponent=opponent, rules=met.rules) for opponent in opponents]
    columns = [
        linked("opponent", opponents, [links.agent_page(each, met.rules) for each in opponents]),
        linked("games", counts, games, right=True),
        *(each for each in pairing_columns(pairings_frame(seen))[2:] if each.heading != "games"),
    ]
    return PageTable.of(f"Results of {agent}, in %", columns)


def _seen_by(agent: str, result: PairingResult, met: HeadToHead) -> PairingResult:
    if result.first == agent:
        return result
    tally = result.tally.swapped
    clusters = met.shared.of_meeting(agent, result.first, tally) if met.shared else None
    return replace(result, first=agent, second=result.first, tally=tally, clusters=clusters)


def _regret(opened: OpenArchive, wanted: GameFilter) -> PageTable | None:
    """Regret by ply; None if no decision of the agent is annotated."""
    records = chosen_records(opened, wanted)
    runs = among(record.run_id for record in records)
    names = judged_agents(opened, runs)
    frame = decision_summaries(opened, runs, True, names)
    own = frame.filter(frame["agent"] == wanted.agent)
    if own.is_empty():
        return None
    return PageTable.of("Regret in half-points by ply, and blunders", decision_columns(own)[1:])
