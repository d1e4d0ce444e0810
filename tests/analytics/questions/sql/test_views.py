"""The macros against the core, the views made from other views, and the positions."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import product
from pathlib import Path

import duckdb
import numpy as np
import polars as pl
import pytest

from analytics import open_archive
from analytics.questions.selection import read_ply_rows, select_games
from analytics.questions.sql import lazy_rows
from analytics.questions.sql.database import OpenArchive
from analytics.questions.sql.definitions import list_needed_names, load_definitions
from analytics.questions.sql.syntax import parse_query, walk_nodes
from analytics.questions.sql.views import MAX_COMPARED, VIEWS, run_condition_sql
from analytics.statistics.tally import ClusterSums, wilson_interval
from analytics.store import policy_store
from analytics.store.archive import ArchiveStore
from analytics.store.range_files import read_rows
from analytics.store.records import RunRecord, SweepJob
from analytics.tables.derived.boards import EXTRA_COLUMNS, replay_plies
from analytics.tables.derived.positions import list_canonical_turns
from quarto.errors import RequestError
from quarto.notation import format_cell, format_piece, format_position, parse_position
from quarto.position import position_from_plies
from tests.analytics.conftest import write_filled_archive
from tests.analytics.indexed import decide, index
from tests.analytics.naive_games import (
    BLOCKS,
    PAIRINGS,
    RUN_ID,
    build_spec,
    naive_rows,
    random_block,
    record,
    single_games,
    store,
)
from tests.analytics.stored_policies import COUNTS, GENES, origin
from tests.naive import PRESETS
from tests.paths import SAMPLE

CLASSES = [{0: "centre", 1: "edge", 2: "corner"}[(c // 4 in (0, 3)) + (c % 4 in (0, 3))] for c in range(16)]


@pytest.fixture(scope="module")
def nothing(tmp_path_factory: pytest.TempPathFactory) -> OpenArchive:
    return OpenArchive(ArchiveStore.open(tmp_path_factory.mktemp("empty") / "archive", create=True).root)


def test_cells_and_pieces(nothing: OpenArchive) -> None:
    facts = nothing.sql("""
        SELECT i, cell_name(i) AS cell, cell_class(i) AS class, piece_name(i) AS piece, high(i) AS high,
               coloured(i) AS coloured, solid(i) AS solid, square(i) AS square FROM range(-1, 17) numbers(i)""")
    for i, cell, in_class, piece, *attributes in facts.iter_rows():
        if 0 <= i < 16:
            assert (cell, in_class, piece) == (format_cell(i), CLASSES[i], format_piece(i))
            assert attributes == [bool(i & 8), bool(i & 4), bool(i & 2), bool(i & 1)]
        else:
            assert (cell, in_class, piece) == (None, None, None)


def find_needed_names(text: str) -> Sequence[str]:
    with duckdb.connect() as parser:
        return list_needed_names(parse_query(parser, text))


def test_each_view_and_macro_is_made_with_the_views_it_reads_and_nothing_that_is_not_there() -> None:
    with duckdb.connect() as connection:
        for name in load_definitions():
            connection.execute("BEGIN")
            for needed_name in find_needed_names(f"SELECT * FROM {name.upper()}"):
                connection.execute(load_definitions()[needed_name])  # DuckDB refuses a view of what does not exist
            assert name == needed_name
            connection.execute("ROLLBACK")
        assert [*find_needed_names("FROM pairs")] == ["games", "pairs"]


LISTS = (
    *("FROM duckdb_views()", "SELECT view_name FROM duckdb_views", "SHOW TABLES"),
    *("DESCRIBE", "FROM (desc)", "DESCRIBE TABLES;"),
)


def test_questions_that_list_what_there_is_find_all_of_it() -> None:
    assert all({*find_needed_names(text)} == {*load_definitions()} for text in LISTS)
    assert not {*find_needed_names("SELECT seat FROM range(3) ORDER BY (seat) DESC")} & {"games", "plies"}


# Of a question that its parser does not serialise, any name counts that occurs in it, also as a part of another.
NAMES_IN_OTHERS = (
    ("PIVOT (SELECT piece, games FROM first_plies) ON piece USING sum(games)", "plies"),
    ("EXPLAIN SELECT 1 AS my_games", "games"),
    ("EXPLAIN SELECT 1 AS my_query", "seats"),
    ("EXPLAIN SELECT 1 AS n_decisions", "decisions"),
)


@pytest.mark.parametrize(("before", "view"), NAMES_IN_OTHERS, ids=[view for _, view in NAMES_IN_OTHERS])
def test_a_view_keeps_its_rows_whatever_named_it_before(before: str, view: str) -> None:
    with open_archive(SAMPLE) as opened, open_archive(SAMPLE) as other:
        opened.sql(before)
        count = opened.sql(f"SELECT count(*) FROM {view}").item()
        assert count == other.sql(f"SELECT count(*) FROM {view}").item()
        assert count or view == "decisions"  # of which the sample has none
        with pytest.raises(RequestError, match="there is no table 'nothing'"):
            opened.sql("FROM nothing")


def test_shared_attributes(nothing: OpenArchive) -> None:
    counts = nothing.sql("SELECT p, q, shared(p, q) AS n FROM range(16) a(p), range(16) b(q)")
    for p, q, n in counts.iter_rows():
        assert n == sum(p >> bit & 1 == q >> bit & 1 for bit in range(4))


def test_wilsons_interval(nothing: OpenArchive) -> None:
    for wins, n in [*product((0, 0.5, 1, 7, 10), (10, 10.5)), (0, 0), (3, 10**7), (10**7, 10**7)]:
        interval = nothing.sql("SELECT wilson_low($1, $2) AS low, wilson_high($1, $2) AS high", [wins, n]).row(0)
        assert interval == pytest.approx(wilson_interval(wins, n), rel=1e-12, abs=1e-15)
    assert nothing.sql("SELECT wilson_low(NULL, 3) AS low").item() is None


def test_the_interval_over_clusters(nothing: OpenArchive) -> None:
    total, n = np.array([3.0, 0.5, 0.0, 7.0]), np.array([4, 1, 2, 9])
    sums = ClusterSums(4, int(n.sum()), total.sum(), int((n * n).sum()), (n * total).sum(), (total * total).sum())
    clusters = pl.DataFrame({"total": total, "n": n})
    reach = nothing.sql("SELECT cluster_reach(total, n) AS reach FROM c", c=clusters).item()
    assert reach == pytest.approx(1.959963984540054 * sums.variance**0.5, rel=1e-12)
    assert nothing.sql("SELECT cluster_reach(total, n) AS reach FROM c", c=clusters[:1]).item() is None


def boards(count: int) -> list[tuple[int, int, str, str]]:
    """Return the columns ``occupied`` and ``board``, and the texts, of positions with every number of pieces."""
    dice, rows = np.random.default_rng(3), []
    for number in range(count):
        ply = number % 16
        pieces, cells = dice.permutation(16).tolist(), sorted(dice.permutation(16)[:ply].tolist())
        board = pieces[ply]
        for place, piece in enumerate(pieces[:ply]):
            board |= sum((piece >> lane & 1) << (4 + lane * ply + place) for lane in range(4))
        if board < 1 << 63:  # as those of canonical positions
            position = position_from_plies(list(zip(pieces[:ply], cells, strict=True)), pieces[ply])
            text = format_position(position)
            rows.append((sum(1 << cell for cell in cells), board, text.split()[0], text))
    return rows


def test_texts_of_positions(nothing: OpenArchive) -> None:
    positions = pl.DataFrame(boards(64), schema=["occupied", "board", "rows", "text"], orient="row")
    texts = nothing.sql(
        "SELECT *, board_text(occupied, board) AS b, position_text(occupied, board) AS p FROM k", k=positions
    )
    assert texts.height > 40
    assert texts["b"].to_list() == texts["rows"].to_list()
    assert texts["p"].to_list() == texts["text"].to_list()


def test_a_condition_may_use_macros(opened: OpenArchive) -> None:
    where = (
        "game_id IN (SELECT game_id FROM plies WHERE ply = 0 AND cell_class(cell) = 'centre' AND shared(piece, 0) > 1)"
    )
    selection = select_games(opened, where)
    rows = opened.scan("plies").filter(ply=0).collect()
    expected = {
        game for game, piece, cell in rows.select("game_id", "piece", "cell").iter_rows()
        if CLASSES[cell] == "centre" and piece.bit_count() < 3
    }  # fmt: skip
    assert sum(selection.counts) == len(expected) > 0
    with pytest.raises(RequestError, match=r"reads from policy\(\)"):
        select_games(opened, "game_id IN (SELECT cell FROM policy('mine'))")


def test_seats_have_two_rows_a_game(opened: OpenArchive) -> None:
    games, _ = naive_rows(BLOCKS, PAIRINGS)
    expected = []
    for game_id, pair_id, pairing, agent_0, agent_1, winner, plies, opening, ending in games:
        record_values = ("classic", None, 2 * (game_id % 2**32 // 2 * 3 + pairing) + game_id % 2)
        for seat in (0, 1):
            agents = (agent_0, agent_1) if seat == 0 else (agent_1, agent_0)
            score = 0.5 if winner == -1 else float(winner == seat)
            game_values = (*agents, score, plies, opening, ending)
            expected.append((RUN_ID, game_id, pair_id, pairing, seat, *game_values, *record_values))
    assert opened.sql("FROM seats ORDER BY game_id, seat").rows() == expected


def test_pairs_have_the_scores_of_the_first_agent(archive: ArchiveStore) -> None:
    fixed = record(build_spec(seats="fixed"))
    archive.write_run_and_unit_count(fixed)
    store(archive, fixed.run_id, [single_games(1, 0, 20, 3)])
    games = {row[0]: row for row in naive_rows([*BLOCKS, single_games(1, 0, 20, 3)], PAIRINGS)[0]}
    with open_archive(archive.root) as opened:
        rows = opened.sql("FROM pairs").rows(named=True)
    assert {row["pair_id"] for row in rows} == {game >> 1 for game in games}
    for row in rows:
        for number in (0, 1):
            game = games.get(2 * row["pair_id"] + number)
            score = None if game is None else 0.5 if game[5] == -1 else float(game[5] == number)
            assert row[f"score_{number}"] == score
        assert (row["first"], row["second"]) == PAIRINGS[row["pairing"]]


def test_columns_of_boards_are_made_only_if_a_question_may_read_them(
    opened: OpenArchive, monkeypatch: pytest.MonkeyPatch
) -> None:
    replayed_columns: list[set[str]] = []

    def record_columns(plies: pl.DataFrame, record: RunRecord, more: Collection[str]) -> pl.DataFrame:
        replayed_columns.append(set(more))
        return replay_plies(plies, record, more)

    monkeypatch.setattr(lazy_rows, "replay_plies", record_columns)
    questions = {
        "SELECT avg(bit_count(filled)) FROM boards": set(),
        "SELECT ply, count(*) FROM boards GROUP BY ply ORDER BY ALL": set(),
        "SELECT b.Mover, count(*) FROM boards AS b GROUP BY ALL": {"mover"},
        "SELECT count(*) FROM boards AS a JOIN boards AS b USING (occupied, board)": {"occupied", "board"},
        "SELECT x FROM (SELECT bit_count(winning_cells) AS x FROM boards WHERE safe_gifts <> 0)": {
            *("winning_cells", "safe_gifts")
        },
        "WITH b AS (FROM boards) SELECT count(lines) FROM b": {*EXTRA_COLUMNS},
        "SELECT count(b) FROM boards AS b": {*EXTRA_COLUMNS},
        "SELECT a FROM boards AS b(a)": {*EXTRA_COLUMNS},
        "SELECT COLUMNS('li.*') FROM boards": {*EXTRA_COLUMNS},
        "SELECT count(*) FROM boards NATURAL JOIN games": {*EXTRA_COLUMNS},
        "SELECT count(*) FROM query('SELECT mover FROM boards')": {*EXTRA_COLUMNS},
        "PIVOT boards ON ply IN (1, 2) USING count(*)": {*EXTRA_COLUMNS},
    }
    for question, columns in questions.items():
        opened.sql(question)
        assert replayed_columns, question
        assert all(names == columns for names in replayed_columns), question
        replayed_columns.clear()


def test_decisions_and_boards_join_positions_by_their_key(archive: ArchiveStore) -> None:
    index(archive, 16)
    decide(archive, RUN_ID)
    with open_archive(archive.root) as opened:
        boards, counted = (
            opened.sql(f"SELECT rules, occupied, board, {games} AS games FROM {view} GROUP BY ALL ORDER BY ALL").rows()
            for view, games in (("boards", "count(*)"), ("positions", "sum(games)"))
        )
        assert boards == counted
        joined = opened.sql("""
            SELECT count(*) FROM decisions JOIN boards USING (run_id, game_id, ply)
            WHERE decisions.occupied = boards.occupied AND decisions.board = boards.board""").item()
        decisions = opened.sql("SELECT count(*) FROM decisions").item()
        of_positions = opened.sql("""
            SELECT count(*) FROM decisions SEMI JOIN positions USING (rules, occupied, board)""").item()
        assert joined == of_positions == decisions > 0
        assert opened.scan("decisions").select("board", "agent").collect().height == decisions


def test_boards_of_one_run_leave_the_files_of_others_alone(
    archive: ArchiveStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = record(build_spec(seed=8))
    archive.write_run_and_unit_count(other)
    store(archive, other.run_id, BLOCKS[:1])
    read: list[str] = []

    def reading(archive: ArchiveStore, run_id: str, *rest: object) -> pl.DataFrame:
        read.append(run_id)
        return real(archive, run_id, *rest)  # type: ignore[arg-type]

    real = read_rows
    monkeypatch.setattr(lazy_rows, "read_rows", reading)
    with open_archive(archive.root) as opened:
        assert opened.sql(f"SELECT count(*) FROM boards WHERE run_id = '{other.run_id}'").item() > 0
    assert set(read) == {other.run_id}


def test_replayed_rows_borrow_no_memory_of_numpy(shared: ArchiveStore, monkeypatch: pytest.MonkeyPatch) -> None:
    replayed_frames: list[pl.DataFrame] = []

    def making(plies: pl.DataFrame, record: RunRecord, more: Collection[str]) -> pl.DataFrame:
        replayed_frames.append(replay_plies(plies, record, more))
        return replayed_frames[-1]

    monkeypatch.setattr(lazy_rows, "replay_plies", making)
    played = shared.find_run(RUN_ID)
    assert played is not None
    parts = list(
        lazy_rows.scan_boards_before_plies(shared, played, [], [*EXTRA_COLUMNS]).collect_batches(maintain_order=True)
    )
    assert sum(part.height for part in parts) == sum(frame.height for frame in replayed_frames) > 0
    for part in parts:
        for column in part:
            array = column.rechunk().to_numpy()
            assert not any(np.shares_memory(array, frame[column.name].to_numpy()) for frame in replayed_frames)


def test_ordered_openings_are_those_of_all_games_that_are_long_enough(opened: OpenArchive) -> None:
    openings = opened.sql("FROM ordered_openings(3) ORDER BY game_id")
    assert set(openings["opening"].str.count_matches("@")) == {3}
    rows = opened.scan("plies").filter(pl.col("ply") < 3).sort("game_id", "ply").collect()
    counts = opened.sql("SELECT count(*) FROM ordered_openings(1)").item()
    for wrong in ("0", "9", "NULL"):
        with pytest.raises(RequestError, match=r"ordered_openings\(k\): k is 1 to 8"):
            opened.sql(f"FROM ordered_openings({wrong})")
    games: dict[int, list[tuple[int, int]]] = {}
    for game_id, piece, cell in rows.select("game_id", "piece", "cell").iter_rows():
        games.setdefault(game_id, []).append((piece, cell))
    assert counts == len(games)
    assert openings["game_id"].to_list() == sorted(game for game, plies in games.items() if len(plies) == 3)


# Records.


def test_agents_have_typed_parameters(tmp_path: Path) -> None:
    archive = ArchiveStore.open(tmp_path / "archive", create=True)
    assert OpenArchive(archive.root).sql("SELECT parameters.depth AS depth FROM agents").is_empty()
    spec = build_spec()
    spec["agents"] = [
        {
            "label": "a",
            "target": "m.A",
            "params": {"depth": 2, "rate": 1, "safe": True, "name": None, "weights": [1, 2]},
        },
        {"label": "b", "target": "m.B", "params": {"rate": 0.5, "name": "x", "Depth": "deep"}},
    ]
    spec["pairings"] = [[0, 1]]
    archive.write_run_and_unit_count(record(spec))
    with open_archive(archive.root) as opened:
        rows = opened.sql("SELECT label, target, parameters FROM agents ORDER BY label").rows()
        assert opened.sql("SELECT sum(parameters.rate) + max(parameters.depth_) FROM agents").item() == 3.5
    empty = {"Depth": None, "depth_": None, "name": None, "rate": None, "safe": None, "weights": None}
    assert rows[0] == ("a", "m.A", empty | {"depth_": 2, "rate": 1.0, "safe": True, "weights": "[1, 2]"})
    assert rows[1] == ("b", "m.B", empty | {"Depth": "deep", "rate": 0.5, "name": "x"})


def test_settings_of_sweeps_are_typed(archive: ArchiveStore) -> None:
    for job, texts in enumerate([("2", "1e-3", "true", "x"), ("10", "5", "False", "null")]):
        names = ("a.depth", "rate", "safe", "label")
        archive.write_sweep_job(SweepJob("s", job, dict(zip(names, texts, strict=True)), None))
    with open_archive(archive.root) as opened:
        settings = opened.sql("SELECT overrides['a.depth'] AS depth, unnest(overrides) FROM sweeps ORDER BY depth")
    assert settings.drop("a.depth").rows() == [(2, "x", 0.001, True), (10, None, 5.0, False)]


def test_policies_and_their_tables(archive: ArchiveStore) -> None:
    policy_store.save(archive, COUNTS, origin())
    card = policy_store.save(archive, GENES, origin("genes"))
    columns = "name, kind, current, parameters.rate, parameters.alpha, rows"
    joined = "SELECT a.value, b.value AS other FROM policy('mine') a JOIN policy('mine') b USING (board, cell)"
    with open_archive(archive.root) as opened:
        rows = opened.sql(f"SELECT {columns} FROM policies ORDER BY name").rows()
        assert rows == [("genes", "genome", True, None, 0.25, None), ("mine", "counts", True, 0.5, None, 3)]
        assert opened.sql(joined)["value"].to_list() == COUNTS.table["value"].tolist()
        assert opened.sql("SELECT max(cell) * 100 AS widened FROM policy('mine')").item() == 300
        genes = "SELECT gene, a.value FROM policy('genes') a JOIN policy($1) b USING (gene) ORDER BY gene"
        rows = opened.sql(genes.replace("$1", f"'{card.policy_id}'")).rows()
        assert rows == [("alpha", 0.25), ("beta", 0.75)]
        assert opened.policy("genes").collect().sort("gene").rows() == rows
        assert opened.policy("mine").collect().equals(opened.sql("FROM policy('mine')"))
        assert opened.sql("PIVOT policy('mine') ON cell USING count(*)").height == 3
        for ask in (lambda: opened.sql("FROM policy('mien')"), lambda: opened.policy("mien")):
            with pytest.raises(RequestError, match=r"policy 'mien' is not in archive .*; did you mean 'mine'"):
                ask()


@pytest.fixture(scope="module")
def indexed_archive(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenArchive]:
    """Write the archive of ``conftest`` and runs by other rules, all indexed to the last ply."""
    archive = write_filled_archive(tmp_path_factory.mktemp("indexed") / "archive")
    for name in ("torus_square", "own_piece"):
        other = record(build_spec(PRESETS[name]))
        archive.write_run_and_unit_count(other)
        store(archive, other.run_id, [random_block(3, 1, 0, rules=PRESETS[name])])
    index(archive, 16)
    with open_archive(archive.root) as opened:
        yield opened


def test_the_view_counts_every_ply_for_who_placed(indexed_archive: OpenArchive) -> None:
    by_agent = """
        SELECT run_id, ply, agent, sum(games) AS games, sum(wins) AS wins, sum(draws) AS draws, sum(losses) AS losses
        FROM positions GROUP BY ALL ORDER BY ALL"""
    by_ply = """
        SELECT run_id, ply, if(seat = 0, agent_0, agent_1) AS agent, count(*) AS games, sum((outcome = 1)::INT) AS wins,
               sum((outcome = 0)::INT) AS draws, sum((outcome = -1)::INT) AS losses
        FROM plies JOIN games USING (run_id, game_id) GROUP BY ALL ORDER BY ALL"""
    assert indexed_archive.sql(by_agent).rows() == indexed_archive.sql(by_ply).rows()
    opponents = indexed_archive.sql(
        "SELECT count(*) AS wrong FROM positions WHERE agent = opponent OR opponent IS NULL"
    )
    assert opponents["wrong"].item() == 0


def test_the_text_of_a_position_is_that_of_its_row(indexed_archive: OpenArchive) -> None:
    assert list(indexed_archive.sql("FROM positions LIMIT 0").columns) == list(VIEWS["positions"])
    rows = indexed_archive.sql("SELECT * FROM positions USING SAMPLE reservoir(60 ROWS) REPEATABLE (1)")
    texts = indexed_archive.sql("SELECT rules, position, position_text(occupied, board, rules) AS text FROM positions")
    assert texts["rules"].n_unique() == 3
    assert texts["position"].equals(texts["text"])
    assert rows["ply"].n_unique() > 8
    for row in rows.iter_rows(named=True):
        position, rules_name = parse_position(row["position"])
        turns = list_canonical_turns(position, PRESETS[row["rules"]])
        assert rules_name == row["rules"]
        assert (position.occupied, position.occupied.bit_count()) == (row["occupied"], row["ply"])
        assert set(turns["board"]) == {row["board"]}
        mine = (row["cell"], -1 if row["piece"] is None else row["piece"])
        assert mine in set(turns.select("cell", "piece").iter_rows())


def test_a_condition_on_many_runs_has_few_parts(archive: ArchiveStore) -> None:
    run_ids = [f"{number:012x}" for number in range(10 * MAX_COMPARED)]
    questions = [
        f"SELECT count(plies) FROM games WHERE {run_condition_sql(ids)}" for ids in (run_ids, [*run_ids, RUN_ID])
    ]
    with OpenArchive(archive.root) as opened:
        assert all(len([*walk_nodes(opened.parse_query(question).tree)]) < 100 for question in questions)
        without, with_run = (opened.sql(question).item() for question in questions)
        assert (without, with_run) == (0, opened.sql("SELECT count(plies) FROM games").item())


def test_a_query_for_many_games_is_as_short_as_for_one(archive: ArchiveStore, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = list[str]()
    query_files_by_path = OpenArchive.query_files_by_path

    def note(opened: OpenArchive, text: str, **frames: pl.DataFrame) -> pl.DataFrame:
        texts.append(text)
        return query_files_by_path(opened, text, **frames)

    monkeypatch.setattr(OpenArchive, "query_files_by_path", note)
    with OpenArchive(archive.root) as opened:
        games = opened.sql("SELECT run_id, game_id FROM games ORDER BY ALL")
        plies = opened.sql("SELECT run_id, game_id, ply, piece, cell FROM plies ORDER BY ALL")
        for wanted in (games, games[:1].vstack(games[-1:])):
            rows = read_ply_rows(opened, wanted)
            assert rows.rows() == plies.join(wanted, on=("run_id", "game_id"), how="semi").rows()
    assert len(set(texts)) == 1
