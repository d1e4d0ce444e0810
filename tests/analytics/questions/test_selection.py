"""Chosen games: what a condition chooses, how they are read, in which order, and which of them are copies."""

import random
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from analytics import open_archive
from analytics.questions import selection
from analytics.questions.head_to_head import compute_head_to_head
from analytics.questions.selection import (
    describe_pairings_of_identical_games,
    read_pair_ranges,
    read_selected_games,
    select_games,
    select_pair_ranges_and_count_games,
)
from analytics.questions.sql.conditions import check_and_combine_both_conditions
from analytics.questions.sql.database import OpenArchive
from analytics.store.archive import ArchiveStore
from analytics.store.game_tables import RangeGames
from quarto.batch import ENDINGS
from quarto.errors import FailureError, RequestError
from tests.analytics.conftest import write_filled_archive
from tests.analytics.folders import copy_archive, forge
from tests.analytics.naive_games import (
    BLOCKS,
    PAIRINGS,
    RUN_ID,
    Pairings,
    build_spec,
    naive_rows,
    pack_games,
    random_block,
    random_game,
    record,
    single_games,
    store,
)
from tests.marks import seldom
from tests.paths import ROOT

OTHER = record(build_spec(seed=8))


@pytest.fixture(scope="module")
def two_runs(tmp_path_factory: pytest.TempPathFactory) -> ArchiveStore:
    """Write the archive of ``conftest``, and a run of three ranges. No test changes it."""
    archive = write_filled_archive(tmp_path_factory.mktemp("two") / "archive")
    archive.write_run_and_unit_count(OTHER)
    store(archive, OTHER.run_id, [random_block(2, pairing, 0) for pairing in range(3)], most=8)
    return archive


@pytest.fixture(scope="module")
def both_runs(two_runs: ArchiveStore) -> Iterator[OpenArchive]:
    """Open ``two_runs`` once."""
    with open_archive(two_runs.root) as opened:
        yield opened


@pytest.fixture
def damaged_copy(two_runs: ArchiveStore, tmp_path: Path) -> ArchiveStore:
    """Copy ``two_runs``, for a test that damages the archive."""
    return copy_archive(two_runs, tmp_path / "damaged")


def chosen_rows(opened: OpenArchive, where: str | None) -> dict[tuple[str, int], list[tuple[object, ...]]]:
    """Return the games that a selection reads, by run and game: the result, then the plies."""
    selection = select_games(opened, where)
    rows = {}
    for run, chosen in selection.read_blocks():
        assert np.all(np.diff(chosen.game_id) > 0)
        for i, game_id in enumerate(chosen.game_id.tolist()):
            games, plies = chosen.games, int(chosen.games.plies[i])
            moves = zip(games.pieces[:plies, i].tolist(), games.cells[:plies, i].tolist(), strict=True)
            ended = (ENDINGS[games.ending[i]], int(games.winner[i]), int(chosen.opening[i]), int(chosen.pairing[i]))
            rows[run.run_id, game_id] = [ended, *moves]
    assert len(rows) == selection.games
    return rows


def stored_rows(opened: OpenArchive, where: str) -> dict[tuple[str, int], list[tuple[object, ...]]]:
    """Return the games that SQL returns, in the form of ``chosen_rows``."""
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
        "winner = -1 -- a comment",
        "plies > 8 AND agent_0 = 'random' OR game_id % 7 = 0",
        "run_id IN (SELECT run_id FROM runs WHERE seed = 8) AND pairing = 2",
        "len(list_filter([plies, 9], lambda x: x > 8)) = 1",
        *seldom(
            "pairing = 1",
            f"run_id = '{OTHER.run_id}'",
            "pair_id = 3",
            "agent_0 = 'random' OR agent_1 = 'random()' OR 'sample)' = agent_0",
            "nullif(agent_0, 'random') IS NULL",
            "plies IN (FROM range(16)) -- 'random()",
        ),
    ],
)
def test_what_is_chosen_is_what_sql_finds(both_runs: OpenArchive, where: str) -> None:
    expected = stored_rows(both_runs, where.partition("--")[0])
    assert expected
    assert chosen_rows(both_runs, where) == expected


def test_without_a_condition_everything_is_chosen(both_runs: OpenArchive) -> None:
    assert len(chosen_rows(both_runs, None)) == len(naive_rows(BLOCKS, PAIRINGS)[0]) + len(
        chosen_rows(both_runs, f"run_id = '{OTHER.run_id}'")
    )


