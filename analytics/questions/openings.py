"""The openings explorer: the decisions made in a position, up to symmetry, with their counts and results."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import permutations
from typing import NamedTuple

import polars as pl

from analytics.questions.columns import format_count_with_noun
from analytics.questions.selection import ALL_GAMES, GameFilter, Ply, check_single_rules, read_file_rows, read_plies
from analytics.questions.sql.database import OpenArchive
from analytics.statistics.tally import wilson_bounds
from analytics.store.archive import Archive
from analytics.store.marker import VerifiableFile
from analytics.store.ranges import StoredRange
from analytics.store.records import RunRecord
from analytics.tables.derived.definitions import POSITIONS_TABLE, derive_stored_positions, has_turns_of_ply
from analytics.tables.derived.positions import list_canonical_turns
from quarto.batch import GAME_BITS
from quarto.errors import FailureError, RequestError, describe_valid_names
from quarto.notation import (
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

MAX_THREADS = 8  # each replays a range: some hundred megabytes

# The columns that are read from ``positions``.
_INDEX_COLUMNS = pl.Schema(
    {"run_id": pl.String()}
    | {
        name: pl.Int64()
        for name in ("pairing", "second", "board", "cell", "piece", "imposed", "games", "wins", "draws", "sample")
    }
)

# The columns of the canonical turn that identify a decision.
_DECISION_COLUMNS = {"gift": ["board"], "placement": ["board", "cell"], "turn": ["board", "cell", "piece"]}


@dataclass(frozen=True)
class OpeningsQuery:
    """A question about decisions: where, of which kind, and in which games."""

    position: str = EMPTY_BOARD
    by: str | None = None  # one of BY; None: the next decision
    games: GameFilter = ALL_GAMES  # whole runs, and the agent that decided
    least: int = 1  # leave out rows of fewer games
    imposed: bool = False  # count decisions that were imposed, too
    sort: str = SORT_ORDERS[0]  # one of SORTS


@dataclass(frozen=True)
class OpeningsResult:
    """A position and the decisions made there."""

    position: Position
    rules: Rules
    by: str
    games: int  # in which a decision was made there
    rows: pl.DataFrame


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
    """The decisions made in a position, a row for each decision up to symmetry, in the order of ``sort``.

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

    Games that are not indexed deep enough are replayed: a second or two for ten million games. Raises
    ``RequestError`` for an invalid position, or one without decisions; ``FailureError`` for damaged files.
    """
    return run_openings_query(opened, OpeningsQuery(position, by, games, min_games, imposed, sort), with_samples).rows


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
    parsed, by, records = parse_openings_query(opened.archive, query)
    rules = records[0].rules
    turns = list_canonical_turns(parsed, rules)
    found = _read_decisions(opened, records, parsed, turns)
    chosen = _select_decisions_by_agent(found, records, by, query.games)
    counted = chosen if query.imposed else chosen.filter(pl.col("imposed") == 0)
    games = int(counted["games"].sum())
    text = format_position(parsed, rules.name)
    if not games:
        raise RequestError(_describe_no_decisions(text, records, chosen, query.games))
    rows = _sum_decisions(opened.archive, counted, turns, by, records).filter(pl.col("games") >= query.least)
    if rows.is_empty():
        raise RequestError(f"no {by} was chosen at least {query.least:,} times in {text} ({games:,} games)")
    rows = _format_decisions(rows, by, rules, games)
    if query.sort != SORT_ORDERS[0]:  # by which they are sorted; equal ones stay as they are
        rows = rows.sort(query.sort, descending=query.sort == "losses", maintain_order=True)
    if with_samples:
        rows = rows.with_columns(sample=pl.Series(_format_sample_games(opened, rows, parsed, rules), dtype=pl.String))
    return OpeningsResult(parsed, rules, by, games, rows)


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

    Empty for whole turns, which choose a cell and a piece.
    """
    if answer.by == "turn":
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


def parse_openings_query(archive: Archive, query: OpeningsQuery) -> tuple[Position, str, list[RunRecord]]:
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


def _read_decisions(
    opened: OpenArchive, records: Sequence[RunRecord], position: Position, turns: pl.DataFrame
) -> pl.DataFrame:
    """The decisions of runs in a position, as rows of ``positions`` with ``run_id`` in front.

    They are read from the index and, for ranges that it does not cover, from the games.
    """
    ply, occupied = position.occupied.bit_count(), turns["occupied"][0]
    boards = turns["board"].to_list()  # boards that differ in the hand are neighbours
    where = f"ply = {ply} AND occupied = {occupied} AND board BETWEEN {min(boards)} AND {max(boards)}"
    files, rest = list[VerifiableFile](), list[tuple[RunRecord, StoredRange]]()
    for record in records:
        found, lacking = opened.files.list_derived_files_and_gaps(
            POSITIONS_TABLE, record.run_id, partial(has_turns_of_ply, ply)
        )
        files += found
        rest += [(record, each) for each in lacking]
    parts = [read_file_rows(opened, files, list(_INDEX_COLUMNS)[1:], where).cast(_INDEX_COLUMNS)] if files else []
    return pl.concat(
        [pl.DataFrame(schema=_INDEX_COLUMNS), *parts, *_count_unindexed_decisions(opened.archive, rest, ply, where)]
    )


MAX_CACHED_FRAMES = 1 << 14  # frames of some rows

# What was counted in the games of a file, by its run, its name, and the condition: a file's name says which games.
_decision_cache: dict[tuple[str, str, str], pl.DataFrame] = {}


