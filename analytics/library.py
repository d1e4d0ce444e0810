"""The archive as Python's users see it: each question is a method, and each answer a ``Result``.

Nothing is computed here. A method turns its arguments into a ``GameFilter`` and calls the function that commands,
reports and pages call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack

from analytics.questions.sql.database import OpenArchive
from analytics.store import labels

if TYPE_CHECKING:
    from analytics.questions.selection import GameFilter
    from analytics.report.report_data import ReportData
    from analytics.report.result import Result

EMPTY_BOARD = "..../..../..../.... -"
DEFAULT_SAMPLES = 200  # of the bootstrap behind intervals of ratings


class GameFilters(TypedDict, total=False):
    """The games that a question is about: those that meet all of these conditions."""

    rules: str | None  # the rules' name, such as "classic"
    agent: str | None  # label of an agent that took part; of decisions and first plies, the one that decided
    opponent: str | None  # label of the other agent
    run: str | Sequence[str] | None  # ids of runs
    where: str | None  # a condition on the view ``games``, in DuckDB's SQL
    trainings: bool  # whether games of trainings count, too; runs that are named always do


class Archive(OpenArchive):
    """An archive as it was when it was opened; ``refresh`` updates it. ``analytics.open_archive`` returns it.

    Questions return a ``Result``; all take the filters of ``GameFilters`` as keywords. Labels of agents may be written
    with or without defaults, as for ``qarena run``. ``sql`` answers a question in SQL, ``scan`` returns a view as a
    lazy frame. They raise ``RequestError`` for a filter that no game can meet, such as an agent that did not play, and
    ``FailureError`` for damaged files.

    An archive may be asked by several threads, one at a time; ``fork`` gives each a connection of its own. After
    ``os.fork`` every question is an error that says so. An archive is a context manager, and needs no ``close``.

    Examples:
        >>> import analytics
        >>> archive = analytics.open_archive("data/sample")
        >>> archive.ratings(rules="classic").frame.height
        4

    """

    # Strength.

    def crosstable(self, *, by_seat: bool = False, **games: Unpack[GameFilters]) -> Result:
        """Return the results of every two agents under one set of rules, trainings left out.

        Columns: ``first``, ``second``, ``games``, ``wins``, ``draws``, ``losses`` of the first agent, ``score`` and
        ``win_rate`` (0 to 1) with 95 % intervals. With ``by_seat`` a row for each seat of the first agent.
        """
        from analytics.questions.head_to_head import compute_head_to_head
        from analytics.report.answers import build_crosstable_result

        return build_crosstable_result(compute_head_to_head(self, self._build_filter(games, trainings=False)), by_seat)

    def ratings(
        self,
        *,
        anchor: str | None = None,
        anchor_elo: float = 0.0,
        samples: int = DEFAULT_SAMPLES,
        **games: Unpack[GameFilters],
    ) -> Result:
        """Return the ratings of all agents under one set of rules in Elo, trainings left out.

        ``anchor`` is the agent whose rating is ``anchor_elo``; without it that is the mean. Intervals are 95 % ones
        from ``samples`` bootstrap samples. Columns: see ``analytics.questions.ratings.Ratings.to_frame``.
        """
        from analytics.questions.head_to_head import compute_head_to_head
        from analytics.questions.ratings import fit_ratings
        from analytics.report.answers import build_ratings_result

        met = compute_head_to_head(self, self._build_filter(games, trainings=False))
        zero = anchor and self.find_label(anchor)
        fit = fit_ratings(met.tallies, zero, anchor_elo, samples=samples, shared=met.shared)
        return build_ratings_result(met, fit, zero, anchor_elo)

    def compare(self, *runs: str) -> Result:
        """Return what differs between runs and the first of them: settings, code, scores, speed, regret.

        The frame has the scores: see ``analytics.questions.run_comparison.RESULTS``.
        """
        from analytics.questions.run_comparison import compare_runs
        from analytics.report.answers import build_comparison_result

        return build_comparison_result(compare_runs(self, runs))

    # Decisions.

    def openings(
        self,
        position: str = EMPTY_BOARD,
        by: Literal["gift", "placement", "turn"] | None = None,
        *,
        least: int = 1,
        imposed: bool = False,
        first_free: bool | None = None,
        sort: Literal["games", "score", "losses"] = "games",
        **games: Unpack[GameFilters],
    ) -> Result:
        """Return the decisions made in a position, up to symmetry, with their results for the player that decides.

        ``by`` is the kind of decision, by default the next one. Rows of fewer than ``least`` games are left out, and
        decisions that were imposed unless ``imposed``. With ``first_free`` each game counts at its first free decision,
        in whatever position; so it does by default if nothing was free at the start of games. ``where`` is refused,
        because decisions are counted by run.
        Columns: see ``analytics.questions.openings.explore_position``.
        """
        from analytics.questions.openings import OpeningsQuery, add_rules_name
        from analytics.report.answers import answer_openings

        choice = self._build_filter(games, trainings=True)
        text = add_rules_name(position, choice.rules)
        query = OpeningsQuery(text, by, replace(choice, rules=None), least, imposed, sort, first_free)
        return answer_openings(self, query)

    def first_plies(self, decision: Literal["placement", "gift"] = "placement", **games: Unpack[GameFilters]) -> Result:
        """Return the first placements or gifts of each agent, with their share and score (0 to 1).

        Columns: see ``analytics.report.sections.openings.openings_frame``.
        """
        from analytics.report.sections.openings import build_first_gifts_section, build_first_placements_section

        build = build_first_placements_section if decision == "placement" else build_first_gifts_section
        return self._build_section(build, f"First {decision}s", games)

    def mistakes(self, *, positions: int = 10, **games: Unpack[GameFilters]) -> Result:
        """Return the regret in half-points and the share of blunders of each agent, in all and by ply.

        The last table has the ``positions`` in which most was given up, up to symmetry; of equal ones the easiest.
        Needs the values of ``qarena annotate``. Columns: see ``analytics.questions.mistakes.summarise_decisions``;
        ``ply`` is null in the rows of all plies together.
        """
        from analytics.report.sections.mistakes import build_mistakes_result

        return self._build_section(lambda data: build_mistakes_result(data, positions), "Mistakes", games)

    def evaluations(self, **games: Unpack[GameFilters]) -> Result:
        """Return what agents expected of their turns (-1 to 1), how wrong they were, and the seconds they took."""
        from analytics.report.sections.evaluations import build_evaluations_section

        return self._build_section(build_evaluations_section, "Evaluations", games)

    # Games and learning.

    def lengths(self, **games: Unpack[GameFilters]) -> Result:
        """Return the number of plies of each agent's games, beside exact random play.

        Columns: see ``analytics.report.sections.lengths.lengths_frame``.
        """
        from analytics.report.sections.lengths import build_lengths_section

        return self._build_section(build_lengths_section, "Game lengths", games)

    def learning_curve(self, **games: Unpack[GameFilters]) -> Result:
        """Return how the policies fared that learned in the chosen runs.

        Columns: see ``analytics.report.sections.learning.learning_frame``.
        """
        from analytics.report.sections.learning import build_learning_section

        return self._build_section(build_learning_section, "Learning curves", games)

    def games(self, limit: int | None = 50, **games: Unpack[GameFilters]) -> Result:
        """Return the first ``limit`` games by run and id (None: all), with the columns of the view ``games``."""
        from analytics.report.answers import build_list_result

        condition = self._build_condition(self._build_filter(games, trainings=True))
        chosen = f"FROM games WHERE ({condition})"
        total = int(self.sql(f"SELECT count(*) {chosen}").item())
        most = "" if limit is None else f" LIMIT {int(limit)}"
        return build_list_result("Games", self.sql(f"{chosen} ORDER BY run_id, game_id{most}"), total)

    def game(self, run: str, game_id: int) -> Result:
        """Return one game, a row for each decision, with exact values where it is annotated.

        Columns: ``ply``, ``kind`` (gift or placement), ``seat``, ``agent``, ``choice`` (piece or cell as text),
        ``imposed``, ``value_before`` and ``value_after`` (1 won, 0 drawn, -1 lost for the agent that decides),
        ``regret`` (half-points), ``evaluation`` and ``seconds`` of the agent, and ``position`` before the decision,
        which ``quarto.solve`` takes. Null: not judged, not logged. Raises ``NotFoundError`` if it is not there.
        """
        from analytics.questions import logged_games
        from analytics.report.answers import build_game_result

        logged = logged_games.load_logged_game(self, run, game_id)
        judgements = logged_games.read_judgements(self, run, game_id)
        return build_game_result(logged, judgements, logged_games.read_evaluations(self, run, game_id))

    def runs(self) -> Result:
        """Return all runs, the oldest first, with the columns of the view ``runs``; people see fewer."""
        from analytics.report.answers import build_runs_result

        return build_runs_result(self.scan("runs").collect().sort("created", maintain_order=True))

    def agents(self) -> Result:
        """Return the agents of all runs, with the columns of the view ``agents``."""
        from analytics.report.answers import build_list_result

        return build_list_result("Agents", self.scan("agents").collect())

    def policies(self) -> Result:
        """Return all policies, the oldest first, with the columns of the view ``policies``; people see fewer."""
        from analytics.report.answers import build_policies_result

        return build_policies_result(self.scan("policies").collect())

    def find_label(self, agent: str) -> str:
        """Find the stored label of an agent that is named with defaults: ``mcts`` for ``mcts(iterations=200)``.

        For questions in SQL: ``archive.sql("… WHERE agent = ?", [archive.find_label("mcts(iterations=200)")])``. A text
        that names no stored agent stays as it is.
        """
        return labels.find_stored_label(self.archive.load_runs(), agent)

    # From filters to games.

    def _build_filter(self, games: GameFilters, trainings: bool) -> GameFilter:
        from analytics.questions.selection import GameFilter

        unknown: dict[str, Any] = {name: value for name, value in games.items() if name not in _FILTERS}
        if unknown:
            raise TypeError(f"{next(iter(unknown))!r} is no filter of games: write one of {', '.join(_FILTERS)}")
        agent, opponent = (
            None if label is None else self.find_label(label) for label in (games.get("agent"), games.get("opponent"))
        )
        run = games.get("run")
        return GameFilter(
            where=games.get("where"),
            runs=() if run is None else (run,) if isinstance(run, str) else tuple(run),
            rules=games.get("rules"),
            agent=agent,
            opponent=opponent,
            trainings=games.get("trainings", trainings),
        )

    def _build_condition(self, choice: GameFilter) -> str:
        """The condition in SQL on the view ``games`` that such games meet. Raises ``RequestError`` if none can."""
        from analytics.questions.selection import build_games_condition

        return build_games_condition(self, choice)

    def _build_section(self, build: Callable[[ReportData], Result], title: str, games: GameFilters) -> Result:
        from analytics.report.report_data import select_report_data

        choice = self._build_filter(games, trainings=True)
        chosen = select_report_data(self, self._build_condition(choice))
        data = replace(chosen, agent=choice.agent, opponent=choice.opponent)
        return replace(build(data), title=title, omissions=data.omissions)


_FILTERS = tuple(GameFilters.__annotations__)