WRONG = (
    ("agent_0 = 'nobody'", "has no game with where=\"agent_0 = 'nobody'\""),
    ("winner = ", "is not a condition on games: SQL: syntax error"),
    ("DELETE FROM games", "is not a condition on games"),
    ("", "is empty: leave it out"),
    (" -- nothing", "is empty: leave it out"),
    ("loser = 1", 'Referenced column "loser" not found'),
    ("agent_0 IN (SELECT * FROM read_csv('/etc/passwd'))", "reads from read_csv(), which can change"),
    # More than one expression.
    ("true) OR (true", "is not a condition on games: SQL: syntax error"),
    ("true); DROP VIEW games; SELECT (1", "is not a condition on games: SQL: syntax error"),
    ("true) GROUP BY run_id UNION ALL SELECT ('x'", "is not a condition on games: SQL: syntax error"),
    ("winner = 0; DELETE FROM games", "is not a condition on games"),
    ("true; SELECT 1", "it is more than one expression"),
    ("true; --", "is not a condition on games"),
    ("true /*", "is not a condition on games"),
    ("winner = 0, plies = 3", "is not a condition on games"),
    ("true LIMIT 1", "is not a condition on games"),
    ("true GROUP BY ALL", "is not a condition on games"),
    ("true USING SAMPLE 10", "is not a condition on games"),
    ("true UNION SELECT 1", "is not a condition on games"),
    ("true WINDOW w AS ()", "is not a condition on games"),
    # What changes from one moment to the next.
    ("random() < 0.5", "calls random(), which changes"),
    ("agent_0 = 'a' AND Random ( ) < 0.5", "calls random(), which changes"),
    ('"random"() < 0.5', "calls random(), which changes"),
    ('system.main."RANDOM"() < 0.5', "calls random(), which changes"),
    ("random /* */ () < 0.5", "calls random(), which changes"),
    ("list_transform([1], lambda x: x + random()) = [1]", "calls random(), which changes"),
    ("game_id IN (WITH x AS (SELECT random()) SELECT 1 FROM x)", "calls random(), which changes"),
    ("plies IN (SELECT reservoir_quantile(plies, 0.5, 3) FROM games)", "calls reservoir_quantile(), which changes"),
    ("game_id IN (SELECT game_id FROM games USING SAMPLE 10)", "takes a SAMPLE"),
    ("game_id IN (SELECT game_id FROM games TABLESAMPLE 10%)", "takes a SAMPLE"),
    (
        "game_id IN (FROM query('SELECT game_id FROM games USING SAMPLE 10'))",
        "reads from query(), which can change",
    ),
    ("run_id IN (SELECT run_id FROM runs WHERE created > current_timestamp)", "calls current_timestamp, which"),
    ("run_id IN (SELECT run_id FROM runs WHERE created > now())", "calls now(), which changes"),
    ("run_id IN (SELECT run_id FROM runs WHERE created > ago(INTERVAL 1 DAY))", "calls ago(), which changes"),
)


def test_a_wrong_condition_is_a_wrong_request(opened: OpenArchive) -> None:
    for where, complaint in WRONG:
        with pytest.raises(RequestError) as caught:
            select_games(opened, where)
        assert complaint in str(caught.value)


def test_a_run_of_another_schema_is_refused_where_it_is_chosen(damaged_copy: ArchiveStore) -> None:
    path = damaged_copy.root / "runs" / f"{OTHER.run_id}.json"
    forge(Path(path), {"schema_version": 4})
    with open_archive(damaged_copy.root) as opened:
        for ask in (select_games, compute_head_to_head):
            with pytest.raises(
                RequestError, match=f"run {OTHER.run_id} has format 4, and this program reads and writes format 3"
            ):
                ask(opened)
        assert select_games(opened, f"run_id = '{RUN_ID}'").games > 0


def test_conditions_are_joined_as_they_are(both_runs: OpenArchive) -> None:
    joined = check_and_combine_both_conditions(both_runs, "plies < 9 OR winner = 0 -- x", "winner = 1 OR plies = 3")
    expected = "(plies < 9 OR winner = 0) AND (winner = 1 OR plies = 3)"
    assert select_games(both_runs, joined).counts == select_games(both_runs, expected).counts
    for first, second in (("true) OR (true", "plies = 3"), ("plies = 3", "true) OR (true")):
        with pytest.raises(RequestError, match="is not a condition on games"):
            check_and_combine_both_conditions(both_runs, first, second)


