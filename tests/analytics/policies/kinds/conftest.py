from __future__ import annotations

import random
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from analytics import open_archive
from analytics.policies.kinds.dataset import Dataset, load_dataset
from analytics.questions.selection import select_games
from analytics.questions.sql.database import OpenArchive
from analytics.store.archive import ArchiveStore
from quarto.batch import Block
from quarto.rules import Rules
from tests.analytics.naive_games import PAIRINGS, build_spec, pack_games, random_block, random_game, record, store
from tests.marks import seldom
from tests.naive import PRESETS
from tests.naive_policies.games import Game

FIRST, SECOND = "the first", "the second"  # runs


def opened_block(seed: int, rules: Rules, opening: int) -> Block:
    """Draw games of pairing 1, the first plies of which were imposed."""
    dice = random.Random(f"{seed} opened")
    games = [random_game(dice, rules, forfeits=0.0) for _ in range(16)]
    return pack_games(games, 1, 0, opening)


def blocks_of(rules: Rules) -> dict[str, list[Block]]:
    """Draw the games of the two runs, in the order of game ids."""
    return {
        FIRST: [random_block(1, 0, 0, rules=rules), random_block(1, 0, 8, 4, rules), opened_block(1, rules, 3)],
        SECOND: [random_block(2, 0, 0, 6, rules), random_block(2, 2, 0, 5, rules)],
    }


def records_of(rules: Rules) -> dict[str, str]:
    """Return the ids of the two runs by name."""
    return {name: record(build_spec(rules, seed=seed)).run_id for seed, name in ((7, FIRST), (8, SECOND))}


def in_order(rules: Rules) -> list[str]:
    """List the runs by name in the order in which they began: not that of their ids, of their clocks or of the disk."""
    ids = records_of(rules)
    return sorted(ids, key=lambda name: ids[name], reverse=True)


def make(root: Path, rules: Rules) -> ArchiveStore:
    """Write an archive of two runs in many files: each has games of several pairings, and pairs are missing."""
    archive, ids, blocks = ArchiveStore.open(root, create=True), records_of(rules), blocks_of(rules)
    for seed, name in ((8, SECOND), (7, FIRST)):
        number = 1 + in_order(rules).index(name)
        archive.write_run_and_unit_count(
            record(build_spec(rules, seed=seed), number=number, created=f"2026-01-{9 - number:02}T00:00:00Z")
        )
        store(archive, ids[name], blocks[name], most=4)
    return archive


@cache
def games_of(rules: Rules) -> list[Game]:
    """List all games, in the order in which policies learn from them."""
    listed = []
    blocks = blocks_of(rules)
    for name in in_order(rules):
        for block in blocks[name]:
            for i in range(2 * block.pairs):
                count, games, labels = int(block.games.plies[i]), block.games, PAIRINGS[block.pairing]
                plies = list(zip(games.pieces[:count, i].tolist(), games.cells[:count, i].tolist(), strict=True))
                seats = labels if i % 2 == 0 else labels[::-1]
                listed.append(Game(plies, int(games.winner[i]), block.opening, (seats[0], seats[1])))
    return listed


@pytest.fixture(
    scope="module",
    params=["classic", *seldom("square", "torus_square")],
)
def logged(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[ArchiveStore, Rules]:
    """Write an archive of some rules. No test changes its games."""
    rules = PRESETS[request.param]
    return make(tmp_path_factory.mktemp("logged") / "archive", rules), rules


@pytest.fixture(scope="module")
def rules(logged: tuple[ArchiveStore, Rules]) -> Rules:
    return logged[1]


@pytest.fixture(scope="module")
def opened(logged: tuple[ArchiveStore, Rules]) -> Iterator[OpenArchive]:
    """Open the archive ``logged``."""
    with open_archive(logged[0].root) as opened:
        yield opened


@pytest.fixture(scope="module")
def dataset(opened: OpenArchive) -> Dataset:
    """Load all games of the archive."""
    return load_dataset(select_games(opened))
