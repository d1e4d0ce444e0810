from pathlib import Path

import numpy as np
import pytest

from analytics import open_archive
from analytics.query.selection import select
from analytics.ratings.head_to_head import head_to_head
from analytics.store.archive import Archive
from analytics.verify.archive import verify
from quarto.batch import ENDINGS
from quarto.errors import FailureError, RequestError
from tests.analytics.folders import forge
from tests.analytics.naive_games import PAIRINGS, RUN_ID, naive_rows, random_block, record, spec_of

OTHER = record(spec_of(seed=8))
BLOCKS = [random_block(1, 0, 0), random_block(1, 1, 0), random_block(1, 0, 8, 4), random_block(1, 2, 0)]


@pytest.fixture
def two_runs(archive: Archive) -> Archive:
    """The archive of ``conftest``, and a run of two shards."""
    archive.save_run(OTHER)
    archive.commit(OTHER.run_id, [random_block(2, 0, 0), random_block(2, 1, 0)], PAIRINGS)
    archive.commit(OTHER.run_id, [random_block(2, 2, 0)], PAIRINGS)
    return archive


def chosen_rows(archive: Archive, where: str | None) -> dict[tuple[str, int], list[tuple[object, ...]]]:
    """By run and game: what the selection says, its plies last."""
    with open_archive(archive.root) as opened:
        selection = select(opened, where)
        rows = {}
        for run, chosen in selection.shards():
            assert np.all(np.diff(chosen.game_id) > 0)
            for i, game_id in enumerate(chosen.game_id.tolist()):
                games, plies = chosen.games, int(chosen.games.plies[i])
                moves = zip(games.pieces[:plies, i].tolist(), games.cells[:plies, i].tolist(), strict=True)
                ended = (ENDINGS[games.ending[i]], int(games.winner[i]), int(chosen.opening[i]), int(chosen.pairing[i]))
                rows[run.run_id, game_id] = [ended, *moves]
        assert len(rows) == selection.games
    return rows


def stored_rows(archive: Archive, where: str) -> dict[tuple[str, int], list[tuple[object, ...]]]:
    """The same, asked for in SQL."""
    with open_archive(archive.root) as opened:
        games = opened.sql(f"SELECT run_id, game_id, ending, winner, opening, pairing FROM games WHERE {where}")
        rows: dict[tuple[str, int], list[tuple[object, ...]]] = {row[:2]: [row[2:]] for row in games.iter_rows()}
        plies = opened.sql("SELECT run_id, game_id, piece, cell FROM plies ORDER BY ply")
        for run_id, game_id, *move in plies.iter_rows():
            if (run_id, game_id) in rows:
                rows[run_id, game_id].append(tuple(move))
    return rows


@pytest.mark.parametrize(
    "where",
    [
        "true",
        "pairing = 1",
        "winner = -1 -- a comment",
        "plies > 8 AND agent_0 = 'random' OR game_id % 7 = 0",
        f"run_id = '{OTHER.run_id}'",
        "run_id IN (SELECT run_id FROM runs WHERE seed = 8) AND pairing = 2",
        "pair_id = 3",
        "agent_0 = 'random' OR agent_1 = 'random()' OR 'sample)' = agent_0",
    ],
)
def test_what_is_chosen_is_what_sql_finds(two_runs: Archive, where: str) -> None:
    expected = stored_rows(two_runs, where.partition("--")[0])
    assert expected
    assert chosen_rows(two_runs, where) == expected


def test_without_a_condition_everything_is_chosen(two_runs: Archive) -> None:
    assert len(chosen_rows(two_runs, None)) == len(naive_rows(BLOCKS, PAIRINGS)[0]) + len(
        chosen_rows(two_runs, f"run_id = '{OTHER.run_id}'")
    )


@pytest.mark.parametrize(
    ("where", "complaint"),
    [
        ("agent_0 = 'nobody'", "has no game with where=\"agent_0 = 'nobody'\""),
        ("winner = ", "is not a condition on games: SQL: Parser Error"),
        ("DELETE FROM games", "is not a condition on games"),
        ("true); DROP VIEW games; SELECT (1", "a bracket is closed that was not opened"),
        ("true) GROUP BY run_id UNION ALL SELECT ('x'", "a bracket is closed that was not opened"),
        ("winner = 0; DELETE FROM games", "is not a condition on games"),
        ("", "is empty: leave it out"),
        (" -- nothing", "is empty: leave it out"),
        ("random() < 0.5", "is random (random())"),
        ("agent_0 = 'a' AND Random ( ) < 0.5", "is random (random())"),
        ("game_id IN (SELECT game_id FROM games USING SAMPLE 10)", "is random (SAMPLE)"),
        ("loser = 1", 'Referenced column "loser" not found'),
        ("agent_0 IN (SELECT * FROM read_csv('/etc/passwd'))", "is not a condition on games"),
    ],
)
def test_a_wrong_condition_is_a_wrong_request(two_runs: Archive, where: str, complaint: str) -> None:
    with open_archive(two_runs.root) as opened, pytest.raises(RequestError) as caught:
        select(opened, where)
    assert complaint in str(caught.value)


def test_a_run_of_another_schema_is_refused_where_it_is_chosen(two_runs: Archive) -> None:
    path = two_runs.root / "runs" / f"{OTHER.run_id}.json"
    forge(path, {"schema_version": 2})
    with open_archive(two_runs.root) as opened:
        for ask in (select, head_to_head):
            with pytest.raises(RequestError, match=f"run {OTHER.run_id} has schema version 2, this program reads 1"):
                ask(opened)
        assert select(opened, f"run_id = '{RUN_ID}'").games > 0
    assert [(problem.file, problem.what) for problem in verify(two_runs).problems] == [
        (path, "its schema version is 2, which this program does not read")
    ]


def test_an_archive_without_games_has_none_to_choose(tmp_path: Path) -> None:
    root = Archive.open(tmp_path / "empty", create=True).root
    with open_archive(root) as opened, pytest.raises(RequestError, match="has no games"):
        select(opened)


def test_games_without_a_record_are_named(two_runs: Archive) -> None:
    (two_runs.root / "runs" / f"{RUN_ID}.json").unlink()
    with open_archive(two_runs.root) as opened, pytest.raises(FailureError, match=f"run {RUN_ID} has games and no"):
        select(opened)


def test_a_damaged_shard_is_named(two_runs: Archive) -> None:
    damaged = two_runs.committed_files("plies")[0]
    damaged.write_bytes(damaged.read_bytes()[::-1])
    with open_archive(two_runs.root) as opened, pytest.raises(FailureError, match=damaged.name):
        list(select(opened).shards())
