"""The games of a policy are kept to the game, in few rows, and found again without the condition that chose them."""

from __future__ import annotations

import numpy as np
import pytest

from analytics import open_archive
from analytics.policies import policy_store
from analytics.policies.derived.dataset import dataset_of
from analytics.policies.derived.gift import Gift
from analytics.policies.derived.provenance import ids_of, sources_of
from analytics.policies.policy_store import Origin
from analytics.query.selection import select
from analytics.store.archive import Archive
from quarto.rules import Rules
from tests.analytics.policies.derived.conftest import FIRST, in_order, records_of
from tests.analytics.stored_policies import LEARNED


@pytest.mark.parametrize(
    ("where", "rows"),
    [
        ("true", 4),  # pairings 0 and 1 of the first run, 0 and 2 of the second
        ("game_id % 2 = 1", 4),  # one game of each pair
        ("pairing = 1 AND pair_id % 4 <> 0", 2),
        ("winner = 0", None),
        ("game_id = 5", 2),
    ],
)
def test_ranges_hold_the_chosen_games_and_no_others(
    logged: tuple[Archive, Rules], where: str, rows: int | None
) -> None:
    archive, rules = logged
    with open_archive(archive.root) as opened:
        dataset = dataset_of(select(opened, where))
        chosen = opened.sql(f"SELECT run_id, game_id FROM games WHERE {where} ORDER BY ALL").rows()
        runs = [records_of(rules)[name] for name in in_order(rules)]
        expected = sorted(chosen, key=lambda row: (runs.index(row[0]), row[1]))
        ranges = dataset.ranges()
        assert [(run_id, game) for run_id, ids in ids_of(ranges).items() for game in ids.tolist()] == expected
        assert rows is None or len(ranges) == rows
        run_ids = [record.run_id for record in dataset.runs]
        learned = LEARNED | {"run_ids": run_ids, "where": where}
        origin = Origin("mine", rules, {}, learned, {"games": ranges})
        card = policy_store.save(archive, Gift().derive(dataset, 1), origin)
        again = dataset_of(sources_of(opened, card), run_ids)
        turned = dataset_of(sources_of(opened, card), run_ids[::-1])
    assert again.checksums(1) == dataset.checksums(1)
    assert np.array_equal(again.game_id, dataset.game_id)
    assert [record.run_id for record in turned.runs] == run_ids[::-1]
    assert records_of(rules)[FIRST] in {record.run_id for record in again.runs}
