"""Verdicts are computed again from the games, stored once, and every way in which one can be wrong is named."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from analytics import open_archive
from analytics.statistics.sprt import Hypotheses, SequentialTest
from analytics.store import sprt_verdicts
from analytics.store.archive import ArchiveStore
from analytics.store.records import RunRecord
from analytics.tables.upkeep.garbage import list_unneeded_files
from analytics.tables.verification.archive import verify_archive
from quarto.batch import LINE, Block
from quarto.errors import FailureError
from tests.analytics.folders import copy_archive, forge, snapshot
from tests.analytics.naive_games import build_spec, pack_games, random_game, record, store

MEETING = [("good", "bad")]
RUN = record(build_spec(pairings=MEETING, opening_plies=0))
TESTED = Hypotheses(0, 50)


def won_mostly(first_pair: int, pairs: int) -> Block:
    """Draw random games; in one pair of three the first agent wins both, as far as their length allows."""
    dice, games = random.Random(first_pair), []
    for number in range(first_pair, first_pair + pairs):
        for seat in (0, 1):
            game = random_game(dice, forfeits=0)
            while number % 3 == 0 and (game["ending"] != LINE or game["winner"] != seat):
                game = random_game(dice, forfeits=0)
            games.append(game)
    return pack_games(games, 0, first_pair)


@pytest.fixture(scope="module")
def finished_run(tmp_path_factory: pytest.TempPathFactory) -> ArchiveStore:
    """Write one run, its 200 pairs in several ranges, the middle ones last."""
    archive = ArchiveStore.open(tmp_path_factory.mktemp("made") / "archive", create=True)
    archive.write_run_and_unit_count(RUN)
    for first, pairs in ((0, 40), (120, 80), (40, 80)):
        store(archive, RUN.run_id, [won_mostly(first, pairs)], MEETING)
    return archive


@pytest.fixture
def archive(finished_run: ArchiveStore, tmp_path: Path) -> ArchiveStore:
    return copy_archive(finished_run, tmp_path / "archive")


def decided(archive: ArchiveStore, most: int = 200) -> sprt_verdicts.SprtVerdict:
    return sprt_verdicts.SprtVerdict.from_test(
        RUN.run_id, sprt_verdicts.run_sequential_test(archive, RUN.run_id, TESTED, most), "qarena sprt"
    )


def naive_outcomes(archive: ArchiveStore) -> list[int]:
    """Count twice the first agent's points in each pair, game by game from SQL."""
    points: dict[int, int] = {}
    with open_archive(archive.root) as opened:
        for pair_id, agent_0, winner in opened.sql("SELECT pair_id, agent_0, winner FROM games").iter_rows():
            seat = 0 if agent_0 == "good" else 1
            points[pair_id] = points.get(pair_id, 0) + (1 if winner == -1 else 2 * (winner == seat))
    return [points[pair] for pair in sorted(points)]


def lose(archive: ArchiveStore, first: int, end: int) -> None:
    """Remove the games of some units."""
    for stored in archive.list_effective_ranges(RUN.run_id).select_overlapping(first, end):
        archive.backend.remove(archive.find_path_of_containing_file("games", RUN.run_id, stored))


def test_outcomes_are_those_of_the_games_in_the_order_of_pairs_up_to_one_that_is_missing(archive: ArchiveStore) -> None:
    expected = naive_outcomes(archive)
    assert sprt_verdicts.read_outcomes(archive, RUN.run_id, 10**6).tolist() == expected
    assert sprt_verdicts.read_outcomes(archive, RUN.run_id, 70).tolist() == expected[:70]
    lose(archive, 40, 120)
    outcomes = sprt_verdicts.read_outcomes(archive, RUN.run_id, 10**6)
    assert (outcomes == sprt_verdicts.UNKNOWN).nonzero()[0].tolist() == list(range(40, 120))
    assert len(sprt_verdicts.select_known_outcomes(outcomes, 0)) == 40
    assert len(sprt_verdicts.select_known_outcomes(outcomes, 120)) == 80
    trial = sprt_verdicts.run_sequential_test(archive, RUN.run_id, TESTED, 1000)
    assert (trial.pairs, trial.ended) == (40, False)


def test_a_verdict_is_stored_as_it_is_and_once_sound_and_a_row_of_its_view(archive: ArchiveStore) -> None:
    verdict = decided(archive)
    assert verdict.accepted == "elo1"
    assert 40 < verdict.pairs < 200
    sprt_verdicts.write_verdict_and_list_in_run(archive, verdict)
    before = snapshot(Path(archive.root))
    sprt_verdicts.write_verdict_and_list_in_run(archive, decided(archive))
    assert snapshot(Path(archive.root)) == before
    (path,) = sprt_verdicts.list_verdict_files(archive)
    assert path == archive.root / f"verdicts/run={RUN.run_id}/{verdict.verdict_id}.json"
    assert sprt_verdicts.load_verdict(archive, path) == verdict
    assert json.loads(Path(path).read_text())["hypotheses"] == {"elo0": 0, "elo1": 50, "alpha": 0.05, "beta": 0.05}
    with open_archive(archive.root) as opened:
        (row,) = opened.sql("SELECT verdicts.*, games FROM verdicts JOIN runs USING (run_id)").to_dicts()
    assert (row["accepted"], row["pairs"], row["games"]) == ("elo1", verdict.pairs, 400)
    assert tuple(row[name] for name in ("ll", "ld", "dd", "wd", "ww")) == verdict.counts
    assert row["normalised_elo_low"] < row["normalised_elo"] < row["normalised_elo_high"]
    report = verify_archive(archive)
    assert (report.verdicts, report.problems) == (1, [])
    assert list_unneeded_files(archive) == []
    Path(path.parent / "notes.json").write_text("{}")
    assert [(file.path.name, file.ours) for file in list_unneeded_files(archive)] == [("notes.json", False)]


