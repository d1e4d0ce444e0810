"""Open archives: their files and views, the LazyFrames, parameters and frames of one's own, what is inside."""

from __future__ import annotations

import datetime as dt
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from pathlib import Path

import polars as pl
import pytest

from analytics import open_archive
from analytics.questions.pairings import load_results
from analytics.questions.sql.database import OpenArchive
from analytics.questions.sql.views import VIEWS
from analytics.store import policy_store
from analytics.store.archive import ArchiveStore
from analytics.store.records import SweepJob
from analytics.store.run_notes import update_note
from analytics.store.schema import TABLE_SCHEMAS
from quarto.errors import FailureError, RequestError
from tests.analytics.conftest import write_filled_archive
from tests.analytics.folders import copy_archive
from tests.analytics.indexed import decide, index, save_verdict, write_draw_evaluations
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
from tests.marks import seldom
from tests.naive import PRESETS
from tests.paths import ROOT

OTHER = record(build_spec(seed=8))  # a run that the archive does not hold yet

WIDENED = {pl.Int8: pl.Int32, pl.Categorical: pl.String, pl.Enum: pl.String}


def test_after_a_fork_a_question_is_an_error_and_does_not_hang(
    opened: OpenArchive, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "getpid", lambda: -1)
    questions: tuple[Callable[[], object], ...] = (
        lambda: opened.sql("SELECT 1"),
        lambda: opened.read_first_rows("SELECT 1", 1),
        *(partial(opened.scan, view) for view in ("games", "runs", "boards")),
        lambda: opened.policy("counts"),
        lambda: opened.ordered_openings(2),
    )
    for question in questions:
        with pytest.raises(RequestError, match=r"process that fork\(\) made.*get_context\('spawn'\)"):
            question()


def test_types_are_the_same_with_and_without_games(opened: OpenArchive, tmp_path: Path) -> None:
    more = {"rules": pl.String(), "opening_number": pl.Int64(), "game_number": pl.Int64()}
    with OpenArchive(ArchiveStore.open(tmp_path / "empty", create=True).root) as empty:
        for table, reader in product(TABLE_SCHEMAS, (opened, empty)):
            expected = {"run_id": pl.String(), **TABLE_SCHEMAS[table], **(more if table == "games" else {})}
            in_sql = {name: WIDENED.get(type(kind), kind) for name, kind in expected.items()}
            assert reader.sql(f"FROM {table} LIMIT 0").schema == in_sql
            lazy = {name: pl.Int32 if kind == pl.Int8 else kind for name, kind in expected.items()}
            assert reader.scan(table).collect_schema() == lazy
            assert reader.sql(f"SELECT count(*) > 0 FROM {table}").item() == (reader is opened)


def test_small_integers_are_widened(opened: OpenArchive) -> None:
    assert opened.sql("SELECT max(piece * 16 + cell) FROM plies").item() > 127
    assert opened.scan("plies").select((pl.col("piece") * 16 + pl.col("cell")).max()).collect().item() > 127


def test_only_the_row_groups_of_a_ply_are_read(tmp_path: Path) -> None:
    """Store over 180,000 rows: three row groups, the first of which holds all first plies."""
    archive = ArchiveStore.open(tmp_path / "archive", create=True)
    run = record(build_spec(pairings=PAIRINGS[:1]))
    archive.write_run_and_unit_count(run)
    block = random_block(1, pairs=64)
    store(archive, run.run_id, [block._replace(first_pair=64 * i) for i in range(128)], PAIRINGS[:1])
    with OpenArchive(archive.root) as opened:
        plan = opened.sql("EXPLAIN ANALYZE SELECT avg(outcome) FROM plies WHERE ply = 0")["explain_value"][0]
    assert "Row Groups Scanned: 1 / 3" in plan


