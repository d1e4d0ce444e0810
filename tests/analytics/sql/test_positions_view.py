from __future__ import annotations

import pytest

from analytics import open_archive
from analytics.derived_tables.positions import turns_in
from analytics.derived_tables.tables import NotIndexedError
from analytics.sql.views import VIEWS
from analytics.store.archive import Archive
from quarto.errors import FailureError
from quarto.notation import parse_position
from tests.analytics.conftest import filled
from tests.analytics.indexed import index
from tests.analytics.naive_games import RUN_ID, random_block, record, spec_of, store
from tests.naive import PRESETS


@pytest.fixture(scope="module")
def indexed(tmp_path_factory: pytest.TempPathFactory) -> Archive:
    """The archive of ``conftest`` and runs by other rules, all indexed to the last ply. No test changes it."""
    archive = filled(tmp_path_factory.mktemp("indexed") / "archive")
    for name in ("torus_square", "own_piece"):
        other = record(spec_of(PRESETS[name]))
        archive.save_run(other)
        store(archive, other.run_id, [random_block(3, 1, 0, rules=PRESETS[name])])
    index(archive, 16)
    return archive


def test_the_view_counts_every_ply_for_who_placed(indexed: Archive) -> None:
    by_agent = """
        SELECT run_id, ply, agent, sum(games) AS games, sum(wins) AS wins, sum(draws) AS draws, sum(losses) AS losses
        FROM positions GROUP BY ALL ORDER BY ALL"""
    by_ply = """
        SELECT run_id, ply, if(seat = 0, agent_0, agent_1) AS agent, count(*) AS games, sum((outcome = 1)::INT) AS wins,
               sum((outcome = 0)::INT) AS draws, sum((outcome = -1)::INT) AS losses
        FROM plies JOIN games USING (run_id, game_id) GROUP BY ALL ORDER BY ALL"""
    with open_archive(indexed.root) as opened:
        assert opened.sql(by_agent).rows() == opened.sql(by_ply).rows()
        opponents = opened.sql("SELECT count(*) AS wrong FROM positions WHERE agent = opponent OR opponent IS NULL")
        assert opponents["wrong"].item() == 0


def test_the_text_of_a_position_is_that_of_its_row(indexed: Archive) -> None:
    with open_archive(indexed.root) as opened:
        assert list(opened.sql("FROM positions LIMIT 0").columns) == list(VIEWS["positions"])
        rows = opened.sql("SELECT * FROM positions USING SAMPLE reservoir(60 ROWS) REPEATABLE (1)")
        texts = opened.sql("SELECT rules, position, position_text(occupied, board, rules) AS text FROM positions")
    assert texts["rules"].n_unique() == 3
    assert texts["position"].equals(texts["text"])
    assert rows["ply"].n_unique() > 8
    for row in rows.iter_rows(named=True):
        position, rules_name = parse_position(row["position"])
        turns = turns_in(position, PRESETS[row["rules"]])
        assert rules_name == row["rules"]
        assert (position.occupied, position.occupied.bit_count()) == (row["occupied"], row["ply"])
        assert set(turns["board"]) == {row["board"]}
        mine = (row["cell"], -1 if row["piece"] is None else row["piece"])
        assert mine in set(turns.select("cell", "piece").iter_rows())


def test_the_sample_is_a_game_that_was_there(indexed: Archive) -> None:
    with open_archive(indexed.root) as opened:
        missing = opened.sql("""
            SELECT count(*) AS missing FROM positions ANTI JOIN plies
            ON positions.run_id = plies.run_id AND sample_game = game_id AND positions.ply = plies.ply""")
        assert missing["missing"].item() == 0


def test_a_part_of_the_positions_is_no_answer(archive: Archive) -> None:
    def complaint() -> str:
        with open_archive(archive.root) as opened:
            assert opened.sql("SELECT count(*) AS games FROM games")["games"].item() > 0
            with pytest.raises(FailureError) as caught:
                opened.sql("SELECT count(*) FROM positions")
            with pytest.raises(NotIndexedError, match="are not indexed"):
                opened.positions()
            return str(caught.value)

    index(archive, 4)
    hint = f"ranges of games of run {RUN_ID} are not indexed to ply 6: run 'qarena archive index' first"
    assert complaint() == f"2 of 2 {hint}"
    index(archive, 6, lambda stored: stored.first == 0)
    assert complaint() == f"1 of 2 {hint}"
    index(archive, 6, lambda stored: stored.first > 0)
    index(archive, 8, lambda stored: stored.first == 0)  # deeper in part: the view stays as deep as all are
    with open_archive(archive.root) as opened:
        assert opened.sql("SELECT max(ply) FROM positions").item() == 5
