"""Games that come in the order of their units become few files, and none is lost or written twice."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import pytest

from analytics.store.archive import Archive
from analytics.store.range_files import read_games
from analytics.store.ranges import Range
from quarto.batch import Block
from quarto.errors import FailureError
from runners.arena.experiment import Experiment, RangeWriter, prepare
from runners.arena.schedule import orders_of
from runners.hosting.guarded_agent import StuckError
from tests.runners.experiments import request, stored_at


@pytest.fixture
def experiment(tmp_path: Path) -> Experiment:
    """A tournament of three pairings."""
    asked = request("agents=[random,semi_random,dumb]", "archive.shard_games=32", "archive.shard_seconds=1000")
    return prepare(stored_at(tmp_path, asked))


def blocks(experiment: Experiment, first: int, end: int) -> list[Block]:
    return [experiment.engine.play_block(order).block for order in orders_of(experiment.line, first, end)]


def files(experiment: Experiment) -> list[Range]:
    return [(each.first, each.end) for each in experiment.archive.ranges(experiment.run_id)]


def test_full_files_are_written_as_soon_as_there_are_enough_games(experiment: Experiment) -> None:
    with RangeWriter(experiment, 5, total=60) as writer:
        writer.add(20, blocks(experiment, 5, 20))
        assert files(experiment) == []
        writer.add(39, blocks(experiment, 20, 39))
        assert files(experiment) == [(5, 6), (6, 8), (8, 16), (16, 32)]  # the rest waits for more
        writer.add(60, blocks(experiment, 39, 60))
    assert files(experiment) == [(5, 6), (6, 8), (8, 16), (16, 32), (32, 48), (48, 60)]
    assert writer.games == 2 * 55
    whole = Archive.open(experiment.archive.root)
    games = [read_games(whole, experiment.run_id, each).game_id.tolist() for each in whole.ranges(experiment.run_id)]
    assert len({game for each in games for game in each}) == 2 * 55


def test_after_some_time_what_is_there_is_written_even_if_nothing_comes(
    experiment: Experiment,
) -> None:
    asked = replace(experiment.request, storage=replace(experiment.request.storage, shard_seconds=0.05))
    with RangeWriter(replace(experiment, request=asked), 0) as writer:
        writer.add(9, blocks(experiment, 0, 9))
        threading.Event().wait(0.06)
        writer.look()
        assert files(experiment) == [(0, 8)]  # a single unit waits
        writer.skip(12)
        assert files(experiment) == [(0, 8), (8, 9)]
        writer.add(13, blocks(experiment, 12, 13))
    assert files(experiment) == [(0, 8), (8, 9), (12, 13)]


@pytest.mark.parametrize(
    ("error", "kept"), [(StuckError("it hangs"), 1), (FailureError("no"), 0), (KeyboardInterrupt(), 0)]
)
def test_what_is_left_is_written_unless_something_failed(
    error: BaseException, kept: int, experiment: Experiment
) -> None:
    def fail(writer: RangeWriter) -> None:
        with writer:
            writer.add(4, blocks(experiment, 0, 4))
            raise error

    with pytest.raises(type(error)):
        fail(RangeWriter(experiment, 0))
    assert len(files(experiment)) == kept


def test_what_comes_after_the_end_is_ignored(experiment: Experiment) -> None:
    writer = RangeWriter(experiment, 0)
    writer.add(4, blocks(experiment, 0, 4))
    writer.close()
    writer.add(8, blocks(experiment, 4, 8))
    writer.close()
    assert files(experiment) == writer.written == [(0, 4)]