def test_all_views_are_of_one_moment_until_the_archive_is_looked_at_again(archive: ArchiveStore) -> None:
    """Ask only after others have written, so that every view is filled after that."""
    counts = f"""SELECT (SELECT count(*) FROM games), (SELECT sum(games) FROM runs WHERE run_id = '{RUN_ID}'),
        (SELECT count(*) FROM runs), (SELECT count(*) FROM sweeps), (SELECT count(*) FROM verdicts)"""
    with OpenArchive(archive.root) as opened:
        store(archive, RUN_ID, [random_block(1, 0, 50)])
        archive.write_run_and_unit_count(OTHER)
        archive.write_sweep_job(SweepJob("s", 0))
        save_verdict(archive, RUN_ID)
        for _ in range(2):
            assert opened.sql(counts).row(0) == (48, 48, 1, 0, 0)
            assert opened.sql("SELECT sum(games) FROM results").item() == 2 * 48  # a row for each of the two
            opened.close()
        opened.refresh()
        assert opened.sql(counts).row(0) == (64, 64, 2, 1, 1)


@pytest.mark.parametrize(
    "folder",
    ["it's; DROP [all] */run_id=x/plies=3", *seldom("run=0123456789ab/a", "opening=2/a", "run=5/a")],
)
def test_a_path_is_only_a_path_and_a_run_id_no_number(tmp_path: Path, folder: str) -> None:
    archive = ArchiveStore.open(tmp_path / folder, create=True)
    run_id = "0000000000e5"
    archive.write_run_and_unit_count(record(run_id=run_id))
    store(archive, run_id, BLOCKS)
    rows_of_games, rows_of_plies = naive_rows(BLOCKS, PAIRINGS)
    games = [(run_id, *row, "classic", None, number_of(row[0], 3)) for row in rows_of_games]
    plies = [(run_id, *row) for row in rows_of_plies]
    with OpenArchive(archive.root) as opened:
        assert opened.sql("FROM games ORDER BY game_id").rows() == games
        assert opened.sql("FROM plies ORDER BY ply, game_id").rows() == plies
        assert opened.scan("games").filter(pl.col("run_id") == run_id).sort("game_id").collect().rows() == games
        assert opened.sql(f"SELECT count(*) FROM games WHERE run_id = '{run_id}'").item() == len(games)
        assert opened.scan("plies").sort("ply", "game_id").collect().rows() == plies


def number_of(game_id: int, pairings: int, swapped: bool = True) -> int:
    """Return the place of a game in its run, in which a pair of each pairing follows a pair of the pairing before."""
    pair, game = divmod(game_id % 2**32, 2)
    unit = pair * pairings + game_id // 2**32
    return 2 * unit + game if swapped else unit


