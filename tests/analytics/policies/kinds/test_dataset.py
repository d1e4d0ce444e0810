"""The games of a policy have one order, are kept to the game in few rows, and found again without their condition."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from analytics.policies.kinds.dataset import (
    Dataset,
    GameStream,
    expand_stepped_id_ranges,
    load_dataset,
    select_source_games,
)
from analytics.policies.kinds.gift import Gift
from analytics.questions.selection import select_games
from analytics.questions.sql.database import OpenArchive
from analytics.store import policy_store
from analytics.store.policy_store import PolicyOrigin
from quarto.rules import Rules
from tests import naive
from tests.analytics.policies.kinds.conftest import FIRST, games_of, in_order, records_of
from tests.analytics.stored_policies import LEARNED
from tests.marks import seldom


def test_games_come_by_run_and_id_whatever_file_they_are_in(rules: Rules, dataset: Dataset) -> None:
    loaded = []
    for game in range(len(dataset.game_id)):
        plies = int(dataset.games.plies[game])
        moves = zip(
            dataset.games.pieces[:plies, game].tolist(), dataset.games.cells[:plies, game].tolist(), strict=True
        )
        loaded.append((list(moves), int(dataset.games.winner[game]), int(dataset.opening[game])))
    assert loaded == [game[:3] for game in games_of(rules)]


def slow_checksum(dataset: Dataset, first: int, end: int) -> str:
    """Compute a fingerprint as data/README.md describes it."""
    total, games = 0, dataset.games
    for game in range(first, end):
        count, winner = int(games.plies[game]), int(games.winner[game])
        plies = bytes(int(games.pieces[ply, game]) << 4 | int(games.cells[ply, game]) for ply in range(count))
        header = count | winner + 1 << 8 | int(dataset.opening[game]) << 16 | int(games.ending[game]) << 24
        word = naive.mix((int(dataset.game_id[game]) + naive.GAMMA) & naive.WORD)
        word = naive.mix(word ^ (header + naive.GAMMA) & naive.WORD)
        word = naive.mix(word ^ int.from_bytes(plies[:8], "little"))
        total += naive.mix((word + naive.GAMMA) & naive.WORD ^ int.from_bytes(plies[8:], "little"))
    return f"{total % (1 << 64):016x}"


def test_checksums_tell_games_apart_and_not_their_files(dataset: Dataset) -> None:
    sums = dataset.compute_fingerprints(2)
    assert sums == {
        record.run_id: slow_checksum(dataset, first, end) for record, first, end in dataset.list_run_spans()
    }
    assert sums == dataset.compute_fingerprints(1)
    assert len(set(sums.values())) == 2
    longest = int(np.argmax(dataset.games.plies))
    for field, where in (("pieces", (3, longest)), ("cells", (9, longest)), ("winner", 5), ("ending", 5)):
        games = dataset.games._replace(**{field: getattr(dataset.games, field).copy()})
        getattr(games, field)[where] ^= 1
        assert replace(dataset, games=games).compute_fingerprints(2) != sums


@pytest.mark.parametrize(
    ("where", "rows"),
    [
        ("game_id % 2 = 1", 4),  # pairings 0 and 1 of the first run, 0 and 2 of the second
        ("pairing = 1 AND pair_id % 4 <> 0", 2),
        *seldom(("true", 4), ("winner = 0", None), ("game_id = 5", 2)),
    ],
)
def test_ranges_hold_the_chosen_games_and_no_others(
    opened: OpenArchive, rules: Rules, where: str, rows: int | None
) -> None:
    dataset = load_dataset(select_games(opened, where))
    chosen = opened.sql(f"SELECT run_id, game_id FROM games WHERE {where} ORDER BY ALL").rows()
    runs = [records_of(rules)[name] for name in in_order(rules)]
    expected = sorted(chosen, key=lambda row: (runs.index(row[0]), row[1]))
    ranges = dataset.to_stepped_id_ranges()
    assert [
        (run_id, game) for run_id, ids in expand_stepped_id_ranges(ranges).items() for game in ids.tolist()
    ] == expected
    assert rows is None or len(ranges) == rows
    run_ids = [record.run_id for record in dataset.runs]
    learned = LEARNED | {"run_ids": run_ids, "where": where}
    origin = PolicyOrigin("mine", rules, {}, learned, {"games": ranges})
    card = policy_store.save(opened.archive, Gift().derive(dataset, 1), origin)
    again = load_dataset(select_source_games(opened, card), run_ids)
    turned = load_dataset(select_source_games(opened, card), run_ids[::-1])
    assert again.compute_fingerprints(1) == dataset.compute_fingerprints(1)
    assert np.array_equal(again.game_id, dataset.game_id)
    assert [record.run_id for record in turned.runs] == run_ids[::-1]
    assert records_of(rules)[FIRST] in {record.run_id for record in again.runs}


@pytest.mark.parametrize("where", ["pairing = 1 AND pair_id % 4 <> 0", *seldom("true", "game_id % 2 = 1")])
def test_a_stream_has_the_games_of_a_dataset_in_its_order(opened: OpenArchive, where: str) -> None:
    dataset, stream = load_dataset(select_games(opened, where)), GameStream(select_games(opened, where))
    for _ in range(2):  # it may be read again
        parts = list(stream.read_blocks())
        assert [record.run_id for record in dataset.runs] == list(
            dict.fromkeys(record_of_part.run_id for record_of_part, _ in parts)
        )
        assert np.array_equal(np.concatenate([part.game_id for _, part in parts]), dataset.game_id)
        assert np.array_equal(np.concatenate([part.opening for _, part in parts]), dataset.opening)
        for field, expected in zip(zip(*(part.games for _, part in parts), strict=True), dataset.games, strict=True):
            assert np.array_equal(np.concatenate(field, axis=-1), expected)
    assert (
        stream.compute_fingerprints(1)
        == GameStream(select_games(opened, where)).compute_fingerprints(1)
        == dataset.compute_fingerprints(1)
    )
    ids = {
        run_id: numbers.tolist() for run_id, numbers in expand_stepped_id_ranges(stream.to_stepped_id_ranges()).items()
    }
    assert ids == {
        run_id: numbers.tolist() for run_id, numbers in expand_stepped_id_ranges(dataset.to_stepped_id_ranges()).items()
    }
    assert stream.size == dataset.size
