"""The openings explorer: the decisions made in a position, up to symmetry, with their counts and results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import polars as pl

from analytics.questions.decision_counts import (
    list_turns_of_most_played_positions,
    read_decisions_in_position,
    read_first_free_decisions,
    select_decisions_by_agent,
    sum_symmetric_decisions,
)
from analytics.questions.selection import ALL_GAMES, GameFilter, check_single_rules, read_plies
from analytics.questions.sql.database import OpenArchive
from analytics.statistics.tally import wilson_bounds
from analytics.store.archive import ArchiveStore
from analytics.store.records import RunRecord
from analytics.store.texts import format_count_with_noun
from analytics.tables.derived.positions import CHOSEN_TURN, list_canonical_turns
from quarto.errors import Advice, FailureError, RequestError, suggest_valid_names
from quarto.notation import (
    CLASSIC_NAME,
    format_cell,
    format_game,
    format_piece,
    format_position,
    parse_position,
)
from quarto.position import ALL_CELLS, PackedPosition, board
from quarto.rules import NONE, Rules, find_finished_lines

EMPTY_BOARD = "..../..../..../.... -"
DECISION_KINDS = ("gift", "placement", "turn")
SORT_ORDERS = ("games", "score", "losses")  # the most games first; the lowest score or the most losses first

# Positions whose first free decisions are counted: after two imposed plies there are 148, after three 3,289.
MAX_POSITIONS = 200


@dataclass(frozen=True)
class OpeningsQuery:
    """A query about the decisions made in a position: the position, the kind of decision, and the games to count."""

    position: str = EMPTY_BOARD
    by: str | None = None  # one of DECISION_KINDS; None: the next decision
    games: GameFilter = ALL_GAMES  # whole runs, and the agent that decided
    least: int = 1  # leave out rows of fewer games
    imposed: bool = False  # count decisions that were imposed, too
    sort: str = SORT_ORDERS[0]  # one of SORT_ORDERS
    # Count each game at its first free decision, in any position. None: only if no decision at the start was free.
    first_free: bool | None = None


@dataclass(frozen=True)
class OpeningsResult:
    """The decisions in one position, or the first free decisions of all games, in whatever positions they were made."""

    position: PackedPosition  # the start of games, if ``first_free``
    rules: Rules
    by: str
    games: int  # in which a decision was made there
    rows: pl.DataFrame
    # The games by ply, if the rows are first free decisions, each of which has a ``ply`` and a ``position`` of its own.
    games_by_ply: Mapping[int, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()  # which games were left out, or from which ply they count

    @property
    def first_free(self) -> bool:
        """Whether the rows are about the first free decision of each game, in whatever position it was made."""
        return bool(self.games_by_ply)

    @property
    def subject(self) -> str:
        """The subject of the rows, worded for a title: the position, or first free decisions."""
        if not self.first_free:
            return format_position(self.position, self.rules.name)
        return "First free decisions" if self.rules.name == CLASSIC_NAME else f"First free decisions, {self.rules.name}"


def explore_position(
    opened: OpenArchive,
    position: str = EMPTY_BOARD,
    by: str | None = None,
    games: GameFilter = ALL_GAMES,
    min_games: int = 1,
    imposed: bool = False,
    with_samples: bool = True,
    sort: str = SORT_ORDERS[0],
) -> pl.DataFrame:
    """Return the decisions made in a position, one row for each group of decisions that are equivalent by symmetry.

    Rows are sorted by ``sort``. If no piece is in hand, placements and turns after every possible gift are counted. If
    all decisions at the start of games were imposed, a query about the start counts the first free decision of each
    game instead. The rows are then about many positions, and the columns ``ply`` and ``position`` precede the other
    columns. Games that are not indexed up to the ply of the position are replayed, which takes a second or two for ten
    million games.

    Columns:

    - ``piece``, ``cell`` and ``gift`` as text, whichever of them the kind of decision has. A row names the first
      decision of its group;
    - ``alike``: the number of decisions in the group;
    - ``games``, and ``share``, their share of all games counted;
    - ``wins``, ``draws``, ``losses`` and ``score`` of the player that decides;
    - ``win_rate``, ``draw_rate`` and ``loss_rate``, each with Wilson's 95 % interval over independent openings;
    - ``run_id`` and ``game_id`` of a sample game, the first game with a decision of the group. With ``with_samples``,
      the column ``sample`` has the plies of that game as text. Its pieces and cells may differ from those of the row
      by a symmetry.

    Args:
        opened: The archive.
        position: The position as text: the board and the piece in hand, as in ``EMPTY_BOARD``.
        by: The kind of decision: a ``gift`` of the giver, a ``placement`` of the mover, or the mover's whole ``turn``,
            a cell and a gift; None for the next decision in the position.
        games: Which games to count. Its ``where`` must be None, because decisions are counted by run.
        min_games: Rows with fewer games than this are left out.
        imposed: Whether to count imposed decisions, too.
        with_samples: Whether to read the plies of the sample games.
        sort: One of ``SORT_ORDERS``.

    Raises:
        RequestError: The position is invalid, no decision was made there, or ``games`` has a condition ``where``.
        FailureError: A file is damaged.

    """
    query = OpeningsQuery(position, by, games, min_games, imposed, sort)
    return run_openings_query(opened, query, with_samples).rows


def add_rules_name(position: str, rules: str | None) -> str:
    """Return the text of a position with the name of the rules added, or unchanged if ``rules`` is None.

    Raises ``RequestError`` if the text already names other rules.
    """
    if rules is None:
        return position
    fields = position.split()
    if len(fields) == 3 and fields[2] != rules:
        raise RequestError(
            Advice(
                f"position {position!r} names rules {fields[2]!r}",
                f"--rules is {rules!r}: leave --rules out",
                f"rules is {rules!r}: leave rules=… out",
                separator=", and ",
            )
        )
    return " ".join([*fields[:2], rules])


def run_openings_query(opened: OpenArchive, query: OpeningsQuery, with_samples: bool = True) -> OpeningsResult:
    """Return the answer to a query about decisions, with the text of sample games if ``with_samples`` is set.

    Raises the errors of ``explore_position``.
    """
    return opened.retry_if_file_missing(lambda: _run_openings_query(opened, query, with_samples))


def _run_openings_query(opened: OpenArchive, query: OpeningsQuery, with_samples: bool) -> OpeningsResult:
    position, by, records = parse_openings_query(opened.archive, query)
    if query.first_free:
        return _explore_first_free_decisions(opened, query, position, by, records, with_samples)
    rules = records[0].rules
    turns = list_canonical_turns(position, rules)
    decisions = read_decisions_in_position(opened, records, position, turns)
    agent_decisions = select_decisions_by_agent(decisions, records, by, query.games)
    counted_decisions = agent_decisions if query.imposed else agent_decisions.filter(pl.col("imposed") == CHOSEN_TURN)
    games, imposed = int(counted_decisions["games"].sum()), agent_decisions.filter(pl.col("imposed") != CHOSEN_TURN)
    position_text = format_position(position, rules.name)
    if not games:
        if query.first_free is None and not imposed.is_empty() and is_start_of_game(position):
            return _explore_first_free_decisions(opened, query, position, by, records, with_samples)
        raise RequestError(_describe_no_decisions(position_text, records, agent_decisions, query.games))
    rows = _keep_frequent(
        sum_symmetric_decisions(opened.archive, counted_decisions, turns, by, records), query, by, position_text, games
    )
    rows = _sort_by_games_or_worst_first(_format_decisions(rows, by, rules, games), query.sort)
    if with_samples:
        samples = _format_sample_games(opened, rows)
        rows = rows.with_columns(sample=pl.Series(samples, dtype=pl.String))
    notes = _describe_left_out(imposed, records, position) if not query.imposed else ()
    return OpeningsResult(position, rules, by, games, rows, notes=notes)


def _explore_first_free_decisions(
    opened: OpenArchive,
    query: OpeningsQuery,
    start: PackedPosition,
    by: str,
    records: Sequence[RunRecord],
    with_samples: bool,
) -> OpeningsResult:
    """Return the answer to a query about first free decisions, with a row for each position and decision."""
    rules, text = records[0].rules, format_position(start, records[0].rules.name)
    agent_decisions = select_decisions_by_agent(read_first_free_decisions(opened, records), records, by, query.games)
    games = int(agent_decisions["games"].sum())
    if not games:
        raise RequestError(_describe_no_decisions(text, records, agent_decisions, query.games))
    turns = list_turns_of_most_played_positions(agent_decisions, by, rules, MAX_POSITIONS)
    counted_decisions = agent_decisions.join(
        turns.select("occupied", "board").unique(), ["occupied", "board"], "semi", maintain_order="left"
    )
    rows = _keep_frequent(
        sum_symmetric_decisions(opened.archive, counted_decisions, turns, by, records), query, by, text, games
    )
    rows = _sort_by_games_or_worst_first(_format_decisions(rows, by, rules, games), query.sort)
    if with_samples:
        samples = _format_sample_games(opened, rows)
        rows = rows.with_columns(sample=pl.Series(samples, dtype=pl.String))
    omitted_games = games - int(counted_decisions["games"].sum())
    games_by_ply = _count_games_by_imposed_plies(agent_decisions, records)
    notes = [describe_first_plies(games_by_ply)]
    if omitted_games:
        notes.append(
            f"only the {MAX_POSITIONS} positions with the most games are counted: "
            f"{format_count_with_noun(omitted_games, 'game')} had their first free decision in others"
        )
    return OpeningsResult(start, rules, by, games, rows, games_by_ply, tuple(notes))


def is_start_of_game(position: PackedPosition) -> bool:
    """Return whether a position is the start of a game: no piece on the board and none in hand."""
    return position.occupied == 0 and position.hand == NONE


def _keep_frequent(rows: pl.DataFrame, query: OpeningsQuery, by: str, position_text: str, games: int) -> pl.DataFrame:
    frequent = rows.filter(pl.col("games") >= query.least)
    if frequent.is_empty():
        raise RequestError(
            f"no {by} was chosen at least {format_count_with_noun(query.least, 'time')} in "
            f"{position_text} ({format_count_with_noun(games, 'game')})"
        )
    return frequent


def _sort_by_games_or_worst_first(rows: pl.DataFrame, order: str) -> pl.DataFrame:
    """Sort rows by ``order``, one of ``SORT_ORDERS``.

    ``rows`` must already be sorted by the number of games; rows with equal values keep that order.
    """
    if order == SORT_ORDERS[0]:
        return rows
    return rows.sort(order, descending=order == "losses", maintain_order=True)


def _count_games_by_imposed_plies(decisions: pl.DataFrame, records: Sequence[RunRecord]) -> dict[int, int]:
    """Count the games of these decisions by their number of imposed plies, in ascending order of that number."""
    plies = {record.run_id: record.spec["opening_plies"] for record in records}
    ply = pl.col("run_id").replace_strict(plies, return_dtype=pl.Int64)
    return dict(decisions.group_by(ply=ply).agg(pl.sum("games")).sort("ply").rows())


def describe_first_plies(games_by_ply: Mapping[int, int], preposition: str = "at") -> str:
    """Describe at which plies the games have their first free decision.

    ``games_by_ply`` has the number of games by the ply of that decision. ``preposition`` is ``at`` if only this
    decision is counted, and ``from`` if later decisions are counted, too.
    """
    plies_text = ", ".join(
        f"ply {ply} in {format_count_with_noun(games, 'game')}" for ply, games in games_by_ply.items()
    )
    return f"each game counts {preposition} its first free decision: {plies_text}; the plies before were imposed"


def _describe_left_out(
    imposed: pl.DataFrame, records: Sequence[RunRecord], position: PackedPosition
) -> tuple[str, ...]:
    """Describe the games that are left out because their decision in a position was imposed.

    The result is empty if there are no such games.
    """
    if imposed.is_empty():
        return ()
    counts_text = ", ".join(
        f"{format_count_with_noun(games, 'game')} with {format_count_with_noun(plies, 'imposed ply', 'imposed plies')}"
        for plies, games in _count_games_by_imposed_plies(imposed, records).items()
    )
    text = f"left out, because nobody chose here: {counts_text}"
    if not is_start_of_game(position):
        return (text,)
    effect = "counts all games at their first free decision"
    return (Advice(text, f"--first-free {effect}", f"first_free=True {effect}"),)


def group_equivalent_choices(position: PackedPosition, rules: Rules, by: str) -> list[list[str]]:
    """Divide the choices in a position into groups of choices that are equivalent by symmetry.

    The choices are the remaining pieces if ``by`` is ``gift``, and otherwise the empty cells. The first choice of a
    group represents the group in the rows of an answer.
    """
    choice_column, form_columns = ("own_hand", ["board"]) if by == "gift" else ("own_cell", ["board", "cell"])
    turns = list_canonical_turns(position, rules).with_columns(form=pl.struct(form_columns))
    forms = turns.group_by(choice_column).agg(pl.col("form").unique().sort()).sort(choice_column)
    groups: dict[str, list[str]] = {}
    for choice, choice_forms in forms.iter_rows():
        text = format_piece(choice) if by == "gift" else format_cell(choice)
        groups.setdefault(repr(choice_forms), []).append(text)
    return list(groups.values())


class ChoiceResult(NamedTuple):
    """The results of a group of equivalent cells or pieces, for the player that chose one of them."""

    choice: str
    alike: tuple[str, ...]  # the other choices of its group, which have no count of their own
    games: int
    share: float  # of the games: the shares of all groups add up to 1
    score: float


def sum_equivalent_choices(answer: OpeningsResult) -> list[ChoiceResult]:
    """Sum the results of each group of equivalent choices: cells or, for gifts, pieces.

    The list is empty for whole turns, which choose a cell and a piece, and for first free decisions, which are in many
    positions.
    """
    if answer.by == "turn" or answer.first_free:
        return []
    groups = group_equivalent_choices(answer.position, answer.rules, answer.by)
    representatives = {choice: group[0] for group in groups for choice in group}
    equivalents = {group[0]: tuple(group[1:]) for group in groups}
    column = "gift" if answer.by == "gift" else "cell"
    games = pl.col("games")
    rows = (
        answer.rows.group_by(pl.col(column).replace(representatives), maintain_order=True)
        .agg(games.sum(), pl.sum("share"), score=games.dot("score") / games.sum())
        .select(column, "games", "share", "score")
    )
    return [ChoiceResult(choice, equivalents[choice], *results) for choice, *results in rows.iter_rows()]


class ParsedOpeningsQuery(NamedTuple):
    """A query about the decisions that were made in a position, after parsing and checks."""

    position: PackedPosition
    kind: str  # of decision: one of DECISION_KINDS
    records: list[RunRecord]  # the runs that count


def parse_openings_query(archive: ArchiveStore, query: OpeningsQuery) -> ParsedOpeningsQuery:
    """Parse and check a query about decisions, without reading games.

    Raises ``RequestError`` for a query that no game could answer.
    """
    position, rules_name = parse_position(query.position)
    if query.sort not in SORT_ORDERS:
        raise RequestError(f"sort {query.sort!r} is not known{suggest_valid_names(query.sort, SORT_ORDERS)}")
    if query.games.where is not None:
        raise RequestError(f"where={query.games.where!r} chooses games, but decisions are counted by run: choose runs")
    records = replace(query.games, rules=rules_name).select_runs(archive)
    if not records:
        raise RequestError(f"archive {archive.root} has no runs: play some games first")
    check_single_rules(records)
    if query.first_free and not is_start_of_game(position):
        text = f"first free decisions are in many positions, not only in {query.position!r}"
        raise RequestError(Advice(text, "leave it out, or --first-free", "leave it out, or first_free=True"))
    if query.first_free and query.imposed:
        text = "imposed plies come before first free decisions"
        raise RequestError(
            Advice(text, "leave out --imposed or --first-free", "leave out imposed=True or first_free=True")
        )
    return ParsedOpeningsQuery(position, _find_decision_kind(position, records[0].rules, query.by), records)


def _find_decision_kind(position: PackedPosition, rules: Rules, requested_kind: str | None) -> str:
    """Return the kind of decision that a query is about.

    This is the requested kind or, without a request, the kind of the next decision in the position. Raises
    ``RequestError`` if no decisions, or none of the requested kind, can be made in the position.
    """
    position_text = format_position(position, rules.name)
    if requested_kind is not None and requested_kind not in DECISION_KINDS:
        raise RequestError(f"by {requested_kind!r} is not one of {', '.join(DECISION_KINDS)}")
    if position.occupied == ALL_CELLS or find_finished_lines(board(position), rules):
        raise RequestError(f"in {position_text} the game is over: no decision is left")
    if rules.mover_chooses:
        if position.hand != NONE:
            raise RequestError(
                f"by rules {rules.name!r} no piece is given: write {position_text.split()[0]} - {rules.name}"
            )
        if requested_kind == "gift":
            raise RequestError(f"by rules {rules.name!r} there are no gifts: ask by turn or by placement")
        return requested_kind or "turn"
    if requested_kind == "gift" and position.hand != NONE:
        raise RequestError(
            f"in {position_text} the piece is already given: ask by turn or by placement, or write - for the hand"
        )
    return requested_kind or ("gift" if position.hand == NONE else "placement")


def _describe_no_decisions(
    position_text: str, records: Sequence[RunRecord], decisions: pl.DataFrame, game_filter: GameFilter
) -> str:
    """Describe why a query found no decision to count in a position.

    ``decisions`` has the decisions, if any, that were made there but are not counted, because they were imposed.
    """
    imposed = int(decisions["games"].sum())
    if imposed:
        first_ply = min(plies for record in records if (plies := record.spec["opening_plies"]))
        free = f"decisions are free from positions with {format_count_with_noun(first_ply, 'piece')} on"
        return Advice(
            f"in {position_text} no decision was free, but {imposed:,} were imposed",
            f"{free}, and --imposed counts imposed ones too",
            f"{free}, and imposed=True counts imposed ones too",
        )
    by_agent = "" if game_filter.agent is None else f" by {game_filter.agent}"
    against = "" if game_filter.opponent is None else f" against {game_filter.opponent}"
    runs = format_count_with_noun(len(records), "run")
    return (
        f"no decision was made{by_agent}{against} in {position_text} in the games of {runs}: give an earlier position"
    )


def _format_decisions(rows: pl.DataFrame, kind: str, rules: Rules, total_games: int) -> pl.DataFrame:
    """Build the columns of an answer from summed rows, without the text of the sample games.

    ``rows`` is the result of ``sum_symmetric_decisions``. The column ``share`` has shares of ``total_games``.
    """
    piece_source = "own_piece" if rules.mover_chooses else "own_hand"
    sources = {"gift": {"gift": "own_hand"}, "placement": {"piece": piece_source, "cell": "own_cell"}}.get(
        kind, {"piece": piece_source, "cell": "own_cell", "gift": "own_piece"}
    )
    if rules.mover_chooses:
        sources.pop("gift", None)
        if kind == "placement":
            sources.pop("piece")
    texts = [
        pl.Series(name, [_format_cell_or_piece(name, value) for value in rows[column].to_list()], pl.String)
        for name, column in sources.items()
    ]
    rates: dict[str, pl.Series] = {}
    for rate, column in (("win", "wins"), ("draw", "draws"), ("loss", "losses")):
        weighted_count = rows[column] * rows["openings"] / rows["games"]
        low, high = map(pl.Series, wilson_bounds(weighted_count, rows["openings"]))
        rates |= {f"{rate}_rate": rows[column] / rows["games"], f"{rate}_low": low, f"{rate}_high": high}
    score = (pl.col("wins") + pl.col("draws") / 2) / pl.col("games")
    shares = rows.with_columns(share=pl.col("games") / total_games, score=score, **rates)
    counts = ("alike", "games", "share", "wins", "draws", "losses", "score")
    formatted = pl.DataFrame(texts).hstack(shares.select(*counts, *rates, "run_id", "game_id"))
    if "position" not in rows.columns:
        return formatted
    plies = rows["occupied"].bitwise_count_ones().cast(pl.Int64).alias("ply")
    return pl.DataFrame([plies, rows["position"]]).hstack(formatted)


def _format_cell_or_piece(column: str, value: int) -> str | None:
    return None if value == NONE else format_cell(value) if column == "cell" else format_piece(value)


def _format_sample_games(opened: OpenArchive, rows: pl.DataFrame) -> list[str]:
    """Format the plies of each row's sample game as text (``F@b1 3@b2 ...``).

    Raises ``FailureError`` for a damaged file, and if the index names a game that the archive lacks.
    """
    games = [(run_id, game_id) for run_id, game_id in rows.select("run_id", "game_id").iter_rows()]
    plies = read_plies(opened, games)
    if any(key not in plies for key in games):
        verify = opened.archive.format_command("archive verify")
        raise FailureError(f"a game is not there, although the index names it: run {verify}")
    return [format_game(plies[key]) for key in games]
