"""A worker of a run plays what it was asked for, or says in one line why it cannot."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from analytics.store.archive import Archive
from quarto.errors import FailureError, RequestError
from runners.arena.experiment import begin, prepare
from runners.arena.playing import Playing, RunWorker, Silence
from runners.arena.spec import RunSpec
from tests.runners.experiments import play, request, stored_at

AGENTS = "agents=[random,{agent:random,_target_:tests.runners.experiments.Dice,name:dice,turn_seconds:9}]"


@pytest.fixture
def spec(tmp_path: Path) -> dict[str, Any]:
    """The specification of a worker of a run that has begun, as it arrives elsewhere."""
    experiment = prepare(stored_at(tmp_path / "archive", request(AGENTS, "games=6", "seats=fixed")))
    begin(experiment.archive, experiment.request.spec, experiment.code, 6, "qarena run")
    playing = Playing(experiment, experiment.left(6), Silence())
    arrived: dict[str, Any] = json.loads(json.dumps(playing.spec()))
    return arrived


def test_a_specification_of_plain_data_is_the_same_run(spec: dict[str, Any]) -> None:
    run = RunSpec.from_plain(spec["run"], Archive.open(Path(spec["root"])))
    asked = request(AGENTS, "games=6", "seats=fixed").spec
    assert (run, run.run_id) == (asked, asked.run_id)
    assert run.agents[1].limits.turn_seconds == 9


def test_it_plays_its_part_and_tells_what_it_committed(spec: dict[str, Any]) -> None:
    told: list[Any] = []
    RunWorker(spec).carry_out([[0, 1, 3], [0, 4, 5]], threading.Event(), told.append)
    (run_id,) = (archive := Archive.open(Path(spec["root"]))).run_ids()
    assert archive.covered(run_id) == {0: [(1, 3), (4, 5)]}
    assert sum(answer["committed"] for answer in told) == 3


def test_it_refuses_an_archive_that_is_not_the_users(spec: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(RequestError, match=r"elsewhere"):
        RunWorker(spec | {"root": str(tmp_path / "elsewhere")})
    play(tmp_path / "other", "games=2")
    with pytest.raises(FailureError, match="all machines must see the same archive under the same path"):
        RunWorker(spec | {"root": str(tmp_path / "other")})


def test_it_refuses_to_play_by_other_code(spec: dict[str, Any]) -> None:
    with pytest.raises(FailureError, match=r"has fingerprint [0-9a-f]{16}, and the run is played by 0123"):
        RunWorker(spec | {"fingerprint": "0123"})
