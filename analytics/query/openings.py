"""The openings explorer: the decisions made in a position, up to symmetry, with their counts and results."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from pathlib import PurePath

import polars as pl

from analytics.derived_tables.derived_table import Shard
from analytics.derived_tables.position_index import INDEXES, Index, count_positions
from analytics.derived_tables.positions import turns_in
from analytics.query.turned_games import turned
from analytics.sql.database import OpenArchive
from analytics.sql.views import RUN_OF_FILE, from_files
from analytics.statistics.intervals import wilson_bounds
from analytics.store.archive import Archive, readable, unknown_run
from analytics.store.commit_log import CommitLog
from analytics.store.records import Commit, RunRecord
from quarto.batch import GAME_BITS
from quarto.errors import FailureError, RequestError, did_you_mean, nearest
from quarto.notation import format_cell, format_game, format_piece, format_position, parse_position
from quarto.position import ALL_CELLS, Position, board
from quarto.rules import NONE, Rules, finished_lines

EMPTY_BOARD = "..../..../..../.... -"
BY = ("gift", "placement", "turn")

MISSPELT = 0.8  # likeness of names of rules: 'squarre' is meant to be 'square', 'torus_square' is not
MOST_THREADS = 8  # each replays a shard: some hundred megabytes

# The columns that are read from ``positions``.
_DECIDED = pl.Schema(
    {"run_id": pl.String()}
    | {
        name: pl.Int64()
        for name in ("pairing", "second", "board", "cell", "piece", "imposed", "games", "wins", "draws", "sample")
    }
)

# The columns of the canonical turn that identify a decision.
_SAME = {"gift": ["board"], "placement": ["board", "cell"], "turn": ["board", "cell", "piece"]}


@dataclass(frozen=True)
class Filters:
    """The games and decisions that count."""

    agent: str | None = None  # label of the agent that decided
    opponent: str | None = None  # label of the other agent
    runs: tuple[str, ...] = ()  # none: all
    since: str | None = None  # runs created on this day or at this moment (ISO 8601, UTC) or later
    until: str | None = None  # runs created then or earlier; a day counts as a whole
    least: int = 1  # leave out rows of fewer games
    imposed: bool = False  # count decisions that were imposed, too


@dataclass(frozen=True)
class Explored:
    """A position and the decisions made there."""

    position: Position
    rules: Rules
    by: str
    games: int  # in which a decision was made there
    rows: pl.DataFrame


def openings(
    opened: OpenArchive,
    position: str = EMPTY_BOARD,
    by: str | None = None,
    filters: Filters | None = None,
    samples: bool = True,
) -> pl.DataFrame:
    """The decisions made in a position, a row for each decision up to symmetry, most played first.

    ``by`` is the kind of decision: a ``gift`` (of the giver), a ``placement`` or a whole ``turn``, cell and gift (of
    the mover); on a board without a hand, placements and turns are those after every gift. Default: the next
    decision. Columns: ``piece``, ``cell``, ``gift`` as text (those of ``by``; the least of equivalent ones), ``alike``
    (the number of decisions that are equivalent by symmetry), ``games``, ``share``, ``wins``, ``draws``, ``losses`` (of
    the player that decides), their rates each with Wilson's 95 % interval as if all games were independent, and a
    sample: the game with the least ``run_id`` and ``game_id``, and with ``samples`` its text in ``sample``,
    turned so that it passes through the position and the decision as they are written.

    Shards that are not indexed deep enough are replayed: a second or two for ten million games. Raises
    ``RequestError`` for an invalid position, or one without decisions; ``FailureError`` for damaged files.
    """
    return explore(opened, position, by, filters or Filters(), samples).rows


def explore(opened: OpenArchive, position: str, by: str | None, filters: Filters, samples: bool = True) -> Explored:
    """The answer of ``openings`` together with the position; raises the same errors."""
    parsed, by, records = checked(opened.archive, position, by, filters)
    rules = records[0].rules
    turns = turns_in(parsed, rules)
    found = _decided(opened, records, parsed, turns)
    chosen = _of_agents(found, records, by, filters)
    counted = chosen if filters.imposed else chosen.filter(pl.col("imposed") == 0)
    games = int(counted["games"].sum())
    text = format_position(parsed, rules.name)
    if not games:
        raise RequestError(_nothing(text, records, chosen, filters))
    rows = _summed(counted, turns, by, records).filter(pl.col("games") >= filters.least)
    if rows.is_empty():
        raise RequestError(f"no {by} was chosen at least {filters.least:,} times in {text} ({games:,} games)")
    rows = _presented(rows, by, rules, games)
    if samples:
        rows = rows.with_columns(sample=pl.Series(_samples(opened, rows, parsed, rules), dtype=pl.String))
    return Explored(parsed, rules, by, games, rows)


def checked(archive: Archive, position: str, by: str | None, filters: Filters) -> tuple[Position, str, list[RunRecord]]:
    """The checked question: position, kind of decision, and the runs that count. Reads no games.

    Raises ``RequestError`` for a question that no games could answer.
    """
    parsed, rules_name = parse_position(position)
    records = _chosen_runs(archive, rules_name, filters)
    labels = {label for record in records for label in record.labels}
    for named in (filters.agent, filters.opponent):
        if named is not None and named not in labels:
            raise RequestError(f"agent {named!r} is not in these runs{nearest(named, labels)}")
    return parsed, _checked_by(parsed, records[0].rules, by), records


def _chosen_runs(archive: Archive, rules_name: str, filters: Filters) -> list[RunRecord]:
    """The runs that count, all by the same rules, oldest first. Raises ``RequestError`` if there are none."""
    records = archive.runs()
    known = [record.run_id for record in records]
    for run_id in filters.runs:
        if run_id not in known:
            raise unknown_run(archive, run_id, known)
    wanted = [record for record in records if not filters.runs or record.run_id in filters.runs]
    earliest, latest = _moment(filters.since, time.min, "since"), _moment(filters.until, time.max, "until")
    created = {record.run_id: datetime.fromisoformat(record.created) for record in wanted}
    wanted = [readable(record) for record in wanted if earliest <= created[record.run_id] <= latest]
    if not wanted:
        raise RequestError(f"archive {archive.root} has no runs of that time: 'qarena archive ls' lists all runs")
    named = [record for record in wanted if record.rules.name == rules_name]
    if not named:
        names = sorted({record.rules.name for record in wanted})
        meant = did_you_mean(rules_name, names, MISSPELT).rstrip()
        there = "; ".join(filter(None, [", ".join(names), meant]))
        raise RequestError(f"no games were played by rules {rules_name!r} here, only by: {there}")
    if len({record.rules for record in named}) > 1:
        ids = ", ".join({record.rules: record.run_id for record in named}.values())
        raise RequestError(f"rules {rules_name!r} are not the same in all runs: choose with --run one of {ids}")
    return named


def _moment(text: str | None, of_day: time, option: str) -> datetime:
    if text is None:
        return datetime.combine(date.min if of_day == time.min else date.max, of_day, UTC)
    try:
        if len(text) <= len("2026-01-31"):
            return datetime.combine(date.fromisoformat(text), of_day, UTC)
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise RequestError(
            f"{option} {text!r} is not a day or a moment: write 2026-01-31 or 2026-01-31T12:00"
        ) from error
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _checked_by(position: Position, rules: Rules, by: str | None) -> str:
    """The kind of decision. Raises ``RequestError`` for a position without decisions, or without this kind."""
    text = format_position(position, rules.name)
    if by is not None and by not in BY:
        raise RequestError(f"by {by!r} is not one of {', '.join(BY)}")
    if position.occupied == ALL_CELLS or finished_lines(board(position), rules):
        raise RequestError(f"in {text} the game is over: no decision is left")
    if rules.mover_chooses:
        if position.hand != NONE:
            raise RequestError(f"by rules {rules.name!r} no piece is given: write {text.split()[0]} - {rules.name}")
        if by == "gift":
            raise RequestError(f"by rules {rules.name!r} there are no gifts: ask by turn or by placement")
        return by or "turn"
    if by == "gift" and position.hand != NONE:
        raise RequestError(f"in {text} the gift is made: ask by turn or by placement, or write - for the hand")
    return by or ("gift" if position.hand == NONE else "placement")


def _decided(
    opened: OpenArchive, records: Sequence[RunRecord], position: Position, turns: pl.DataFrame
) -> pl.DataFrame:
    """The decisions of runs in a position, as rows of ``positions`` with ``run_id`` in front.

    They are read from the index and, for shards that it does not cover, from the games.
    """
    ply, occupied = position.occupied.bit_count(), turns["occupied"][0]
    boards = turns["board"].to_list()
    least, most = min(boards), max(boards)  # boards that differ in the hand are neighbours
    where = f"ply = {ply} AND occupied = {occupied} AND board BETWEEN {least} AND {most}"
    files, rest, tables = [], [], {"plies"}  # plies: samples are asked for next
    for record in records:
        found = opened.positions_at(record.run_id, (ply, occupied, least), (ply, occupied, most))
        files += found.of_digests
        tables |= found.tables
        for shard in found.shards:
            if shard.manifest is None or INDEXES.lacks(opened.archive, shard, lambda index: index.end_ply > ply):
                rest.append(shard)
            else:
                files.append(INDEXES.file(opened.archive, record.run_id, shard.manifest))
    parts = [_from_index(opened, files, where, tables)] if files else []
    return pl.concat([pl.DataFrame(schema=_DECIDED), *parts, *_from_games(opened.archive, rest, ply, where)])


def _from_index(opened: OpenArchive, files: Iterable[PurePath], where: str, tables: set[str]) -> pl.DataFrame:
    source, columns = from_files(opened.place(file) for file in files), ", ".join(list(_DECIDED)[1:])
    return opened.ask_files(f"SELECT {RUN_OF_FILE} AS run_id, {columns} {source} WHERE {where}", tables).cast(_DECIDED)


def _from_games(archive: Archive, shards: Sequence[Shard[Index]], ply: int, where: str) -> list[pl.DataFrame]:
    """The same rows, computed for shards that are not indexed deep enough."""

    def rows(shard: Shard[Index]) -> pl.DataFrame:
        found = count_positions(archive, shard, range(ply, ply + 1)).filter(pl.sql_expr(where))
        return found.with_columns(run_id=pl.lit(shard.record.run_id)).select(*_DECIDED).cast(_DECIDED)

    with ThreadPoolExecutor(min(os.cpu_count() or 1, MOST_THREADS)) as pool:
        return list(pool.map(rows, shards))


def _of_agents(found: pl.DataFrame, records: Sequence[RunRecord], by: str, filters: Filters) -> pl.DataFrame:
    """The rows in which the wanted agent decided against the wanted opponent."""
    if filters.agent is None and filters.opponent is None:
        return found
    other = by == "gift"  # ``second`` is the seat of the mover, the giver's opponent
    theirs = [
        (record.run_id, number, second ^ other)
        for record in records
        for number, pairing in enumerate(record.pairings)
        for second, label in enumerate(pairing)
        if filters.agent in (None, label) and filters.opponent in (None, pairing[1 - second])
    ]
    names = ("run_id", "pairing", "second")
    wanted = pl.DataFrame(theirs, schema={name: _DECIDED[name] for name in names}, orient="row")
    return found.join(wanted, on=names, how="semi")


def _nothing(text: str, records: Sequence[RunRecord], chosen: pl.DataFrame, filters: Filters) -> str:
    """The reason why there is no row."""
    imposed = int(chosen["games"].sum())
    if imposed:
        return f"in {text} no decision was free, but {imposed:,} were imposed: --imposed counts those too"
    by_agent = "" if filters.agent is None else f" by {filters.agent}"
    against = "" if filters.opponent is None else f" against {filters.opponent}"
    who = f"{by_agent}{against}"
    return f"no decision was made{who} in {text} in the games of {len(records)} run(s): give an earlier position"


def _summed(counted: pl.DataFrame, turns: pl.DataFrame, by: str, records: Sequence[RunRecord]) -> pl.DataFrame:
    """A row for each decision: the least of the equivalent ones, counts, openings, and the first game."""
    same, own = _SAME[by], ["own_hand", "own_cell", "own_piece"][: len(_SAME[by])]
    alike = pl.struct(own).n_unique().cast(pl.Int64)
    names = turns.group_by(same, maintain_order=True).agg(pl.first(*own), alike=alike)
    rows = (
        counted.with_columns(game_id=pl.col("pairing") * (1 << GAME_BITS) + pl.col("sample"))
        .sort("run_id", "game_id")
        .group_by(same, maintain_order=True)
        .agg(pl.sum("games", "wins", "draws"), pl.first("run_id", "game_id"))
        .join(names, on=same, how="left", validate="1:1")
        .join(_openings_of(counted, same, records), on=same, how="left", validate="1:1")
    )
    if rows["alike"].null_count():
        raise FailureError("the index holds turns that cannot be played: run 'qarena archive verify'")
    rows = rows.with_columns(losses=pl.col("games") - pl.col("wins") - pl.col("draws"))
    if by == "gift":  # wins and losses were counted for the mover
        rows = rows.rename({"wins": "losses", "losses": "wins"})
    return rows.sort("games", *own, descending=[True, False, False, False][: len(own) + 1])


def _openings_of(counted: pl.DataFrame, same: Sequence[str], records: Sequence[RunRecord]) -> pl.DataFrame:
    """For each decision, the number of openings that its games are sure to come from: ``openings``.

    Without imposed plies every game is one. With them, the two games of a pair, other pairings and other runs of the
    seed repeat openings, but the games in which one agent of one pairing decided have an opening each. So there are at
    least as many openings as the most games of that kind. With fewer openings than counted, intervals would be too
    narrow; with more, as where the games of a pair part ways, they are wider than need be.
    """
    seeds = {record.run_id: str(record.opening_seed) for record in records if record.opening_seed is not None}
    origin = pl.col("run_id").replace_strict(seeds, default=None, return_dtype=pl.String)
    of_deciders = counted.group_by(*same, "run_id", "pairing", "second").agg(pl.sum("games")).with_columns(seed=origin)
    of_seed = pl.when(pl.col("seed").is_null()).then(pl.sum("games")).otherwise(pl.max("games")).first()
    return of_deciders.group_by(*same, "seed").agg(openings=of_seed).group_by(same).agg(pl.sum("openings"))


def _presented(rows: pl.DataFrame, by: str, rules: Rules, games: int) -> pl.DataFrame:
    """The columns of an answer, but for the text of the sample."""
    pieces = "own_piece" if rules.mover_chooses else "own_hand"
    named = {"gift": {"gift": "own_hand"}, "placement": {"piece": pieces, "cell": "own_cell"}}.get(
        by, {"piece": pieces, "cell": "own_cell", "gift": "own_piece"}
    )
    if rules.mover_chooses:
        named.pop("gift", None)
        if by == "placement":
            named.pop("piece")
    texts = [
        pl.Series(name, [_text(name, value) for value in rows[column].to_list()], pl.String)
        for name, column in named.items()
    ]
    rates: dict[str, pl.Series] = {}
    for rate, column in (("win", "wins"), ("draw", "draws"), ("loss", "losses")):
        of_openings = rows[column] * rows["openings"] / rows["games"]
        low, high = map(pl.Series, wilson_bounds(of_openings, rows["openings"]))
        rates |= {f"{rate}_rate": rows[column] / rows["games"], f"{rate}_low": low, f"{rate}_high": high}
    shares = rows.with_columns(share=pl.col("games") / games, **rates)
    counts = ("alike", "games", "share", "wins", "draws", "losses")
    return pl.DataFrame(texts).hstack(shares.select(*counts, *rates, "run_id", "game_id"))


def _text(column: str, value: int) -> str | None:
    return None if value == NONE else format_cell(value) if column == "cell" else format_piece(value)


def _samples(opened: OpenArchive, rows: pl.DataFrame, position: Position, rules: Rules) -> list[str]:
    """The text (``F@b1 3@b2 ...``) of the sample game of each row, turned so that it makes the decision of the row.

    Raises ``FailureError`` for a damaged file.
    """
    texts = []
    decisions = rows.select(name for name in ("piece", "cell", "gift") if name in rows.columns).to_dicts()
    games = _plies_of(opened, list(rows.select("run_id", "game_id").iter_rows()))
    for plies, decision in zip(games, decisions, strict=True):
        game = turned(plies, position, decision, rules)
        if game is None:
            raise FailureError("a game does not make the decision that the index says: run 'qarena archive verify'")
        texts.append(format_game(game))
    return texts


def _plies_of(opened: OpenArchive, games: Sequence[tuple[str, int]]) -> list[list[tuple[int, int]]]:
    """The plies of games given by ``run_id`` and ``game_id``. Reads only their shards."""
    paths = {
        opened.place(opened.archive.file("plies", run_id, commit.plies))
        for run_id, game_id in games
        if (commit := _commit_of(opened.archive.log(run_id), game_id))
    }
    if not paths:
        return [[] for _ in games]
    wanted = ", ".join(str(game_id) for game_id in sorted({game_id for _, game_id in games}))
    found = opened.ask_files(
        f"SELECT {RUN_OF_FILE} AS run_id, game_id, piece, cell {from_files(sorted(paths))} "
        f"WHERE game_id IN ({wanted}) ORDER BY ply",
        {"plies"},
    )
    plies: dict[tuple[str, int], list[tuple[int, int]]] = {}
    for run_id, game_id, piece, cell in found.iter_rows():
        plies.setdefault((run_id, game_id), []).append((piece, cell))
    return [plies.get(game, []) for game in games]


def _commit_of(log: CommitLog, game_id: int) -> Commit | None:
    """The commit that holds a game."""
    return log.commit_of(game_id >> GAME_BITS, (game_id & ((1 << GAME_BITS) - 1)) >> 1)