def test_games_know_their_rules_their_opening_and_their_place(archive: ArchiveStore) -> None:
    square, fixed = (
        record(build_spec(PRESETS["square"], opening_plies=2)),
        record(build_spec(seats="fixed")),
    )
    for run in (square, fixed):
        archive.write_run_and_unit_count(run)
    store(archive, square.run_id, [random_block(2, pairing, rules=PRESETS["square"]) for pairing in range(3)])
    store(archive, fixed.run_id, [single_games(1, pairing) for pairing in range(3)])
    with OpenArchive(archive.root) as opened:
        rows = opened.sql("SELECT run_id, game_id, rules, opening_number, game_number FROM games").rows()
        for view in ("seats", "pairs", "games"):
            of_square = opened.sql(f"SELECT count(*), count(opening_number) FROM {view} WHERE rules = 'square'").row(0)
            assert of_square[0] == of_square[1] == {"seats": 96, "pairs": 24, "games": 48}[view]
        same = opened.sql("SELECT opening_number FROM pairs WHERE rules = 'square' AND pair_id & 2147483647 = 5")
        plan = opened.sql("EXPLAIN ANALYZE SELECT count(*) FROM games WHERE rules = 'square'")["explain_value"][0]
    assert same["opening_number"].to_list() == [5, 5, 5]
    assert len({(run_id, number) for run_id, *_, number in rows}) == len(rows) == 48 + 48 + 24
    for run_id, game_id, rules, opening, number in rows:
        assert rules == ("square" if run_id == square.run_id else "classic")
        assert opening == (game_id % 2**32 // 2 if run_id == square.run_id else None)
        assert number == number_of(game_id, 3, run_id != fixed.run_id)
    assert plan.count("Total Files Read") == 1  # those of other rules stay closed


@pytest.mark.parametrize("damage", [Path.unlink, lambda path: path.write_text("{")], ids=["lost", "damaged"])
def test_without_its_record_the_rules_of_a_run_are_not_told(
    archive: ArchiveStore, damage: Callable[[Path], object]
) -> None:
    archive.write_run_and_unit_count(OTHER)
    store(archive, OTHER.run_id, BLOCKS)
    damage(Path(archive.run_record_path(RUN_ID)))
    with OpenArchive(archive.root) as opened:
        assert opened.sql("SELECT count(*) FROM games").item() == 96  # for which no record is needed
        assert opened.sql(f"SELECT DISTINCT rules FROM games WHERE run_id = '{OTHER.run_id}'").rows() == [("classic",)]
        for question in (
            "SELECT DISTINCT rules, game_number FROM games",
            "SELECT count(*) FROM games WHERE rules = 'classic'",
            "SELECT count(*) FROM seats WHERE rules = 'classic'",
            "SELECT count(opening_number) FROM pairs",
        ):
            with pytest.raises(FailureError, match=f"runs/{RUN_ID}.json"):
                opened.sql(question)
        with pytest.raises(FailureError, match=f"runs/{RUN_ID}.json"):
            opened.scan("games")
        assert len(opened.scan("games", OTHER.run_id).select("rules").collect()) == 48


def test_a_condition_on_the_run_leaves_the_files_of_others_closed(archive: ArchiveStore) -> None:
    archive.write_run_and_unit_count(OTHER)
    store(archive, OTHER.run_id, BLOCKS)
    question = f"SELECT avg(outcome) FROM plies WHERE run_id = '{RUN_ID}'"
    with OpenArchive(archive.root) as opened:
        plan = opened.sql(f"EXPLAIN ANALYZE {question}")["explain_value"][0]
    assert "Total Files Read: 2" in plan


# Runs and sweeps.


def test_the_view_runs(archive: ArchiveStore) -> None:
    created = "2026-11-21T05:07:00+00:00"
    archive.write_run_and_unit_count(
        record(build_spec(opening_plies=2), run_id=RUN_ID, created=created, games=20, status="complete", seconds=1.5)
    )
    archive.write_run_and_unit_count(
        record(build_spec(pairings=[("it's", "b")]), run_id="ffffffffffff", created=created)
    )
    update_note(archive, RUN_ID, "first try")
    with OpenArchive(archive.root) as opened:
        rows = opened.sql("SELECT * FROM runs ORDER BY run_id").rows(named=True)
    assert rows[0] == {
        "run_id": RUN_ID,
        "created": dt.datetime(2026, 11, 21, 5, 7),  # noqa: DTZ001 - as TIMESTAMP is: UTC, and it does not say so
        "status": "complete",
        "rules": "classic",
        "agents": ["random", "rule_based", "dumb(depth=2)"],
        "pairings": 3,
        "seed": 7,
        "opening_plies": 2,
        "games_asked": 60,
        "games": 48,
        "ranges": 2,
        "fingerprint": f"{archive.list_effective_ranges(RUN_ID).fingerprint:016x}",
        "code_version": "0.1.0",
        "code_fingerprint": "ab" * 32,
        "command": "qarena run",
        "seconds": 1.5,
        "name": "first try",
        "note": None,
    }
    assert (rows[1]["agents"], rows[1]["games"], rows[1]["ranges"]) == (["it's", "b"], 0, 0)


def test_the_view_sweeps_has_a_row_for_each_pairing_of_a_job(archive: ArchiveStore) -> None:
    archive.write_sweep_job(SweepJob("s", 0, {"rules": "classic", "opening_plies": "0"}, RUN_ID, games=20))
    archive.write_sweep_job(SweepJob("s", 1, {"rules": "round"}, None, "failed", "no such rules"))
    archive.write_sweep_job(SweepJob("s", 2, {}, "ffffffffffff", "interrupted"))
    with OpenArchive(archive.root) as opened:
        rows = opened.sql("SELECT * FROM sweeps ORDER BY job, agent_a, agent_b").rows(named=True)
        assert opened.sql("SELECT overrides['rules'] FROM sweeps WHERE job = 1").item() == "round"
    by_pairing = {(result.first, result.second): result for result in load_results(archive, RUN_ID)}
    assert [row["job"] for row in rows] == [0, 0, 0, 1, 2]
    for row in rows[:3]:
        result = by_pairing[row["agent_a"], row["agent_b"]]
        assert [row[name] for name in ("games", "wins", "draws", "losses")] == [
            result.games,
            result.wins,
            result.draws,
            result.losses,
        ]
        assert (row["win_rate"], row["win_low"], row["win_high"]) == result.win_rate
        assert (row["score"], row["score_low"], row["score_high"]) == result.score
        assert (row["run_id"], row["status"], row["error"]) == (RUN_ID, "complete", None)
    assert (rows[3]["status"], rows[3]["error"], rows[3]["agent_a"]) == ("failed", "no such rules", None)
    assert (rows[4]["status"], rows[4]["run_id"], rows[4]["games"]) == ("interrupted", "ffffffffffff", None)


# Opening.


def in_a_process(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], cwd=ROOT, capture_output=True, text=True, check=False
    )