def test_a_damaged_verdict_breaks_its_view_and_no_other_and_is_written_anew(archive: ArchiveStore) -> None:
    verdict = decided(archive)
    sprt_verdicts.write_verdict_and_list_in_run(archive, verdict)
    path = Path(sprt_verdicts.verdict_path(archive, RUN.run_id, verdict.verdict_id))
    for content in ('{"accepted": "elo0"}', "{"):
        path.write_text(content)
        sprt_verdicts.write_verdict_and_list_in_run(archive, verdict)
        assert sprt_verdicts.load_verdict(archive, path) == verdict
    path.write_text("{")
    with open_archive(archive.root) as opened:
        with pytest.raises(FailureError, match="is damaged"):
            opened.sql("FROM verdicts")
        assert len(opened.sql("FROM games")) == 400


def test_two_tests_of_one_run_lie_side_by_side(archive: ArchiveStore) -> None:
    sprt_verdicts.write_verdict_and_list_in_run(archive, decided(archive))
    sprt_verdicts.write_verdict_and_list_in_run(archive, decided(archive, most=199))
    assert len(sprt_verdicts.list_verdict_files(archive)) == 2
    assert sprt_verdicts.compute_verdict_id(TESTED, 200) == sprt_verdicts.compute_verdict_id(Hypotheses(0.0, 50.0), 200)
    assert sprt_verdicts.compute_verdict_id(TESTED, 200) != sprt_verdicts.compute_verdict_id(Hypotheses(0, 51), 200)


CHANGES: tuple[tuple[dict[str, Any], str], ...] = (
    ({"accepted": "elo2"}, "'elo2'"),
    ({"most_pairs": 150}, "is not that of its hypotheses and most_pairs"),
    ({"counts": [1, 2, 3, 4]}, "counts: expected array of length 5, got 4"),
    ({"counts": [1, 2, 3, 4, 5]}, "do not add up to"),
    ({"hypotheses": {"elo0": 5, "elo1": 1}}, "elo0 must be less than elo1"),
    ({"surprise": 1}, "surprise"),
)


def test_a_verdict_that_was_changed_or_moved_is_named(archive: ArchiveStore) -> None:
    sprt_verdicts.write_verdict_and_list_in_run(archive, decided(archive))
    (path,) = map(Path, sprt_verdicts.list_verdict_files(archive))
    sound = path.read_bytes()
    for values, complaint in CHANGES:
        forge(path, values)
        with pytest.raises(FailureError, match=re.escape(complaint)):
            sprt_verdicts.load_verdict(archive, path)
        path.write_bytes(sound)
    for wrong in ({"accepted": "elo0"}, {"ratio": 0.5}):  # which could be, but for the games
        forge(path, wrong)
        (problem,) = verify_archive(archive).problems
        assert problem.file == path
        assert "its games give elo1 after" in problem.fault
        path.write_bytes(sound)
    Path(archive.root / "verdicts/run=0123456789ab").mkdir()
    elsewhere = Path(path).rename(archive.root / "verdicts/run=0123456789ab" / path.name)
    gone, moved = map(str, verify_archive(archive).problems)
    assert gone == f"{path}: missing: restore it from a copy, or give the command of the test again"
    assert moved == f"{elsewhere}: its run has no record"
    with pytest.raises(FailureError, match="it is verdict"):
        sprt_verdicts.load_verdict(archive, elsewhere)


def test_a_verdict_whose_games_are_gone_is_named(archive: ArchiveStore) -> None:
    sprt_verdicts.write_verdict_and_list_in_run(archive, decided(archive))
    archive.update_run_and_unit_count(RUN.run_id, lambda run: run)
    lose(archive, 0, 1)
    first, *_, last = verify_archive(archive).problems
    assert first.file == archive.folder("games", RUN.run_id)
    assert "only the first 0 of the" in last.fault


def test_a_verdict_of_a_run_without_pairs_is_named(tmp_path: Path) -> None:
    archive = ArchiveStore.open(tmp_path / "fixed", create=True)
    fixed: RunRecord = record(build_spec(pairings=MEETING, seats="fixed"))
    archive.write_run_and_unit_count(fixed)
    trial = SequentialTest(TESTED, 32)
    trial.add_outcomes(np.full(32, 4, np.int8))
    sprt_verdicts.write_verdict_and_list_in_run(
        archive, sprt_verdicts.SprtVerdict.from_test(fixed.run_id, trial, "qarena sprt")
    )
    (problem,) = verify_archive(archive).problems
    assert "no pairs" in problem.fault