def _count_unindexed_decisions(
    archive: Archive, ranges: Sequence[tuple[RunRecord, StoredRange]], ply: int, where: str
) -> list[pl.DataFrame]:
    """The same rows, computed for ranges of games that are not indexed deep enough."""

    def count_decisions(of: tuple[RunRecord, StoredRange]) -> pl.DataFrame:
        record, stored = of
        key = record.run_id, stored.name, where
        if key not in _decision_cache:
            counted = derive_stored_positions(archive, record, stored, range(ply, ply + 1))
            # A filter may return a slice, which would keep the whole table of every file in memory.
            found = counted[counted.select(pl.arg_where(pl.sql_expr(where))).to_series()]
            if len(_decision_cache) >= MAX_CACHED_FRAMES:
                _decision_cache.clear()
            _decision_cache[key] = (
                found.with_columns(run_id=pl.lit(record.run_id)).select(*_INDEX_COLUMNS).cast(_INDEX_COLUMNS)
            )
        return _decision_cache[key]

    with ThreadPoolExecutor(min(os.cpu_count() or 1, MAX_THREADS)) as pool:
        return list(pool.map(count_decisions, ranges))


def _select_decisions_by_agent(
    decisions: pl.DataFrame, records: Sequence[RunRecord], kind: str, game_filter: GameFilter
) -> pl.DataFrame:
    """The rows in which the wanted agent decided against the wanted opponent."""
    if game_filter.agent is None and game_filter.opponent is None:
        return decisions
    other = kind == "gift"  # ``second`` is the seat of the mover, the giver's opponent
    theirs = [
        (record.run_id, number, second ^ other)
        for record in records
        for number, pairing in enumerate(record.pairings)
        for second, label in enumerate(pairing)
        if game_filter.agent in (None, label) and game_filter.opponent in (None, pairing[1 - second])
    ]
    names = ("run_id", "pairing", "second")
    wanted = pl.DataFrame(theirs, schema={name: _INDEX_COLUMNS[name] for name in names}, orient="row")
    return decisions.join(wanted, on=names, how="semi")


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


def _sum_decisions(
    archive: Archive, decisions: pl.DataFrame, turns: pl.DataFrame, kind: str, records: Sequence[RunRecord]
) -> pl.DataFrame:
    """A row for each decision: the least of the equivalent ones, counts, openings, and the first game.

    Raises ``FailureError`` for an index that is wrong.
    """
    same, own = _DECISION_COLUMNS[kind], ["own_hand", "own_cell", "own_piece"][: len(_DECISION_COLUMNS[kind])]
    alike = pl.struct(own).n_unique().cast(pl.Int64)
    names = turns.group_by(same, maintain_order=True).agg(pl.first(*own), alike=alike)
    rows = (
        decisions.with_columns(game_id=pl.col("pairing") * (1 << GAME_BITS) + pl.col("sample"))
        .sort("run_id", "game_id")
        .group_by(same, maintain_order=True)
        .agg(pl.sum("games", "wins", "draws"), pl.first("run_id", "game_id"))
        .join(names, on=same, how="left", validate="1:1")
        .join(_count_independent_openings(decisions, same, records), on=same, how="left", validate="1:1")
    )
    if rows["alike"].null_count():
        raise FailureError(
            f"the index holds turns that cannot be played: run {archive.format_command('archive verify')}"
        )
    rows = rows.with_columns(losses=pl.col("games") - pl.col("wins") - pl.col("draws"))
    if kind == "gift":  # wins and losses were counted for the mover
        rows = rows.rename({"wins": "losses", "losses": "wins"})
    return rows.sort("games", *own, descending=[True, False, False, False][: len(own) + 1])


def _count_independent_openings(
    decisions: pl.DataFrame, key_columns: Sequence[str], records: Sequence[RunRecord]
) -> pl.DataFrame:
    """For each decision, the number of openings that its games are sure to come from: ``openings``.

    Without imposed plies every game is one. With them, the two games of a pair, other pairings and other runs of the
    seed repeat openings. But the games in which one agent of one pairing decided have an opening each. So there are at
    least as many openings as the most games of that kind. With fewer openings than counted, intervals would be too
    narrow. With more, as where the games of a pair part ways, they are wider than need be.
    """
    seeds = {record.run_id: str(record.opening_seed) for record in records if record.opening_seed is not None}
    origin = pl.col("run_id").replace_strict(seeds, default=None, return_dtype=pl.String)
    of_deciders = (
        decisions.group_by(*key_columns, "run_id", "pairing", "second").agg(pl.sum("games")).with_columns(seed=origin)
    )
    of_seed = pl.when(pl.col("seed").is_null()).then(pl.sum("games")).otherwise(pl.max("games")).first()
    return (
        of_deciders.group_by(*key_columns, "seed").agg(openings=of_seed).group_by(key_columns).agg(pl.sum("openings"))
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
    return pl.DataFrame(texts).hstack(shares.select(*counts, *rates, "run_id", "game_id"))


def _format_cell_or_piece(column: str, value: int) -> str | None:
    return None if value == NONE else format_cell(value) if column == "cell" else format_piece(value)


def _format_sample_games(opened: OpenArchive, rows: pl.DataFrame, position: Position, rules: Rules) -> list[str]:
    """The text (``F@b1 3@b2 ...``) of the sample game of each row, turned so that it makes the decision of the row.

    Raises ``FailureError`` for a damaged file.
    """
    texts = []
    decisions = rows.select(name for name in ("piece", "cell", "gift") if name in rows.columns).to_dicts()
    games = [(run_id, game_id) for run_id, game_id in rows.select("run_id", "game_id").iter_rows()]
    plies = read_plies(opened, games)
    for each, decision in zip(games, decisions, strict=True):
        game = find_symmetric_game(plies.get(each, []), position, decision, rules)
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
