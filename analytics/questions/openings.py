"""The openings explorer: the decisions made in a position, up to symmetry, with their counts and results."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import permutations
from typing import NamedTuple

import polars as pl

from analytics.questions.columns import format_count_with_noun
from analytics.questions.decision_counts import (
    list_turns_of_positions,
    read_decisions_in_position,
    read_first_decisions,
    select_decisions_by_agent,
    sum_decisions,
)
from analytics.questions.selection import ALL_GAMES, GameFilter, Ply, check_single_rules, read_plies
from analytics.questions.sql.database import OpenArchive
from analytics.statistics.tally import wilson_bounds
from analytics.store.archive import ArchiveStore
from analytics.store.records import RunRecord
from analytics.tables.derived.positions import CHOSEN_TURN, list_canonical_turns
from quarto.errors import FailureError, RequestError, describe_valid_names
from quarto.notation import (
    CLASSIC_NAME,
    format_cell,
    format_game,
    format_piece,
    format_position,
    parse_cell,
    parse_piece,
    parse_position,
)
from quarto.position import ALL_CELLS, Position, board
from quarto.rules import ATTRIBUTES, NONE, PIECES, Rules, find_finished_lines
from quarto.symmetry import build_symmetries

EMPTY_BOARD = "..../..../..../.... -"
DECISION_KINDS = ("gift", "placement", "turn")
SORT_ORDERS = ("games", "score", "losses")  # most played first; lowest score, most losses first: the worst

MAX_POSITIONS = 200  # whose first free decisions are counted: after two imposed plies there are 148, after three 3,289


@dataclass(frozen=True)
class OpeningsQuery:
    """A question about decisions: where, of which kind, and in which games."""

    position: str = EMPTY_BOARD
    by: str | None = None  # one of BY; None: the next decision
    games: GameFilter = ALL_GAMES  # whole runs, and the agent that decided
    least: int = 1  # leave out rows of fewer games
    imposed: bool = False  # count decisions that were imposed, too
    sort: str = SORT_ORDERS[0]  # one of SORT_ORDERS
    # Count each game at its first free decision, whatever the position. None: if nothing was free at the start.
    first_free: bool | None = None


@dataclass(frozen=True)
class OpeningsResult:
    """A position and the decisions made there; or the first free decisions of games, in several positions."""

    position: Position  # the start of games, if ``first_free``
    rules: Rules
    by: str
    games: int  # in which a decision was made there
    rows: pl.DataFrame
    # Of first free decisions: games by ply. Each row then has a ``ply`` and a ``position`` of its own.
    games_by_ply: Mapping[int, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()  # which games were left out, or from which ply they count

    @property
    def first_free(self) -> bool:
        """Whether games count at their first free decision, in whatever position."""
        return bool(self.games_by_ply)

    @property
    def subject(self) -> str:
        """What the rows are about, as titles name it."""
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
    """Return the decisions made in a position, a row for each decision up to symmetry, in the order of ``sort``.

    ``games`` are those that count, whole runs. Rows of fewer than ``min_games`` games are left out. So are imposed
    decisions, unless ``imposed``. ``by`` is the kind of decision: a ``gift`` (of the giver), a ``placement`` or a whole
    ``turn``, cell and gift (of the mover). On a board without a hand, placements and turns are those after every gift.
    Default: the next decision.

    Columns:

    - ``piece``, ``cell``, ``gift`` as text (those of ``by``; the least of equivalent ones);
    - ``alike``: the number of decisions that are equivalent by symmetry;
    - ``games``, ``share``, ``wins``, ``draws``, ``losses``, ``score`` (of the player that decides);
    - their rates, each with Wilson's 95 % interval as if all games were independent;
    - a sample: the game with the least ``run_id`` and ``game_id``. With ``with_samples`` its text is in ``sample``,
    turned
      so that it passes through the position and the decision as they are written.

    If all decisions at the start of games were imposed, an answer about the start counts each game at its first free
    decision. Its rows are in many positions: ``ply`` and ``position`` come before the other columns.

    Games that are not indexed deep enough are replayed: a second or two for ten million games. Raises
    ``RequestError`` for an invalid position, or one without decisions; ``FailureError`` for damaged files.
    """
    query = OpeningsQuery(position, by, games, min_games, imposed, sort)
    return run_openings_query(opened, query, with_samples).rows


def add_rules_name(position: str, rules: str | None) -> str:
    """The position with the name of its rules. Raises ``RequestError`` if it names other rules already."""
    if rules is None:
        return position
    fields = position.split()
    if len(fields) == 3 and fields[2] != rules:
        raise RequestError(
            f"position {position!r} names rules {fields[2]!r}, and --rules is {rules!r}: leave --rules out"
        )
    return " ".join([*fields[:2], rules])


def run_openings_query(opened: OpenArchive, query: OpeningsQuery, with_samples: bool = True) -> OpeningsResult:
    """The answer of ``explore_position`` together with the position; raises the same errors."""
    return opened.retry_if_file_missing(lambda: _run_openings_query(opened, query, with_samples))


def _run_openings_query(opened: OpenArchive, query: OpeningsQuery, with_samples: bool) -> OpeningsResult:
    position, by, records = parse_openings_query(opened.archive, query)
    if query.first_free:
        return _explore_first_decisions(opened, query, position, by, records, with_samples)
    rules = records[0].rules
    turns = list_canonical_turns(position, rules)
    decisions = read_decisions_in_position(opened, records, position, turns)
    chosen = select_decisions_by_agent(decisions, records, by, query.games)
    counted = chosen if query.imposed else chosen.filter(pl.col("imposed") == CHOSEN_TURN)
    games, imposed = int(counted["games"].sum()), chosen.filter(pl.col("imposed") != CHOSEN_TURN)
    text = format_position(position, rules.name)
    if not games:
        if query.first_free is None and not imposed.is_empty() and is_start(position):
            return _explore_first_decisions(opened, query, position, by, records, with_samples)
        raise RequestError(_describe_no_decisions(text, records, chosen, query.games))
    rows = _keep_frequent(sum_decisions(opened.archive, counted, turns, by, records), query, by, text, games)
    rows = _sort_rows(_format_decisions(rows, by, rules, games), query.sort)
    if with_samples:
        samples = _format_sample_games(opened, rows, [position] * len(rows), rules)
        rows = rows.with_columns(sample=pl.Series(samples, dtype=pl.String))
    notes = _describe_left_out(imposed, records, position) if not query.imposed else ()
    return OpeningsResult(position, rules, by, games, rows, notes=notes)


def _explore_first_decisions(
    opened: OpenArchive,
    query: OpeningsQuery,
    start: Position,
    by: str,
    records: Sequence[RunRecord],
    with_samples: bool,
) -> OpeningsResult:
    """Return the first free decision of each game, by position and decision."""
    rules, text = records[0].rules, format_position(start, records[0].rules.name)
    chosen = select_decisions_by_agent(read_first_decisions(opened, records), records, by, query.games)
    games = int(chosen["games"].sum())
    if not games:
        raise RequestError(_describe_no_decisions(text, records, chosen, query.games))
    turns = list_turns_of_positions(chosen, by, rules, MAX_POSITIONS)
    shown = chosen.join(
        turns.select("occupied", "board").unique(), ["occupied", "board"], "semi", maintain_order="left"
    )
    rows = _keep_frequent(sum_decisions(opened.archive, shown, turns, by, records), query, by, text, games)
    rows = _sort_rows(_format_decisions(rows, by, rules, games), query.sort)
    if with_samples:
        positions = [parse_position(text)[0] for text in rows["position"]]
        samples = _format_sample_games(opened, rows, positions, rules)
        rows = rows.with_columns(sample=pl.Series(samples, dtype=pl.String))
    left_out = games - int(shown["games"].sum())
    games_by_ply = _count_games_by_imposed_plies(chosen, records)
    notes = [describe_first_plies(games_by_ply)]
    if left_out:
        notes.append(
            f"only the {MAX_POSITIONS} positions with the most games are counted: "
            f"{format_count_with_noun(left_out, 'game')} had their first free decision in others"
        )
    return OpeningsResult(start, rules, by, games, rows, games_by_ply, tuple(notes))


def is_start(position: Position) -> bool:
    """Whether a position is the start of games: an empty board, and nothing given."""
    return position.occupied == 0 and position.hand == NONE


def _keep_frequent(rows: pl.DataFrame, query: OpeningsQuery, by: str, text: str, games: int) -> pl.DataFrame:
    frequent = rows.filter(pl.col("games") >= query.least)
    if frequent.is_empty():
        raise RequestError(f"no {by} was chosen at least {query.least:,} times in {text} ({games:,} games)")
    return frequent


def _sort_rows(rows: pl.DataFrame, order: str) -> pl.DataFrame:
    """Sort rows by games already sorted; equal ones stay as they are."""
    if order == SORT_ORDERS[0]:
        return rows
    return rows.sort(order, descending=order == "losses", maintain_order=True)


def _count_games_by_imposed_plies(decisions: pl.DataFrame, records: Sequence[RunRecord]) -> dict[int, int]:
    """Count the games of rows by the number of plies that were imposed, ascending."""
    plies = {record.run_id: record.spec["opening_plies"] for record in records}
    ply = pl.col("run_id").replace_strict(plies, return_dtype=pl.Int64)
    return dict(decisions.group_by(ply=ply).agg(pl.sum("games")).sort("ply").rows())


def describe_first_plies(games_by_ply: Mapping[int, int], preposition: str = "at") -> str:
    """Describe at, or ``from``, which ply games count that count at their first free decision."""
    named = ", ".join(f"ply {ply} in {format_count_with_noun(games, 'game')}" for ply, games in games_by_ply.items())
    return f"each game counts {preposition} its first free decision: {named}; the plies before were imposed"


def _describe_left_out(imposed: pl.DataFrame, records: Sequence[RunRecord], position: Position) -> tuple[str, ...]:
    """Describe the games that passed through a position by imposed plies."""
    if imposed.is_empty():
        return ()
    named = ", ".join(
        f"{format_count_with_noun(games, 'game')} with {format_count_with_noun(plies, 'imposed ply', 'imposed plies')}"
        for plies, games in _count_games_by_imposed_plies(imposed, records).items()
    )
    hint = ": --first-free counts all games at their first free decision" if is_start(position) else ""
    return (f"left out, because nobody chose here: {named}{hint}",)


def group_equivalent_choices(position: Position, rules: Rules, by: str) -> list[list[str]]:
    """Group the empty cells, or for gifts the pieces left, that symmetries of the position map onto each other.

    A group begins with the choice that stands for it in the rows of an answer.
    """
    own, same = ("own_hand", ["board"]) if by == "gift" else ("own_cell", ["board", "cell"])
    turns = list_canonical_turns(position, rules).with_columns(form=pl.struct(same))
    forms = turns.group_by(own).agg(pl.col("form").unique().sort()).sort(own)
    groups: dict[str, list[str]] = {}
    for choice, of_choice in forms.iter_rows():
        text = format_piece(choice) if by == "gift" else format_cell(choice)
        groups.setdefault(repr(of_choice), []).append(text)
    return list(groups.values())


class ChoiceResult(NamedTuple):
    """The results of a cell or a piece with all that are equivalent to it, for the player that chose it."""

    choice: str
    alike: tuple[str, ...]  # the others of its group, which have no count of their own
    games: int
    share: float  # of the games: the shares of all groups add up to 1
    score: float


def sum_choices(answer: OpeningsResult) -> list[ChoiceResult]:
    """Return the results of the cells, or for gifts of the pieces, one of each group of equivalent ones.

    Empty for whole turns, which choose a cell and a piece, and for first free decisions, which are in many positions.
    """
    if answer.by == "turn" or answer.first_free:
        return []
    groups = group_equivalent_choices(answer.position, answer.rules, answer.by)
    first = {choice: group[0] for group in groups for choice in group}
    others = {group[0]: tuple(group[1:]) for group in groups}
    column = "gift" if answer.by == "gift" else "cell"
    games = pl.col("games")
    rows = (
        answer.rows.group_by(pl.col(column).replace(first), maintain_order=True)
        .agg(games.sum(), pl.sum("share"), score=games.dot("score") / games.sum())
        .select(column, "games", "share", "score")
    )
    return [ChoiceResult(choice, others[choice], *results) for choice, *results in rows.iter_rows()]


def parse_openings_query(archive: ArchiveStore, query: OpeningsQuery) -> tuple[Position, str, list[RunRecord]]:
    """The checked question: position, kind of decision, and the runs that count. Reads no games.

    Raises ``RequestError`` for a question that no games could answer.
    """
    parsed, rules_name = parse_position(query.position)
    if query.sort not in SORT_ORDERS:
        raise RequestError(f"sort {query.sort!r} is not known{describe_valid_names(query.sort, SORT_ORDERS)}")
    if query.games.where is not None:
        raise RequestError(f"where={query.games.where!r} chooses games, but decisions are counted by run: choose runs")
    records = replace(query.games, rules=rules_name).select_runs(archive)
    if not records:
        raise RequestError(f"archive {archive.root} has no runs: {archive.format_command('archive ls')} lists them")
    check_single_rules(records)
    if query.first_free and not is_start(parsed):
        raise RequestError(
            f"first free decisions are in many positions, and {query.position!r} is one: leave it out, or --first-free"
        )
    if query.first_free and query.imposed:
        raise RequestError("imposed plies are before first free decisions: leave --imposed or --first-free out")
    return parsed, _find_decision_kind(parsed, records[0].rules, query.by), records


def _find_decision_kind(position: Position, rules: Rules, requested_kind: str | None) -> str:
    """The kind of decision. Raises ``RequestError`` for a position without decisions, or without this kind."""
    text = format_position(position, rules.name)
    if requested_kind is not None and requested_kind not in DECISION_KINDS:
        raise RequestError(f"by {requested_kind!r} is not one of {', '.join(DECISION_KINDS)}")
    if position.occupied == ALL_CELLS or find_finished_lines(board(position), rules):
        raise RequestError(f"in {text} the game is over: no decision is left")
    if rules.mover_chooses:
        if position.hand != NONE:
            raise RequestError(f"by rules {rules.name!r} no piece is given: write {text.split()[0]} - {rules.name}")
        if requested_kind == "gift":
            raise RequestError(f"by rules {rules.name!r} there are no gifts: ask by turn or by placement")
        return requested_kind or "turn"
    if requested_kind == "gift" and position.hand != NONE:
        raise RequestError(f"in {text} the gift is made: ask by turn or by placement, or write - for the hand")
    return requested_kind or ("gift" if position.hand == NONE else "placement")


def _describe_no_decisions(
    position_text: str, records: Sequence[RunRecord], decisions: pl.DataFrame, game_filter: GameFilter
) -> str:
    """The reason why there is no row."""
    imposed = int(decisions["games"].sum())
    if imposed:
        first = min(plies for record in records if (plies := record.spec["opening_plies"]))
        return (
            f"in {position_text} no decision was free, but {imposed:,} were imposed: decisions are free from "
            f"positions with {format_count_with_noun(first, 'piece')} on, and --imposed counts imposed ones too"
        )
    by_agent = "" if game_filter.agent is None else f" by {game_filter.agent}"
    against = "" if game_filter.opponent is None else f" against {game_filter.opponent}"
    runs = format_count_with_noun(len(records), "run")
    return (
        f"no decision was made{by_agent}{against} in {position_text} in the games of {runs}: give an earlier position"
    )


def _format_decisions(rows: pl.DataFrame, kind: str, rules: Rules, total_games: int) -> pl.DataFrame:
    """The columns of an answer, but for the text of the sample."""
    pieces = "own_piece" if rules.mover_chooses else "own_hand"
    named = {"gift": {"gift": "own_hand"}, "placement": {"piece": pieces, "cell": "own_cell"}}.get(
        kind, {"piece": pieces, "cell": "own_cell", "gift": "own_piece"}
    )
    if rules.mover_chooses:
        named.pop("gift", None)
        if kind == "placement":
            named.pop("piece")
    texts = [
        pl.Series(name, [_format_cell_or_piece(name, value) for value in rows[column].to_list()], pl.String)
        for name, column in named.items()
    ]
    rates: dict[str, pl.Series] = {}
    for rate, column in (("win", "wins"), ("draw", "draws"), ("loss", "losses")):
        of_openings = rows[column] * rows["openings"] / rows["games"]
        low, high = map(pl.Series, wilson_bounds(of_openings, rows["openings"]))
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


def _format_sample_games(
    opened: OpenArchive, rows: pl.DataFrame, positions: Sequence[Position], rules: Rules
) -> list[str]:
    """Return the text (``F@b1 3@b2 ...``) of the sample game of each row, turned so that it makes the row's decision.

    ``positions`` are those of the rows. Raises ``FailureError`` for a damaged file.
    """
    texts = []
    decisions = rows.select(name for name in ("piece", "cell", "gift") if name in rows.columns).to_dicts()
    games = [(run_id, game_id) for run_id, game_id in rows.select("run_id", "game_id").iter_rows()]
    plies = read_plies(opened, games)
    for key, position, decision in zip(games, positions, decisions, strict=True):
        game = find_symmetric_game(plies.get(key, []), position, decision, rules)
        if game is None:
            verify = opened.archive.format_command("archive verify")
            raise FailureError(f"a game does not make the decision that the index says: run {verify}")
        texts.append(format_game(game))
    return texts


def find_symmetric_game(
    plies: Sequence[Ply], position: Position, decision: Mapping[str, str | None], rules: Rules
) -> list[Ply] | None:
    """The image of a game that passes through ``position`` and makes ``decision`` there; None if no symmetry does it.

    ``decision`` is a row of the openings explorer: ``piece``, ``cell`` and ``gift`` as texts, as far as it has them. If
    there are several images, it is the one by the first symmetry of the cells.
    """
    made = position.occupied.bit_count()
    if len(plies) <= made:
        return None
    pieces, cells = _list_required_mappings(plies, position, decision)
    target = board(position)
    for moved in build_symmetries(rules).cells.tolist():
        if any(target[moved[cell]] == NONE for _, cell in plies[:made]) or any(
            moved[cell] != wanted for cell, wanted in cells
        ):
            continue
        pairs = [(piece, target[moved[cell]]) for piece, cell in plies[:made]] + pieces
        for image in _find_piece_symmetries(pairs):
            return [(image[piece], moved[cell]) for piece, cell in plies]
    return None


def _list_required_mappings(
    plies: Sequence[Ply], position: Position, decision: Mapping[str, str | None]
) -> tuple[list[Ply], list[tuple[int, int]]]:
    """The pieces and the cells of a game after a position, each with its image."""
    made = position.occupied.bit_count()
    piece, cell = plies[made]
    by_gift = "cell" not in decision
    given = [(piece, position.hand)] if position.hand != NONE else []
    named = decision.get("gift" if by_gift else "piece")
    if named is not None:
        given.append((piece, parse_piece(named)))
    following = decision.get("gift")
    if not by_gift and following is not None and len(plies) > made + 1:
        given.append((plies[made + 1][0], parse_piece(following)))
    text = decision.get("cell")
    return given, [] if text is None else [(cell, parse_cell(text))]


def _find_piece_symmetries(pairs: Sequence[tuple[int, int]]) -> Iterator[list[int]]:
    """The symmetries of the pieces that take the first of each pair to the second, each as the 16 images."""
    for permuted in _list_attribute_permutations():
        flipped = permuted[pairs[0][0]] ^ pairs[0][1] if pairs else 0
        if all(permuted[piece] ^ flipped == wanted for piece, wanted in pairs):
            yield [piece ^ flipped for piece in permuted]


@cache
def _list_attribute_permutations() -> list[list[int]]:
    """The images of the 16 pieces under each order of the attributes; the first is the identity."""
    return [
        [sum((piece >> source & 1) << bit for bit, source in enumerate(order)) for piece in range(PIECES)]
        for order in permutations(range(ATTRIBUTES))
    ]
