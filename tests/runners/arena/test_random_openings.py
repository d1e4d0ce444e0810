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
CHANCE = 1e-6  # that a sound archive fails a comparison, always or never, because the seed is fixed


def compute_win_chances() -> list[Fraction]:
    """Return the exact probabilities that random play ends with a line at each ply and, last, without a line."""
    prefixes, wins = FACTS["live_game_prefixes_after_k_plies"], FACTS["games_won_at_ply_k"]
    chances, running_chance = [], Fraction(1)
    for ply in range(16):
        choices = (16 - ply) ** 2
        end_chance = Fraction(wins[ply + 1], prefixes[ply] * choices) if prefixes[ply] else Fraction(0)
        chances.append(running_chance * end_chance)
        running_chance *= 1 - end_chance
    return [*chances, running_chance]


def is_likely(counts: list[int], chances: list[float]) -> bool:
    """Return whether Pearson's chi-square is below its CHANCE quantile.

    Source: Wilson and Hilferty, PNAS 17 (1931) 684-688.
    """
    total = sum(counts)
    assert math.isclose(sum(chances), 1)
    expected = [total * chance for chance in chances]
    statistic = sum((count - mean) ** 2 / mean for count, mean in zip(counts, expected, strict=True) if mean)
    degrees = sum(mean > 0 for mean in expected) - 1
    spread = 2 / (9 * degrees)
    limit = degrees * (1 - spread + NormalDist().inv_cdf(1 - CHANCE) * math.sqrt(spread)) ** 3
    return statistic < limit


def compare(opened: OpenArchive) -> None:
    """Compare all opening statistics of an archive of random games by classic rules with exact ones."""
    first_turns = explore_position(opened, EMPTY_BOARD, "turn", with_samples=False)
    legal = first_turns["alike"].sum()
    assert is_likely(first_turns["games"].to_list(), [alike / legal for alike in first_turns["alike"].to_list()])
    second_turns = explore_position(opened, "F.../..../..../.... 0", "turn", with_samples=False)
    assert is_likely(second_turns["games"].to_list(), [alike / (15 * 14) for alike in second_turns["alike"].to_list()])
    gifts = explore_position(opened, "F.../.3../..../.... -", with_samples=False)
    assert is_likely(gifts["games"].to_list(), [alike / 14 for alike in gifts["alike"].to_list()])
    lengths = opened.sql("SELECT plies, winner = -1 AS drawn, count(*) AS games FROM games GROUP BY ALL")
    counts = [int(lengths.filter(pl.col("plies") == ply + 1, ~pl.col("drawn"))["games"].sum()) for ply in range(16)] + [
        int(lengths.filter(pl.col("drawn"))["games"].sum())
    ]
    assert is_likely(counts, [float(chance) for chance in compute_win_chances()])
    rows = explore_position(opened, EMPTY_BOARD, "placement", with_samples=False)
    placed, drawn = Fraction(*FACTS["random_play"]["seat_1_wins"]), Fraction(*FACTS["random_play"]["draw"])
    counts = [int(rows[name].sum()) for name in ("wins", "draws", "losses")]
    assert is_likely(counts, [float(chance) for chance in (placed, drawn, 1 - placed - drawn)])
    boards = opened.sql("SELECT ply, count(DISTINCT (occupied, board)) AS n FROM positions WHERE ply < 4 GROUP BY ply")
    assert dict(boards.rows()) == dict(enumerate(FACTS["canonical_boards_with_hand_including_won_k_0_to_5"][:4]))


def create_random_archive(root: Path, games: int) -> OpenArchive:
    spec = RunSpec(load_rules("classic"), (load_agent("random"), load_agent("random")), ((0, 1),), 3, 0)
    play_games(spec, root, games, 2)
    index_new_games_if_writable(root)
    return open_archive(root)


@pytest.mark.parametrize("games", [300_000, *seldom(10_000_000)])
def test_openings_of_random_games_agree_with_exact_random_play(games: int, tmp_path: Path) -> None:
    with create_random_archive(tmp_path / "archive", games) as opened:
        compare(opened)


def test_the_comparison_sees_a_percent_too_much() -> None:
    chances = [float(chance) for chance in compute_win_chances()]
    assert is_likely([round(10**7 * chance) for chance in chances], chances)
    skewed = [round(10**7 * chance * (1.01 if ply == 8 else 1)) for ply, chance in enumerate(chances)]
    assert not is_likely(skewed, chances)