@pytest.mark.slow
@pytest.mark.parametrize("close", ["pass", "opened.close()"])
def test_a_script_leaves_nothing_on_the_standard_error(archive: ArchiveStore, close: str) -> None:
    done = in_a_process(
        f"""
        import analytics
        from quarto.errors import RequestError
        opened = analytics.open_archive({str(archive.root)!r})
        print(opened.sql("SELECT count(*) FROM games").item())
        for wrong in ("selec", "SELECT pice FROM plies", "SELECT 'x'::INT", "DROP VIEW games", "SELECT INTERVAL 1 DAY",
                      "SELECT 1 a, 2 a", "SELECT range * 9000000000000 FROM range(9999999)"):
            try:
                opened.sql(wrong)
            except RequestError as error:
                kept = error
        print(opened.scan("plies").collect().height > 0)
        {close}
        """
    )
    assert (done.stdout, done.stderr) == ("48\nTrue\n", "")


def test_importing_analytics_is_cheap() -> None:
    done = in_a_process(
        "import sys, analytics; print(sorted({'duckdb', 'numba', 'numpy', 'polars'} & set(sys.modules)))"
    )
    assert done.stdout == "[]\n"


@pytest.fixture(scope="module")
def full(full_archive: ArchiveStore) -> Iterator[OpenArchive]:
    """Open ``full_archive`` once."""
    with open_archive(full_archive.root) as opened:
        yield opened


@pytest.fixture(scope="module")
def full_archive(tmp_path_factory: pytest.TempPathFactory) -> ArchiveStore:
    """Write an archive in which no view is empty, with runs by two rules. No test changes it."""
    archive = write_filled_archive(tmp_path_factory.mktemp("whole") / "archive")
    other = record(build_spec(PRESETS["own_piece"]))
    archive.write_run_and_unit_count(other)
    store(archive, other.run_id, [random_block(3, 1, 0, rules=PRESETS["own_piece"])])
    archive.write_run_and_unit_count(record(run_id=RUN_ID))
    archive.write_sweep_job(SweepJob("s", 0, {"rules": "classic", "games": "20"}, RUN_ID))
    save_verdict(archive, RUN_ID)
    policy_store.save(archive, COUNTS, origin())
    policy_store.save(archive, GENES, origin("genes"))
    for run_id in archive.list_ids_of_runs_with_games():
        decide(archive, run_id)
        write_draw_evaluations(archive, run_id)
    index(archive, 16)
    return archive


def test_each_view_is_a_lazy_frame_of_the_same_rows(full: OpenArchive) -> None:
    for view in VIEWS:
        in_sql = full.sql(f"FROM {view}")
        lazy = full.scan(view)
        rows = lazy.with_columns(pl.col(pl.Categorical, pl.Enum).cast(pl.String)).collect()
        assert isinstance(lazy, pl.LazyFrame)
        assert rows.schema == in_sql.schema, view
        order = [name for name, kind in in_sql.schema.items() if not kind.is_nested()]
        assert rows.height > 0
        assert rows.sort(order).equals(in_sql.sort(order)), view


@pytest.mark.parametrize("plies", [3, *seldom(1, 8)])
def test_openings_in_order_are_a_lazy_frame_of_the_same_rows(full: OpenArchive, plies: int) -> None:
    in_sql = full.sql(f"FROM ordered_openings({plies})")
    assert in_sql.height > 0
    rows = full.ordered_openings(plies).collect()
    assert rows.schema == in_sql.schema
    assert rows.sort("run_id", "game_id").equals(in_sql.sort("run_id", "game_id"))
    (first, *_) = in_sql["run_id"]
    assert full.ordered_openings(plies, first).collect().height == (in_sql["run_id"] == first).sum()
    with pytest.raises(RequestError, match="plies must be 1 to 8"):
        full.ordered_openings(plies + 8)


