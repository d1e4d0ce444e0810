"""The games that a report is about, with their runs, tallies and agents. Each agent has a colour."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from itertools import zip_longest

import polars as pl

from analytics.questions.cookbook import read_restricted_query
from analytics.questions.head_to_head import (
    NamedResults,
    ResultsByPairing,
    count_game_results,
    load_shared_openings,
    load_tally_results,
    merge_results_by_agents,
    replace_labels,
)
from analytics.questions.pairings import AgentNames, PairingResult, SharedOpenings
from analytics.questions.ratings import Ratings, fit_ratings
from analytics.questions.selection import Selection, check_single_rules, select_games
from analytics.questions.sql.database import OpenArchive
from analytics.statistics.tally import Tally
from analytics.store.records import RunRecord
from quarto.errors import RequestError

MAX_AGENTS = 12  # the number of colours that readers can distinguish; if there are more agents, the best are shown


@dataclass(frozen=True)
class ReportData:
    """The games that a report is about, and the results that its figures show; each result is computed once."""

    selection: Selection
    included_trainings: frozenset[str] = field(default=frozenset())  # runs of trainings that are rated nevertheless
    parent: ReportData | None = None  # the data of which this is a part; its names and colours are used
    agent: str | None = None  # label of the only agent that rows are about; None: all agents, except ``opponent``
    opponent: str | None = None  # label of the agent whose opponents rows are about

    @property
    def opened(self) -> OpenArchive:
        """The archive that holds the games."""
        return self.selection.opened

    @cached_property
    def records(self) -> Mapping[str, RunRecord]:
        """The records of the runs that contain games of this report, by run id, oldest first."""
        return {record.run_id: record for record in self.selection.runs}

    @property
    def results_by_pairing(self) -> ResultsByPairing:
        """The results by run and pairing number.

        They are loaded from stored tallies if the report is about all games of its runs, and otherwise counted from the
        games.
        """
        return self._results_and_names.results

    @property
    def agent_names(self) -> AgentNames:
        """The names of the agents.

        If different versions of an agent's code played under one label, each version has its own name.
        """
        return self._results_and_names.names

    @cached_property
    def _results_and_names(self) -> NamedResults:
        """The results by pairing, and the names of the agents, which replace the labels in the results."""
        if self.parent is not None:
            results, names = self.parent._results_and_names
            return NamedResults({key: result for key, result in results.items() if key[0] in self.records}, names)
        records = self.selection.runs
        results = (
            load_tally_results(self.opened, records)
            if self.selection.has_only_whole_runs
            else count_game_results(self.opened, self.selection.where, records)
        )
        return replace_labels(results, records)

    @property
    def rules(self) -> list[str]:
        """The names of the rule sets under which these games were played, sorted."""
        return sorted({record.rules.name for record in self.records.values()})

    @cached_property
    def rated_parts_by_rules(self) -> tuple[ReportData, ...]:
        """The games that count for results and ratings, split by rule set.

        ``qarena rate`` counts the same games: games of trainings are left out, except those of ``included_trainings``.
        """
        rated_runs = [run for run in self.selection.runs if not run.training or run.run_id in self.included_trainings]
        parts = []
        for rules in self.rules:
            runs = tuple(run for run in rated_runs if run.rules.name == rules)
            counts = tuple(self.selection.games_by_run[run.run_id] for run in runs)
            if runs == self.selection.runs:  # the same games, so nothing about them is computed twice
                parts.append(self)
            elif runs:
                selection = replace(self.selection, runs=runs, counts=counts)
                parts.append(ReportData(selection, self.included_trainings, self.parent or self))
        return tuple(parts)

    def select_runs(self, run_ids: Collection[str]) -> ReportData:
        """Select the games of some of the runs, with names and colours of their own."""
        runs = tuple(run for run in self.selection.runs if run.run_id in run_ids)
        counts = tuple(self.selection.games_by_run[run.run_id] for run in runs)
        return replace(self, selection=replace(self.selection, runs=runs, counts=counts), parent=None)

    @cached_property
    def shared_openings(self) -> SharedOpenings | None:
        """Counts of the pairs of games whose openings were played by more than one pairing, or None if there are none.

        When intervals are computed, all pairs with the same opening count as one independent observation.
        """
        where = None if self.selection.has_only_whole_runs else self.selection.where
        return load_shared_openings(self.opened, where, self.selection.runs, self.results_by_pairing)

    @cached_property
    def results_summed_over_runs(self) -> tuple[PairingResult, ...]:
        """The results of each pairing of two agents, summed over all runs."""
        return merge_results_by_agents(self.results_by_pairing.values(), self.shared_openings)

    @cached_property
    def tallies_by_agents(self) -> Mapping[tuple[str, str], Tally]:
        """The tallies by first and second agent, summed over all runs."""
        # Without clusters, which only intervals need: games would have to be read for them.
        results = merge_results_by_agents(self.results_by_pairing.values(), None)
        return {(result.first, result.second): result.tally for result in results}

    @cached_property
    def games_by_agent(self) -> Mapping[str, int]:
        """The number of games of each agent, largest first; a game of an agent against itself counts once."""
        games: dict[str, int] = {}
        for agents, tally in self.tallies_by_agents.items():
            for agent in set(agents):
                games[agent] = games.get(agent, 0) + tally.games
        return dict(sorted(games.items(), key=lambda item: (-item[1], item[0])))

    def rate_agents(self, samples: int | None = None) -> Ratings:
        """Rate all agents in these games, including agents that are not shown.

        ``samples`` is the number of bootstrap samples; by default, it is that of ``qarena rate``. Raises
        ``RequestError`` if the games have several rule sets, or if no two different agents played each other.
        """
        check_single_rules(self.selection.runs)
        if samples is not None:
            return fit_ratings(self.tallies_by_agents, samples=samples)
        return fit_ratings(self.tallies_by_agents, shared=self.shared_openings)

    @cached_property
    def shown_agents(self) -> tuple[str, ...]:
        """The agents that are shown, at most ``MAX_AGENTS``, in alphabetical order, which determines their colours.

        If there are more agents, the best are shown: see ``analytics.questions.ranking``.
        """
        return self.parent.shown_agents if self.parent else tuple(sorted(self.select_best_agents(MAX_AGENTS)))

    def select_best_agents(self, count: int) -> list[str]:
        """Select the ``count`` best of the agents that the user asked for, or all if there are no more."""
        agents = [agent for agent in self.games_by_agent if self._is_requested(agent)]
        if len(agents) <= count:
            return agents
        return [agent for agent in self._ranked_then_rated_agents if agent in agents][:count]

    def describe_omitted_agents(self, frame: pl.DataFrame) -> list[str]:
        """Describe how many of the agents in a frame are shown; the result is empty if all are.

        ``frame`` has all rows of a section. Agents without a row in it are not counted, such as an agent whose games
        were not judged.
        """
        agents = set(frame["agent"].drop_nulls()) - {""} if "agent" in frame.columns else set[str]()
        shown = len(agents & {*self.shown_agents})
        return [f"the best {shown} of {len(agents):,} agents are shown"] if shown < len(agents) else []

    def _is_requested(self, agent: str) -> bool:
        """Return whether the user asked for rows about the agent with this name."""
        if self.agent is not None:
            return agent in self._list_names(self.agent)
        return self.opponent is None or agent not in self._list_names(self.opponent)

    def _list_names(self, label: str) -> set[str]:
        """Return the names of all agents that played under this label."""
        return {
            self.agent_names.find_name(run_id, label)
            for run_id, record in self.records.items()
            if label in record.labels
        }

    def select_rows_of_requested_agents(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Select the rows about the agents that the user asked for."""
        agents = [agent for agent in frame["agent"].unique() if self._is_requested(agent)]
        return frame.filter(pl.col("agent").is_in(agents))

    def select_rows_of_shown_agents(self, frame: pl.DataFrame, *additional_agents: str) -> pl.DataFrame:
        """Select the rows about an agent that is shown, or about one of the agents ``additional_agents``."""
        return frame.filter(pl.col("agent").is_in([*additional_agents, *self.shown_agents]))

    def find_colour_number(self, agent: str) -> int:
        """Return the number of an agent's colour. Raises ``ValueError`` if the agent is not shown."""
        return self.shown_agents.index(agent)

    @cached_property
    def _ratings_by_rules(self) -> dict[str, Ratings]:
        """The ratings, without intervals, by the name of the rule set.

        Rule sets for which no ratings can be fitted, for example because no two different agents met, are left out.
        """
        ratings = dict[str, Ratings]()
        for part in self.rated_parts_by_rules:
            with suppress(RequestError):  # nobody met another agent, or all of these games were forfeited
                ratings[part.rules[0]] = part.rate_agents(samples=0)
        return ratings

    @cached_property
    def _ranked_then_rated_agents(self) -> list[str]:
        """All agents: first those that have a rank, then those that only have a rating, then the rest.

        If there are several rule sets, the best agent under each comes first, then the second-best agents, and so on.
        """
        all_ratings = self._ratings_by_rules.values()
        ranked = zip_longest(*([rating.agent for rating in ratings.ranked] for ratings in all_ratings))
        rated = zip_longest(*([rating.agent for rating in ratings.ratings] for ratings in all_ratings))
        agents = dict.fromkeys(agent for row in (*ranked, *rated, self.games_by_agent) for agent in row)
        return [agent for agent in agents if agent in self.games_by_agent]

    def list_shown_agents(self, rules: str | None = None) -> list[str]:
        """List the agents that are shown, best first.

        The order is that of the ratings under ``rules`` or, by default, that of all rule sets together.
        """
        if self.parent:
            return self.parent.list_shown_agents(rules)
        ratings = self._ratings_by_rules.get(rules or "")
        rated_agents = [rating.agent for rating in ratings.ratings] if ratings else []
        return [
            agent
            for agent in dict.fromkeys([*rated_agents, *self._ranked_then_rated_agents])
            if agent in self.shown_agents
        ]

    def sort_by_rank(self, frame: pl.DataFrame, *outer: str) -> pl.DataFrame:
        """Sort rows by the columns ``outer``, and then by agent, in the order of ``list_shown_agents``.

        If ``rules`` is one of ``outer``, the order of the agents follows the ratings under the row's rules. Rows about
        no agent (``""``) come first, and rows about agents that are not shown come last.
        """
        keys = ["rules", "agent"] if "rules" in outer else ["agent"]
        rules = frame["rules"].unique().to_list() if "rules" in outer else [None]
        places = [
            (name, agent, place) for name in rules for place, agent in enumerate(["", *self.list_shown_agents(name)])
        ]
        schema = {"rules": pl.String(), "agent": pl.String(), "_place": pl.Int64()}
        order = pl.DataFrame(places, schema, orient="row").select(*keys, "_place")
        placed = frame.join(order, keys, "left", maintain_order="left")
        return placed.sort(*outer, "_place", nulls_last=True, maintain_order=True).drop("_place")

    @cached_property
    def total_tally(self) -> Tally:
        """The sum of the tallies of all pairings."""
        return reduce(Tally.__add__, self.tallies_by_agents.values(), Tally())

    def run_named_query(self, name: str, plies: range | None = None) -> pl.DataFrame:
        """Return the answer to a named query about these games; each query is run only once.

        ``plies`` is the range of plies for a query about the first plies of games; other queries ignore it.
        """
        return self.run_query_once(read_restricted_query(name, self.selection.condition, plies))

    def run_query_once(self, text: str) -> pl.DataFrame:
        """Return the answer to a query in SQL; the same query is run only once."""
        if text not in self._answers:
            self._answers[text] = self.opened.sql(text)
        return self._answers[text]

    @cached_property
    def _answers(self) -> dict[str, pl.DataFrame]:
        """The answers to the queries that have been run, by the query's text."""
        return {}

    def seat_assignments_frame(self) -> pl.DataFrame:
        """Return which agent had which seat, with a row for each run, pairing, and game of a pair.

        Columns:

        - ``run_id`` (String) and ``pairing`` (Int64);
        - ``game`` (Int64): 0 or 1, the place of the game in its pair;
        - ``agent_0``, ``agent_1`` (String): the names of the agents by seat;
        - ``rules`` (String): the name of the rules;
        - ``mover_chooses`` (Boolean): whether the mover chooses the piece under these rules;
        - ``imposed`` (Int64): the number of imposed plies.
        """
        rows = []
        for run_id, record in self.records.items():
            names = {label: self.agent_names.find_name(run_id, label) for label in record.labels}
            common = record.rules.name, record.rules.mover_chooses, record.spec["opening_plies"]
            for pairing, (first, second) in enumerate(record.pairings):
                rows.append((run_id, pairing, 0, names[first], names[second], *common))
                rows.append((run_id, pairing, 1, names[second], names[first], *common))
        return pl.DataFrame(rows, schema=SEAT_SCHEMA, orient="row")


SEAT_SCHEMA = {
    "run_id": pl.String(),
    **dict.fromkeys(("pairing", "game"), pl.Int64()),
    **dict.fromkeys(("agent_0", "agent_1", "rules"), pl.String()),
    "mover_chooses": pl.Boolean(),
    "imposed": pl.Int64(),
}


def select_report_data(
    opened: OpenArchive, where: str | None = None, included_trainings: Iterable[str] = ()
) -> ReportData:
    """Select the games for a report: those that meet the condition ``where``, or all games if it is None.

    ``included_trainings`` are the ids of trainings that are rated although trainings usually are not. Raises the errors
    of ``analytics.questions.selection.select_games``.
    """
    return ReportData(select_games(opened, where), frozenset(included_trainings))
