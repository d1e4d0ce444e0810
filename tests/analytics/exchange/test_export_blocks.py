from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from analytics import open_archive
from analytics.exchange.export import ExportRequest, write_export
from analytics.exchange.export_blocks import read_export_blocks, sample_game_ids
from analytics.questions.selection import select_games
from tests import naive
from tests.analytics.exchange.archives import RUNS
from tests.marks import seldom

Key = tuple[str, int]


def ids(root: Path, where: str | None = None, sample: int | None = None, seed: int = 1) -> list[Key]:
    with open_archive(root) as opened:
        chunks = read_export_blocks(select_games(opened, where), sample, seed)
        return [(of.record.run_id, game) for of in chunks for game in of.range_games.game_id.tolist()]


def test_every_chosen_game_comes_once_those_of_the_same_agents_together(unsplit: Path) -> None:
    with open_archive(unsplit) as opened:
        rows = opened.sql("SELECT rules, agent_0, agent_1, run_id, game_id FROM games").rows()
    order = {run.run_id: number for number, run in enumerate(RUNS)}
    expected = sorted(rows, key=lambda row: (row[0], row[1], row[2], order[row[3]], row[4]))
    assert ids(unsplit) == [row[3:] for row in expected]


def naive_words(keys: list[Key], seed: int) -> dict[Key, int]:
    words = {}
    for run_id, game_id in keys:
        word = naive.stream(seed, int(run_id, 16), 0)
        words[run_id, game_id] = naive.mix((word + game_id * naive.GAMMA) & naive.WORD)
    return words


@pytest.mark.parametrize("where", ["agent_0 = 'random'", *seldom(None)])
@pytest.mark.parametrize("sample", [7, *seldom(1, 40)])
def test_a_sample_is_the_games_with_the_least_words_whatever_the_files(
    unsplit: Path, scattered: Path, where: str | None, sample: int
) -> None:
    words = naive_words(ids(unsplit, where), seed=5)
    least = sorted(words, key=lambda key: words[key])[:sample]
    sampled = ids(unsplit, where, sample, seed=5)
    assert sampled == [key for key in words if key in least]
    assert ids(scattered, where, sample, seed=5) == sampled


def test_samples_are_uniform(unsplit: Path) -> None:
    everything, seeds = ids(unsplit), 40
    drawn: Counter[Key] = Counter()
    with open_archive(unsplit) as opened:
        selection = select_games(opened)
        for seed in range(seeds):
            sampled = sample_game_ids(selection, len(everything) // 2, seed)
            drawn.update(
                (run.run_id, game) for run, game_ids in zip(selection.runs, sampled, strict=True) for game in game_ids
            )
    # Each game is drawn with chance 1/2 by each seed: by none of 120 games more than 5 standard deviations off.
    assert all(abs(drawn[key] - seeds / 2) < 5 * (seeds / 4) ** 0.5 for key in everything)
    assert len(set(drawn.values())) > 5


@pytest.mark.parametrize("form", ["text", "minari", *seldom("csv", "d3rlpy")])
def test_the_same_games_are_the_same_bytes_whatever_the_files(
    unsplit: Path, scattered: Path, tmp_path: Path, form: str
) -> None:
    content = []
    for number, root in enumerate((unsplit, scattered, unsplit)):
        request = ExportRequest(form, perspective=None if form in ("text", "csv") else "seat_1", sample=60, seed=3)
        output = tmp_path / f"{number}" / "games-v0"
        output.parent.mkdir()
        with open_archive(root) as opened:
            write_export(opened, request, output)
        files = sorted(path for path in [output, *output.rglob("*")] if path.is_file())
        content.append([path.read_bytes() for path in files])
        assert [path.name for path in output.parent.iterdir()] == ["games-v0"]
    assert content[0] == content[1] == content[2]