def test_an_agent_is_left_out_from_both_seats_as_the_pages_say(both_runs: OpenArchive) -> None:
    """Exclude an agent in seat 0 and in seat 1, because a condition on one seat leaves half of its games in."""
    label = "rule_based"
    for page in ("docs/reports.md", "docs/strength.md"):
        condition = re.search(r"""--where "('\w+' NOT IN \(agent_0, agent_1\))""", (ROOT / page).read_text())
        assert condition, page
        where = select_games(both_runs, re.sub("'.*?'", f"'{label}'", condition[1])).where
        everybody = {agent for pair in PAIRINGS for agent in pair}
        agents = both_runs.sql(f"SELECT agent_0 FROM games WHERE {where} UNION SELECT agent_1 FROM games WHERE {where}")
        assert set(agents.to_series()) == everybody - {label}


def test_games_without_a_record_are_named(damaged_copy: ArchiveStore) -> None:
    Path(damaged_copy.root / "runs" / f"{RUN_ID}.json").unlink()
    with open_archive(damaged_copy.root) as opened, pytest.raises(FailureError, match=f"run {RUN_ID} has games and no"):
        select_games(opened)


def test_a_damaged_file_is_named(damaged_copy: ArchiveStore) -> None:
    path = damaged_copy.find_path_of_containing_file("plies", RUN_ID, damaged_copy.list_effective_ranges(RUN_ID)[0])
    Path(path).write_bytes(Path(path).read_bytes()[::-1])
    with open_archive(damaged_copy.root) as opened, pytest.raises(FailureError, match=path.name):
        list(select_games(opened).read_blocks())


IMPORTED = {"event": "", "date": "", "sha256": "ab" * 32}
CUP: Pairings = [("ann", "bob"), ("bob", "cy"), ("cy", "ann")]
RUNS = (
    (record(), BLOCKS),
    (
        record(build_spec(pairings=CUP, seats="fixed", imported=IMPORTED)),
        [single_games(1, 2, 0), single_games(1, 1, 8, 5)],
    ),
)


@pytest.mark.parametrize(("memory", "most_reads", "chosen"), [(1, None, None), (20, None, 3), (1 << 21, 1, None)])
@pytest.mark.parametrize("run", [0, 1], ids=["played", "imported"])
def test_games_come_by_pairing_and_files_are_read_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, memory: int, most_reads: int | None, chosen: int | None, run: int
) -> None:
    monkeypatch.setattr(selection, "MAX_GAMES_IN_MEMORY", memory)
    archive, (run_record, blocks) = ArchiveStore.open(tmp_path / "archive", create=True), RUNS[run]
    archive.write_run_and_unit_count(run_record)
    ranges = store(archive, run_record.run_id, blocks, run_record.pairings, most=4)
    ids_by_range = [read_selected_games(archive, run_record.run_id, stored, None).game_id for stored in ranges]
    ids = sorted(int(game_id) for range_ids in ids_by_range for game_id in range_ids)[::chosen]
    chosen_ids = None if chosen is None else np.array(ids)
    reads = []

    def read(number: int) -> RangeGames:
        reads.append(number)
        return read_selected_games(archive, run_record.run_id, ranges[number], chosen_ids)

    parts = [
        (n, part)
        for n, stored in enumerate(ranges)
        for part in select_pair_ranges_and_count_games(archive, run_record, stored, chosen_ids)
    ]
    parts.sort(key=lambda number_and_part: number_and_part[1])
    blocks_read = [*read_pair_ranges(parts, read)]
    assert [game_id for block in blocks_read for game_id in block.game_id.tolist()] == ids
    assert [len(block.game_id) for block in blocks_read] == [part.games for _, part in parts]
    assert all(block.games.pieces.flags.c_contiguous for block in blocks_read)
    assert most_reads is None or len(reads) == len(set(reads)) * most_reads
    assert memory > 1 or len(reads) == len(parts)


def test_games_that_are_copies_are_named(archive: ArchiveStore) -> None:
    one, other = (random_game(random.Random(seed), forfeits=0) for seed in (1, 2))
    copied = record(build_spec(seed=9))
    archive.write_run_and_unit_count(copied)
    store(archive, copied.run_id, [pack_games([one, other] * 5), random_block(4, 1)])
    with open_archive(archive.root) as opened:
        (note,) = describe_pairings_of_identical_games(opened, [copied.run_id, RUN_ID])
        assert describe_pairings_of_identical_games(opened, [RUN_ID]) == []
    first, second = PAIRINGS[0]
    assert note.startswith(f"10 games of {first} and {second} in run {copied.run_id} repeat two games, ")
