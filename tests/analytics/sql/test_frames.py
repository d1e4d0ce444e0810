"""The LazyFrames are the views; parameters and frames of one's own in a question; the archive says what it holds."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from analytics import open_archive
from analytics.policies import policy_store
from analytics.sql.database import OpenArchive
from analytics.sql.views import VIEWS
from analytics.store.archive import Archive
from analytics.store.records import SweepJob
from quarto.errors import FailureError, RequestError
from tests.analytics.conftest import filled
from tests.analytics.folders import copied
from tests.analytics.indexed import decide, index, save_verdict
from tests.analytics.naive_games import RUN_ID, random_block, record, spec_of, store
from tests.analytics.stored_policies import COUNTS, GENES, origin
from tests.marks import seldom
from tests.naive import PRESETS


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Archive:
    """An archive in which no view is empty, with runs by two rules. No test changes it."""
    archive = filled(tmp_path_factory.mktemp("whole") / "archive")
    other = record(spec_of(PRESETS["own_piece"]))
    archive.save_run(other)
    store(archive, other.run_id, [random_block(3, 1, 0, rules=PRESETS["own_piece"])])
    archive.save_run(record(run_id=RUN_ID))
    archive.save_sweep_job(SweepJob("s", 0, {"rules": "classic", "games": "20"}, RUN_ID))
    save_verdict(archive, RUN_ID)
    policy_store.save(archive, COUNTS, origin())
    policy_store.save(archive, GENES, origin("genes"))
    for run_id in archive.run_ids():
        decide(archive, run_id)
    index(archive, 16)
    return archive


def test_each_view_is_a_lazy_frame_of_the_same_rows(whole: Archive) -> None:
    with open_archive(whole.root) as opened:
        for view in VIEWS:
            in_sql = opened.sql(f"FROM {view}")
            lazy = getattr(opened, view)()
            found = lazy.with_columns(pl.col(pl.Categorical, pl.Enum).cast(pl.String)).collect()
            assert isinstance(lazy, pl.LazyFrame)
            assert found.schema == in_sql.schema, view
            order = [name for name, kind in in_sql.schema.items() if not kind.is_nested()]
            assert found.height > 0
            assert found.sort(order).equals(in_sql.sort(order)), view


@pytest.mark.parametrize("plies", [3, *seldom(1, 8)])
def test_openings_in_order_are_a_lazy_frame_of_the_same_rows(whole: Archive, plies: int) -> None:
    with open_archive(whole.root) as opened:
        in_sql = opened.sql(f"FROM ordered_openings({plies})")
        assert in_sql.height > 0
        found = opened.ordered_openings(plies).collect()
        assert found.schema == in_sql.schema
        assert found.sort("run_id", "game_id").equals(in_sql.sort("run_id", "game_id"))
        (first, *_) = in_sql["run_id"]
        assert opened.ordered_openings(plies, first).collect().height == (in_sql["run_id"] == first).sum()
        with pytest.raises(RequestError, match="plies must be 1 to 8"):
            opened.ordered_openings(plies + 8)


def test_a_lazy_frame_may_be_of_one_run(whole: Archive) -> None:
    with open_archive(whole.root) as opened:
        for view in ("games", "plies", "seats", "pairs", "boards", "decisions", "positions"):
            counts = dict(getattr(opened, view)().group_by("run_id").len().collect().iter_rows())
            assert len(counts) == 2
            for run_id, rows in counts.items():
                assert getattr(opened, view)(run_id).collect()["run_id"].to_list() == [run_id] * rows
            with pytest.raises(RequestError, match="is not in archive"):
                getattr(opened, view)("ffffffffffff")


def test_lazy_boards_read_no_more_than_is_asked_for(whole: Archive) -> None:
    with open_archive(whole.root) as opened:
        boards = opened.boards()
        assert boards.select("before").head(3).collect().shape == (3, 1)
        late = boards.filter(pl.col("ply") == 9).select("occupied").collect()["occupied"]
    assert (late.bitwise_count_ones() == 9).all()


# Questions with values and tables of one's own.


def test_parameters(archive: Archive) -> None:
    with open_archive(archive.root) as opened:
        count = opened.sql("SELECT count(*) FROM plies WHERE ply = 0").item()
        assert opened.sql("SELECT count(*) FROM plies WHERE ply = ?", [0]).item() == count
        assert opened.sql("SELECT count(*) FROM plies WHERE ply = $ply", {"ply": 0}).item() == count
        assert opened.sql("SELECT $1 AS text", ["x'; DROP VIEW games"]).item() == "x'; DROP VIEW games"
        for text, values in (("SELECT ?", []), ("SELECT 1", [2]), ("SELECT $a", {"b": 1}), ("SELECT ?", None)):
            with pytest.raises(RequestError, match="SQL: "):
                opened.sql(text, values)
        assert opened.sql("SELECT 1 AS one").item() == 1


@pytest.mark.parametrize("lazy", [False, True])
def test_a_frame_of_ones_own_in_a_question(archive: Archive, lazy: bool) -> None:
    mine = pl.DataFrame({"cell": [0, 6], "weight": [0.5, 2.0], "note": ["a", None]})
    joined = "plies JOIN mine USING (cell) WHERE ply = 0"
    text = f"SELECT note, sum(weight) AS total FROM {joined} GROUP BY note ORDER BY note"
    with open_archive(archive.root) as opened:
        found = opened.sql(text, mine=mine.lazy() if lazy else mine)
        firsts = opened.plies().filter(ply=0).collect()["cell"].to_list()
        assert found.rows() == [("a", 0.5 * firsts.count(0)), (None, 2.0 * firsts.count(6))]
        with pytest.raises(RequestError, match="there is no table 'mine'"):
            opened.sql(text)
        with pytest.raises(RequestError, match="a frame named 'Games' would hide the view games"):
            opened.sql("FROM Games", Games=mine)
        with pytest.raises(RequestError, match="mine=int is not a frame that DuckDB reads"):
            opened.sql("FROM mine", mine=3)
        assert opened.sql("SELECT count(*) FROM games").item() == 48


# What is inside.


def test_an_archive_says_what_it_holds(whole: Archive) -> None:
    with open_archive(whole.root) as opened:
        text = repr(opened)
        assert text.startswith(f"archive {whole.root}: 2 runs, 64 games")
        assert all(view in text for view in VIEWS)
        page = opened._repr_html_()
        assert RUN_ID in page
        assert "<table" in page


def test_a_damaged_record_does_not_hide_the_rest(whole: Archive, tmp_path: Path) -> None:
    whole = copied(whole, tmp_path / "archive")
    Path(whole.root / "runs" / f"{RUN_ID}.json").write_text("{<b>")
    with OpenArchive(whole.root) as opened:
        assert "2 runs, 16 games" in repr(opened)  # how many games a pair of the other has is not known
        assert f"{RUN_ID}.json is damaged" in opened._repr_html_()
        with pytest.raises(FailureError, match="is damaged"):
            opened.runs()
