"""The rule that decides which rated agents have a rank, for every list of best agents.

A rating says how strong an agent is, as far as its games tell. A rank says that the agent may stand in a list of the
best. So a rank needs more: an agent that is no person, enough games against other agents, and a rating with a bound.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping

from analytics.statistics.tally import Tally
from analytics.store.records import is_person

MIN_RANKED_GAMES = 100  # against other agents: the 95 % interval of fewer is wider than 70 Elo on either side

RANKING_RULE = (
    f"an agent has a rank if it has at least {MIN_RANKED_GAMES} games against other agents and its rating has a bound; "
    "people have none"
)
A_PERSON, FEW_GAMES = "a person", f"fewer than {MIN_RANKED_GAMES} games against other agents"
WON_ALL, LOST_ALL = "won every point", "lost every point"
NO_CHAIN, BY_SEAT = "no chain of won points", "the seat won every game"


def count_games_against_agents(tallies: Mapping[tuple[str, str], Tally]) -> Counter[str]:
    """Count each agent's games against other agents, leaving out games against people and games against itself."""
    games = Counter[str]()
    for (first, second), tally in tallies.items():
        if first != second and not (is_person(first) or is_person(second)):
            games[first] += tally.games
            games[second] += tally.games
    return games


def list_unranked_reasons(agent: str, elo: float, games_against_agents: int, seat_decides: bool) -> tuple[str, ...]:
    """List the reasons why an agent has no rank; the result is empty if the agent has a rank.

    Args:
        agent: The agent's label.
        elo: The agent's rating; infinite or NaN if the games set no bound.
        games_against_agents: The agent's number of games, as ``count_games_against_agents`` returns it.
        seat_decides: Whether the same seat won every game between this agent and the agents to which its rating is
            relative.

    """
    unbounded = NO_CHAIN if not seat_decides else BY_SEAT
    if math.isinf(elo):
        unbounded = WON_ALL if elo > 0 else LOST_ALL
    reasons = {
        A_PERSON: is_person(agent),
        FEW_GAMES: not is_person(agent) and games_against_agents < MIN_RANKED_GAMES,
        unbounded: not math.isfinite(elo),
    }
    return tuple(reason for reason, holds in reasons.items() if holds)
