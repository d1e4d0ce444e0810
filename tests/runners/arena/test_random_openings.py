"""The opening statistics of random games agree with exact random play."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from pathlib import Path
from statistics import NormalDist

import polars as pl
import pytest

from analytics import open_archive
from analytics.questions.openings import EMPTY_BOARD, explore_position
from analytics.questions.sql.database import OpenArchive
from runners.arena.indexing import index_new_games_if_writable
from runners.arena.spec import RunSpec
from runners.bench.warm_up import play_games
from runners.config.agents import load_agent
from runners.config.yaml_options import load_rules
from tests.marks import seldom
from tests.paths import ORACLES

FACTS = json.loads(ORACLES.read_text())
CHANCE = 1e-6  # that a sound archive fails one of these comparisons; the seed is fixed, so it does so always or never


def wins_by_ply() -> list[Fraction]:
    """The exact probabilities that random play ends with a line at each ply and, last, that it ends without one."""
    prefixes, won = FACTS["live_game_prefixes_after_k_plies"], FACTS["games_won_at_ply_k"]
    chances, alive = [], Fraction(1)
    for ply in range(16):
        choices = (16 - ply) ** 2
        ended = Fraction(won[ply + 1], prefixes[ply] * choices) if prefixes[ply] else Fraction(0)
        chances.append(alive * ended)
        alive *= 1 - ended
    return [*chances, alive]


def agrees(counts: list[int], chances: list[float]) -> bool:
    """Pearson's chi-square below its CHANCE quantile (Wilson and Hilferty, PNAS 17 (1931) 684-688)."""
    total = sum(counts)
    assert math.isclose(sum(chances), 1)
    expected = [total * chance for chance in chances]
    statistic = sum((count - mean) ** 2 / mean for count, mean in zip(counts, expected, strict=True) if mean)
    degrees = sum(mean > 0 for mean in expected) - 1
    spread = 2 / (9 * degrees)
    limit = degrees * (1 - spread + NormalDist().inv_cdf(1 - CHANCE) * math.sqrt(spread)) ** 3
    return statistic < limit


def compare(opened: OpenArchive) -> None:
    """Everything that is compared, of an archive of random games by classic rules."""
    first = explore_position(opened, EMPTY_BOARD, "turn", with_samples=False)
    legal = first["alike"].sum()
    assert agrees(first["games"].to_list(), [alike / legal for alike in first["alike"].to_list()])
    second = explore_position(opened, "F.../..../..../.... 0", "turn", with_samples=False)
    assert agrees(second["games"].to_list(), [alike / (15 * 14) for alike in second["alike"].to_list()])
    gifts = explore_position(opened, "F.../.3../..../.... -", with_samples=False)
    assert agrees(gifts["games"].to_list(), [alike / 14 for alike in gifts["alike"].to_list()])
    lengths = opened.sql("SELECT plies, winner = -1 AS drawn, count(*) AS games FROM games GROUP BY ALL")
    counts = [int(lengths.filter(pl.col("plies") == ply + 1, ~pl.col("drawn"))["games"].sum()) for ply in range(16)] + [
        int(lengths.filter(pl.col("drawn"))["games"].sum())
    ]
    assert agrees(counts, [float(chance) for chance in wins_by_ply()])
    rows = explore_position(opened, EMPTY_BOARD, "placement", with_samples=False)
    placed, drawn = Fraction(*FACTS["random_play"]["seat_1_wins"]), Fraction(*FACTS["random_play"]["draw"])
    counts = [int(rows[name].sum()) for name in ("wins", "draws", "losses")]
    assert agrees(counts, [float(chance) for chance in (placed, drawn, 1 - placed - drawn)])
    boards = opened.sql("SELECT ply, count(DISTINCT (occupied, board)) AS n FROM positions WHERE ply < 4 GROUP BY ply")
    assert dict(boards.rows()) == dict(enumerate(FACTS["canonical_boards_with_hand_including_won_k_0_to_5"][:4]))


def made(root: Path, games: int) -> OpenArchive:
    spec = RunSpec(load_rules("classic"), (load_agent("random"), load_agent("random")), ((0, 1),), 3, 0)
    play_games(spec, root, games, 2)
    index_new_games_if_writable(root)
    return open_archive(root)


@pytest.mark.parametrize("games", [300_000, *seldom(10_000_000)])
def test_openings_of_random_games_agree_with_exact_random_play(games: int, tmp_path: Path) -> None:
    with made(tmp_path / "archive", games) as opened:
        compare(opened)


def test_the_comparison_sees_a_percent_too_much() -> None:
    chances = [float(chance) for chance in wins_by_ply()]
    assert agrees([round(10**7 * chance) for chance in chances], chances)
    skewed = [round(10**7 * chance * (1.01 if ply == 8 else 1)) for ply, chance in enumerate(chances)]
    assert not agrees(skewed, chances)
