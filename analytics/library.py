"""The archive as Python's users see it: each question is a method, and each answer a ``Result``.

This module computes nothing. A method turns its arguments into a ``GameFilter`` and calls the function that commands,
reports and pages call.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack

from analytics.arguments import Run, check_text, list_run_id_texts, to_run_id_text, to_whole_number
from analytics.questions.sql.database import OpenArchive
from analytics.store import labels
from analytics.store.archive import find_run_id, is_agent_of_newer_run
from quarto.errors import RequestError, suggest_valid_names

if TYPE_CHECKING:
    from analytics.questions.selection import GameFilter
    from analytics.report.report_data import ReportData
    from analytics.report.result import Result

logger = logging.getLogger(__name__)

EMPTY_BOARD = "..../..../..../.... -"
DEFAULT_SAMPLES = 200  # of the bootstrap behind intervals of ratings


class GameFilters(TypedDict, total=False):
    """Filters that choose the games of a question: those that meet every filter that is given."""

    rules: str | None  # the rules' name, such as "classic"
    agent: str | None  # label of an agent that took part; for decisions and first plies, the agent that decided
    opponent: str | None  # label of the other agent
    run: Run | Iterable[Run] | None  # runs: ids, their first digits, or results about one run
    where: str | None  # a condition on the view ``games``, in DuckDB's SQL
    trainings: bool  # whether games of trainings count, too; games of runs that are named always count


class Archive(OpenArchive):
    """An open archive with the content that it had when it was opened; ``refresh`` updates the content.

    ``analytics.open_archive`` returns an archive. Each question is a method that returns a ``Result``. Most questions
    take the filters of ``GameFilters`` as keywords. A label of an agent may be written with or without the parameters
    that have their defaults, as for ``qarena run``. ``sql`` answers a question in SQL, and ``scan`` returns a view as a
    lazy frame. Questions raise ``RequestError`` for a filter that no game can meet, such as an agent that did not play,
    and ``FailureError`` for damaged files.

    Several threads may use one archive, but the archive answers one question at a time; ``fork`` returns a copy with a
    connection of its own. After ``os.fork``, every question in the new process raises ``RequestError``, because the new
    process lacks the threads of Polars. An archive is a context manager, but need not be closed.

    Examples:
        >>> import analytics
        >>> archive = analytics.open_archive("data/sample")
        >>> archive.ratings(rules="classic").frame.height
        4

    """

    def __dir__(self) -> list[str]:
        """Return the questions and the names of ``_NAMES_OF_OPEN_ARCHIVE``; completion leaves out internal names."""
        questions = {name for name in vars(Archive) if not name.startswith("_")}
        special = {name for name in super().__dir__() if name.startswith("__")}
        return sorted(questions | special | {*_NAMES_OF_OPEN_ARCHIVE})

    # Strength.

    def crosstable(self, *, by_seat: bool = False, **games: Unpack[GameFilters]) -> Result:
        """Return the results of each pair of agents under one rule set, by default without the games of trainings.

        Columns: ``first``, ``second``, ``games``; ``wins``, ``draws`` and ``losses`` of the first agent; its ``score``
        and ``win_rate`` (0 to 1) with 95 % intervals (``_low``, ``_high``); ``first_forfeits`` and ``second_forfeits``,
        the numbers of games that the first and the second agent forfeited, not counting resignations. With ``by_seat``,
        the column ``seat`` has the seat of the first agent, and there are no columns for forfeits.

        Args:
            by_seat: Whether to return a row for each seat of the first agent, not one row for both seats.
            **games: The filters of ``GameFilters``.

        Returns:
            A ``Result`` with a row for each pair of agents that met or, with ``by_seat``, for each seat of its first
            agent.

        Raises:
            RequestError: No game meets the filters, or the games that do have several rule sets.

        Examples:
            >>> import analytics
            >>> analytics.open_archive("data/sample").crosstable(rules="classic").frame.columns[:3]
            ['first', 'second', 'games']

        """
        from analytics.questions.head_to_head import compute_head_to_head
        from analytics.report.answers import build_crosstable_result

        return build_crosstable_result(
            compute_head_to_head(self, self._build_filter(games, default_trainings=False)), by_seat
        )

    def ratings(
        self,
        *,
        anchor: str | None = None,
        anchor_elo: float = 0.0,
        samples: int = DEFAULT_SAMPLES,
        **games: Unpack[GameFilters],
    ) -> Result:
        """Return the Elo ratings of all agents under one rule set, by default without the games of trainings.

        Columns: ``rank``, which is null for an agent without a rank, and ``unranked``, the reasons for this; ``agent``;
        ``elo`` with its 95 % interval ``low`` and ``high``, in Elo, infinite where the games set no bound; ``games``;
        ``group``, a number from 1, because ratings compare only agents that games connect; ``bounded``, whether the
        rating is finite. Two quantities are the same in all rows, each with its interval (``_low``, ``_high``):
        ``seat``, the advantage of giving the first piece, in Elo, and ``draws``, the share of draws between equally
        strong agents (0 to 1). ``above LABEL`` is the probability (0 to 1) that the row's agent is stronger than the
        agent with that label, null if the two agents are in different groups.

        Args:
            anchor: The label of the agent whose rating is ``anchor_elo``, or None for a mean rating of ``anchor_elo``.
            anchor_elo: The rating of the anchor or, without an anchor, the mean rating, in Elo.
            samples: The number of bootstrap samples behind the 95 % intervals, or 0 for ratings without intervals.
            **games: The filters of ``GameFilters``.

        Returns:
            A ``Result`` with a row for each agent.

        Raises:
            RequestError: No game meets the filters, the games that do have several rule sets, or the anchor played none
                of them.

        Examples:
            >>> import analytics
            >>> ratings = analytics.open_archive("data/sample").ratings(rules="classic", anchor="random", samples=0)
            >>> ratings.frame.filter(agent="random")["elo"].item()
            0.0

        """
        from analytics.questions.head_to_head import compute_head_to_head
        from analytics.questions.ratings import fit_ratings
        from analytics.report.answers import build_ratings_result

        results = compute_head_to_head(self, self._build_filter(games, default_trainings=False))
        anchor_label = anchor and self.find_label(anchor)
        fit = fit_ratings(results.tallies, anchor_label, anchor_elo, samples=samples, shared=results.shared)
        return build_ratings_result(results, fit, anchor_label, anchor_elo)

    def form(self, **games: Unpack[GameFilters]) -> Result:
        """Return the score of each agent in each run under one rule set, by default without the games of trainings.

        Columns: ``agent``; ``run_id`` and ``created``, the UTC time when the run began; the number of ``opponents``;
        ``games``, ``wins``, ``draws`` and ``losses``; ``score`` (0 to 1) with its 95 % interval ``low`` to ``high``;
        ``expected`` (0 to 1), the score that the ratings let expect against the same opponents, null if a rating has no
        bound or if ``where`` is given.

        Args:
            **games: The filters of ``GameFilters``.

        Returns:
            A ``Result`` with a row for each run and agent, the oldest run first.

        Raises:
            RequestError: No game meets the filters, or the games that do have several rule sets.

        Examples:
            >>> import analytics
            >>> form = analytics.open_archive("data/sample").form(rules="classic", agent="semi_random").frame
            >>> form.columns[-4:]
            ['score', 'low', 'high', 'expected']

        """
        from analytics.questions.form import compute_form
        from analytics.report.sections.form import build_form_result

        return build_form_result(compute_form(self, self._build_filter(games, default_trainings=False)))

    def compare(self, *runs: Run) -> Result:
        """Compare two or more runs, each later one with the first, in settings, code, scores, speed and regret.

        Args:
            *runs: Two or more runs, each given by its id, by the first digits of its id, or by a result about this run.

        Returns:
            A ``Result`` with a row for each pairing in each run. Columns: ``first``, ``second``, ``run``, ``games``;
            ``score`` of the first agent (0 to 1) with its 95 % interval (``_low``, ``_high``); the ``difference`` from
            the score in the first run (-1 to 1) with its interval, and ``p``, its p-value; ``shared_pairs``, the number
            of pairs of games that were compared pair by pair, because a pair in the first run has the same opening. The
            ``tables`` of the result also show settings, speed and regret.

        Raises:
            RequestError: A run is not in the archive, a run is named twice, or fewer than two are named.

        Examples:
            >>> import analytics
            >>> archive = analytics.open_archive("data/sample")
            >>> archive.compare("8d1cb3670fa3", "d2a027fc112c").frame.columns[:4]
            ['first', 'second', 'run', 'games']

        """
        from analytics.questions.run_comparison import compare_runs
        from analytics.report.answers import build_comparison_result

        return build_comparison_result(
            compare_runs(self, [find_run_id(self.archive, to_run_id_text(run)) for run in runs])
        )

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
        """Return the decisions made in a position, grouped by symmetry, with their results for the player that decides.

        Columns: ``piece``, ``cell`` and ``gift`` as text, whichever of them the kind of decision has; ``alike``, the
        number of decisions in the row's group; ``games``, and ``share``, their share of all games counted (0 to 1);
        ``wins``, ``draws``, ``losses`` and ``score`` (0 to 1) of the player that decides; ``win_rate``, ``draw_rate``
        and ``loss_rate`` (0 to 1), each with its 95 % interval (such as ``win_low`` and ``win_high``); ``run_id`` and
        ``game_id`` of a sample game, the first game with a decision of the group, and ``sample``, the plies of that
        game. If the first free decision of each game is counted, there are also the columns ``ply`` and ``position``.

        Args:
            position: The board and the piece in hand as text, such as ``"..../..../..../.... -"``.
            by: The kind of decision, or None for the next decision in the position.
            least: Groups of decisions made in fewer games than this are left out.
            imposed: Whether to count imposed decisions, too.
            first_free: Whether to count the first free decision of each game, in whatever position it was made; None to
                do so only if all decisions at the start of games were imposed.
            sort: The order of the rows: the most games, the lowest score, or the most losses first.
            **games: The filters of ``GameFilters`` except ``where``, because decisions are counted by run.

        Returns:
            A ``Result`` with a row for each group of decisions that are equivalent by symmetry.

        Raises:
            RequestError: The position is invalid, no decision was made there, or ``where`` is given.

        Examples:
            >>> import analytics
            >>> openings = analytics.open_archive("data/sample").openings("F.../..../..../.... 3", rules="classic")
            >>> openings.frame.columns[:4]
            ['piece', 'cell', 'alike', 'games']

        """
        from analytics.questions.openings import OpeningsQuery, add_rules_name
        from analytics.report.answers import answer_openings

        game_filter = self._build_filter(games, default_trainings=True)
        position_text = add_rules_name(position, game_filter.rules)
        query = OpeningsQuery(position_text, by, replace(game_filter, rules=None), least, imposed, sort, first_free)
        return answer_openings(self, query)

    def first_plies(self, decision: Literal["placement", "gift"] = "placement", **games: Unpack[GameFilters]) -> Result:
        """Return the placements or gifts at the first three free plies of games, with shares and scores (0 to 1).

        Columns: ``rules``; ``agent``, an empty text in the rows that count all agents together; ``ply``, numbered from
        0 at the start of the game; ``cell`` (4 * row + column) or ``piece``, as a number; ``games``, ``wins``,
        ``draws`` and ``losses`` of the agent that chose; ``share``, the share of this choice among that agent's choices
        at the ply; ``score`` with its 95 % interval ``low`` and ``high``. The free plies of a game are those that were
        not imposed.

        Args:
            decision: The kind of decision.
            **games: The filters of ``GameFilters``.

        Returns:
            A ``Result`` with a row for each agent, ply and choice.

        Raises:
            RequestError: No game meets the filters, or there is no such kind of decision.

        Examples:
            >>> import analytics
            >>> first = analytics.open_archive("data/sample").first_plies("gift", rules="square")
            >>> first.frame.columns[:4]
            ['rules', 'agent', 'ply', 'piece']

        """
        from analytics.report.sections.openings import build_first_gifts_section, build_first_placements_section

        builders = {"gift": build_first_gifts_section, "placement": build_first_placements_section}
        if decision not in builders:
            raise RequestError(f"decision {decision!r} is not known{suggest_valid_names(decision, builders)}")
        return self._build_section(builders[decision], f"First {decision}s", games)

    def mistakes(self, *, positions: int = 10, **games: Unpack[GameFilters]) -> Result:
        """Return the mean regret in half-points and the share of blunders of each agent, in total and by ply.

        The archive needs the exact values that ``runners.annotate`` or ``qarena annotate`` stores. Columns: ``agent``;
        ``kind``, gift or placement; ``ply``, counted from 0, null in the rows that cover all plies; ``decisions``;
        ``regret``, the mean exact value that a decision gave up, in half-points; ``blunders``, the share of decisions
        with a regret above 0 (0 to 1). ``regret`` and ``blunders`` have 95 % intervals (``_low``, ``_high``). The frame
        has the totals and the rows by ply; printed tables have the totals and the worst positions.

        Args:
            positions: The number of rows of the last table, which lists the positions, up to symmetry, in which agents
                gave up most. Among positions of equal regret, positions in which most choices keep the value come
                first.
            **games: The filters of ``GameFilters``.

        Returns:
            A ``Result`` with a row for each agent, kind of decision and ply. If none of these games is annotated, the
            field ``missing`` says so. ``frames["worst"]`` has the rows of the last table: ``position``, up to symmetry;
            ``kind``; ``regret`` and the ``value`` before the mistake (1 won, 0 drawn, -1 lost for the player that
            decides); ``choices``, the number of possible choices, and ``saving``, the number of those that keep the
            value (null if not counted); ``missed``, the number of blunders in the position; ``run_id``, ``game_id`` and
            ``ply`` of the worst blunder.

        Raises:
            RequestError: No game meets the filters.

        Examples:
            >>> import tempfile, runners
            >>> root = tempfile.mkdtemp() + "/archive"
            >>> played = runners.run("rule_based", "random", games=2, progress=False, archive=root)
            >>> mistakes = runners.annotate(root).frame
            >>> mistakes.filter(mistakes["ply"].is_null())["kind"].unique().sort().to_list()
            ['gift', 'placement']

        """
        from analytics.report.sections.mistakes import build_mistakes_result

        return self._build_section(lambda data: build_mistakes_result(data, positions), "Mistakes", games)

    def evaluations(self, **games: Unpack[GameFilters]) -> Result:
        """Return the values that agents reported for their turns (-1 to 1), with their errors and the seconds used.

        Columns: ``agent``; ``ply``, counted from 0, null in the rows that cover all plies; the numbers of ``turns``,
        of turns with a ``reported`` value, and of turns ``judged`` by exact values; the means of three values from -1
        (lost) to 1 (won): the reported ``value``, the game's ``result``, and the ``exact`` value; ``error``, the root
        mean square difference of value and result; ``seconds``, the mean time of a turn, and ``slowest``, the longest
        time. What was not logged is null.

        Args:
            **games: The filters of ``GameFilters``.

        Returns:
            A ``Result`` with a row for each agent and ply with evaluations. If there are none, the field ``missing``
            says so.

        Raises:
            RequestError: No game meets the filters.

        """
        from analytics.report.sections.evaluations import build_evaluations_section

        return self._build_section(build_evaluations_section, "Evaluations", games)

    # Games and learning.

    def lengths(self, **games: Unpack[GameFilters]) -> Result:
        """Return how many of each agent's games had each number of plies, beside the exact shares under random play.

        Columns: ``rules``, ``agent``, ``plies``; ``games`` of this length, and the agent's ``wins``, ``draws`` and
        ``losses`` in them; ``share`` of its games (0 to 1) with the 95 % interval ``low`` and ``high``; ``random``, the
        exact share of games of this length between random players, null where that share is not known. Forfeited games
        are left out.

        Args:
            **games: The filters of ``GameFilters``.

        Returns:
            A ``Result`` with a row for each agent and number of plies, including numbers of plies without games.

        Raises:
            RequestError: No game meets the filters.

        Examples:
            >>> import analytics
            >>> lengths = analytics.open_archive("data/sample").lengths(agent="dumb").frame
            >>> lengths["plies"].min(), lengths["plies"].max()
            (4, 16)

        """
        from analytics.report.sections.lengths import build_lengths_section

        return self._build_section(build_lengths_section, "Game lengths", games)

    def learning_curve(self, **games: Unpack[GameFilters]) -> Result:
        """Return the results of policies that learned in the chosen runs, by the progress of learning.

        Columns: ``policy`` (its name), ``policy_id``; ``series``, what was measured: ``win_rate``, or the name of a
        fitness, error or score; ``step``, the number of games learned from, or the number of the generation or pass;
        ``value`` with its 95 % interval ``low`` and ``high``, null where there is no interval. Rates and scores are
        from 0 to 1.

        Args:
            **games: The filters of ``GameFilters``.

        Returns:
            A ``Result`` with a row for each policy, series and step. If no policy learned in these runs, the field
            ``missing`` says so.

        Raises:
            RequestError: No game meets the filters.

        """
        from analytics.report.sections.learning import build_section_on_trained_policies

        return self._build_section(build_section_on_trained_policies, "Learning curves", games)

    def games(self, limit: int | None = 50, **games: Unpack[GameFilters]) -> Result:
        """Return the games that meet the filters, sorted by run and id.

        The result has the columns of the view ``games``: ``run_id``, ``game_id``; ``pair_id``, the same for the two
        games of a pair; ``pairing``; ``agent_0``, which gives the first piece, and ``agent_1``; ``winner``, a seat, -1
        for a draw; ``plies``; ``opening``, the number of imposed plies; ``ending``, such as ``line`` or ``full_board``.

        Args:
            limit: The largest number of games to return, or None for all games.
            **games: The filters of ``GameFilters``.

        Returns:
            A ``Result`` with a row for each game.

        Raises:
            RequestError: No game can meet the filters, or ``limit`` is negative.

        Examples:
            >>> import analytics
            >>> analytics.open_archive("data/sample").games(limit=2).frame.height
            2

        """
        from analytics.report.answers import build_list_result

        if limit is not None and limit < 0:
            raise RequestError(f"limit={limit} is less than 0: write a number of games, or None for all")
        condition = self._build_condition_if_games_meet(self._build_filter(games, default_trainings=True))
        from_clause = f"FROM games WHERE ({condition})"
        total = int(self.sql(f"SELECT count(*) {from_clause}").item())
        limit_clause = "" if limit is None else f" LIMIT {int(limit)}"
        return build_list_result("Games", self.sql(f"{from_clause} ORDER BY run_id, game_id{limit_clause}"), total)

    def game(self, run: Run, game_id: int) -> Result:
        """Return the decisions of one game, one row each, with their exact values if the game is annotated.

        Columns: ``ply``, ``kind`` (gift or placement), ``seat``, ``agent``, ``choice`` (piece or cell as text),
        ``imposed``, ``value_before`` and ``value_after`` (1 won, 0 drawn, -1 lost for the agent that decides),
        ``regret`` (half-points), ``evaluation`` and ``seconds`` of the agent, and ``position`` before the decision,
        which ``quarto.solve`` takes. What was not judged or not logged is null.

        Args:
            run: The id of a run, the first digits of the id (as shown in tables), or a result about the run.
            game_id: The id of a game of this run.

        Returns:
            A ``Result`` with a row for each gift and placement.

        Raises:
            NotFoundError: The game is not in the archive.
            RequestError: The ids of several runs begin with these digits.

        Examples:
            >>> import analytics
            >>> game = analytics.open_archive("data/sample").game("8d1cb3670fa3", 0).frame
            >>> game["kind"].to_list()[:3]
            ['gift', 'placement', 'gift']

        """
        from analytics.questions import logged_games
        from analytics.report.answers import build_game_result

        run_id, number = find_run_id(self.archive, to_run_id_text(run)), to_whole_number("game_id", game_id)
        logged = logged_games.load_logged_game(self, run_id, number)
        judgements = logged_games.read_judgements(self, run_id, number)
        return build_game_result(logged, judgements, logged_games.read_evaluations(self, run_id, number))

    def runs(self) -> Result:
        """Return all runs, the oldest first; tables for people have fewer columns.

        The result has the columns of the view ``runs``: ``run_id``, ``created`` (UTC), ``status``, ``rules``,
        ``agents`` (labels), ``pairings``, ``seed``, ``opening_plies``, ``games_asked``, ``games``, ``ranges``,
        ``fingerprint``, ``code_version``, ``code_fingerprint``, ``command``, ``seconds`` of play, ``name`` and ``note``
        (null: nobody has named the run).

        Returns:
            A ``Result`` with a row for each run.

        Examples:
            >>> import analytics
            >>> analytics.open_archive("data/sample").runs().frame["games"].sum()
            16000

        """
        from analytics.report.answers import build_runs_result

        return build_runs_result(self.scan("runs").collect().sort("created", maintain_order=True))

    def agents(self) -> Result:
        """Return the agents of all runs.

        The result has the columns of the view ``agents``: ``run_id``, ``label``, ``target`` (the agent's class),
        ``parameters`` (a struct with a field for each parameter of any agent, null where the row's agent does not have
        the parameter).

        Returns:
            A ``Result`` with a row for each run and agent.

        Examples:
            >>> import analytics
            >>> "random" in analytics.open_archive("data/sample").agents().frame["label"]
            True

        """
        from analytics.report.answers import build_list_result

        return build_list_result("Agents", self.scan("agents").collect())

    def policies(self) -> Result:
        """Return all policies, the oldest first; tables for people have fewer columns.

        The result has the columns of the view ``policies``: ``policy_id``, ``name``, ``current`` (whether the name
        stands for this policy), ``kind``, ``parameters`` (a struct), ``rules``, ``trainer``, ``seed``, ``games`` that
        it learned from, ``run_ids`` of these games, ``condition`` that chose them, ``rows`` of its table, ``bytes``,
        ``created`` (UTC), ``command``.

        Returns:
            A ``Result`` with a row for each policy.

        Examples:
            >>> import analytics
            >>> analytics.open_archive("data/sample").policies().frame.height
            0

        """
        from analytics.report.answers import build_policies_result

        return build_policies_result(self.scan("policies").collect())

    def find_label(self, agent: str) -> str:
        """Return the label under which the archive stores an agent, such as ``mcts`` for ``mcts(iterations=200)``.

        Use it in SQL: ``archive.sql("… WHERE agent = ?", [archive.find_label("mcts(iterations=200)")])``.

        Args:
            agent: A label, with or without the parameters that have their defaults.

        Returns:
            The stored label, or ``agent`` itself if it names no stored agent. If a run that was added after the archive
            was opened has this agent, a warning says so.

        Examples:
            >>> import analytics
            >>> analytics.open_archive("data/sample").find_label("random")
            'random'

        """
        label = self._find_label_or_keep_text(agent)
        if not any(label in record.labels for record in self.archive.load_runs()) and is_agent_of_newer_run(
            self.archive, label
        ):
            logger.warning("%s", labels.format_stale_warning(label))
        return label

    def _find_label_or_keep_text(self, agent: str) -> str:
        return labels.find_stored_label_or_keep_text(self.archive.load_runs(), agent)

    # From filters to games.

    def _build_filter(self, games: GameFilters, default_trainings: bool) -> GameFilter:
        from analytics.questions.selection import GameFilter

        unknown: dict[str, Any] = {name: value for name, value in games.items() if name not in _FILTERS}
        if unknown:
            raise TypeError(f"{next(iter(unknown))!r} is no filter of games: write one of {', '.join(_FILTERS)}")
        for name, remedy in _TEXT_FILTERS.items():
            check_text(name, games.get(name), remedy)
        agent, opponent = (
            None if label is None else self._find_label_or_keep_text(label)
            for label in (games.get("agent"), games.get("opponent"))
        )
        return GameFilter(
            where=games.get("where"),
            runs=tuple(find_run_id(self.archive, run_id) for run_id in list_run_id_texts(games.get("run"))),
            rules=games.get("rules"),
            agent=agent,
            opponent=opponent,
            trainings=games.get("trainings", default_trainings),
        )

    def _build_condition_if_games_meet(self, game_filter: GameFilter) -> str:
        """Build the SQL condition on the view ``games`` that is equivalent to a filter.

        Raises ``RequestError`` if no game can meet the filter.
        """
        from analytics.questions.selection import build_games_condition

        return build_games_condition(self, game_filter)

    def _build_section(self, build: Callable[[ReportData], Result], title: str, games: GameFilters) -> Result:
        from analytics.report.advice import word_for_python
        from analytics.report.report_data import select_report_data

        game_filter = self._build_filter(games, default_trainings=True)
        selected = select_report_data(self, self._build_condition_if_games_meet(game_filter))
        data = replace(selected, agent=game_filter.agent, opponent=game_filter.opponent)
        result = build(data)
        omissions = data.describe_omitted_agents(result.frame)
        return replace(result, title=title, missing=word_for_python(result.missing), omissions=omissions)


_NAMES_OF_OPEN_ARCHIVE = ("archive", "close", "fork", "refresh", "scan", "sql")
_FILTERS = tuple(GameFilters.__annotations__)
_LABEL_REMEDY = "write one label; for several write where=\"agent_0 IN ('mcts', 'random')\""
_TEXT_FILTERS = {  # with what to do if the value is no text
    "agent": _LABEL_REMEDY,
    "opponent": _LABEL_REMEDY,
    "rules": "write the name of one set of rules",
    "where": 'write a condition in SQL, such as "plies < 9"',
}