def test_a_lazy_frame_may_be_of_one_run(full: OpenArchive) -> None:
    for view in ("games", "pairs", "boards", "positions"):
        counts = dict(full.sql(f"SELECT run_id, count(*) FROM {view} GROUP BY run_id").iter_rows())
        assert len(counts) == 2
        for run_id, rows in counts.items():
            assert full.scan(view, run_id).collect()["run_id"].to_list() == [run_id] * rows
        with pytest.raises(RequestError, match="is not in archive"):
            full.scan(view, "ffffffffffff")


def test_lazy_boards_read_no_more_than_is_asked_for(full: OpenArchive) -> None:
    boards = full.scan("boards")
    assert boards.select("before").head(3).collect().shape == (3, 1)
    late = boards.filter(pl.col("ply") == 9).select("occupied").collect()["occupied"]
    assert (late.bitwise_count_ones() == 9).all()


# Questions with values and tables of one's own.


def test_parameters(opened: OpenArchive) -> None:
    count = opened.sql("SELECT count(*) FROM plies WHERE ply = 0").item()
    assert opened.sql("SELECT count(*) FROM plies WHERE ply = ?", [0]).item() == count
    assert opened.sql("SELECT count(*) FROM plies WHERE ply = $ply", {"ply": 0}).item() == count
    assert opened.sql("SELECT $1 AS text", ["x'; DROP VIEW games"]).item() == "x'; DROP VIEW games"
    for text, values in (("SELECT ?", []), ("SELECT 1", [2]), ("SELECT $a", {"b": 1}), ("SELECT ?", None)):
        with pytest.raises(RequestError, match="SQL: "):
            opened.sql(text, values)
    assert opened.sql("SELECT 1 AS one").item() == 1


@pytest.mark.parametrize("lazy", [False, True])
def test_a_frame_of_ones_own_in_a_question(opened: OpenArchive, lazy: bool) -> None:
    mine = pl.DataFrame({"cell": [0, 6], "weight": [0.5, 2.0], "note": ["a", None]})
    joined = "plies JOIN mine USING (cell) WHERE ply = 0"
    text = f"SELECT note, sum(weight) AS total FROM {joined} GROUP BY note ORDER BY note"
    rows = opened.sql(text, mine=mine.lazy() if lazy else mine)
    firsts = opened.scan("plies").filter(ply=0).collect()["cell"].to_list()
    assert rows.rows() == [("a", 0.5 * firsts.count(0)), (None, 2.0 * firsts.count(6))]
    with pytest.raises(RequestError, match="there is no table 'mine'"):
        opened.sql(text)
    with pytest.raises(RequestError, match="a frame named 'Games' would hide the view games"):
        opened.sql("FROM Games", Games=mine)
    with pytest.raises(RequestError, match="Scalar Function with name nothing does not exist"):
        opened.sql("SELECT nothing(cell) FROM _keys", _keys=mine)
    with pytest.raises(RequestError, match="mine=int is not a frame that DuckDB reads"):
        opened.sql("FROM mine", mine=3)
    assert opened.sql("SELECT count(*) FROM games").item() == 48


# What is inside.


def test_an_archive_says_what_it_holds(full: OpenArchive) -> None:
    text = repr(full)
    assert text.startswith(f"archive {full.archive.root}: 2 runs, 64 games")
    assert all(view in text for view in VIEWS)
    page = full._repr_html_()
    assert RUN_ID in page
    assert "<table" in page


def test_a_damaged_record_does_not_hide_the_rest(full_archive: ArchiveStore, tmp_path: Path) -> None:
    full_archive = copy_archive(full_archive, tmp_path / "archive")
    Path(full_archive.root / "runs" / f"{RUN_ID}.json").write_text("{<b>")
    with OpenArchive(full_archive.root) as opened:
        assert "2 runs, 16 games" in repr(opened)  # how many games a pair of the other has is not known
        assert f"{RUN_ID}.json is damaged" in opened._repr_html_()
        with pytest.raises(FailureError, match="is damaged"):
            opened.scan("runs")
