"""Records that refer to a run that is gone are named: nothing else in an archive could tell that there was one."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from analytics.policies import policy_store
from analytics.store.archive import Archive
from analytics.store.records import SweepJob
from analytics.verify.archive import verify
from tests.analytics.indexed import save_own_verdict
from tests.analytics.naive_games import RUN_ID
from tests.analytics.stored_policies import COUNTS, origin

GONE = "is gone: restore it from a copy, or remove what refers to it"


@pytest.fixture
def whole(archive: Archive) -> Archive:
    """An archive with a sweep and a verdict of its run, a job that failed before it had one, and a policy."""
    archive.save_sweep_job(SweepJob("s", 0, {"seed": "7"}, RUN_ID))
    archive.save_sweep_job(SweepJob("s", 1, {"seed": "x"}, None, "failed", "no seed", jobs=2))
    policy_store.save(archive, COUNTS, origin())
    save_own_verdict(archive, RUN_ID)
    assert verify(archive).problems == []
    return archive


def test_a_sweep_and_a_verdict_miss_their_run(whole: Archive) -> None:
    root = Path(whole.root)
    (verdict,) = root.glob("verdicts/*/*")
    Path(whole.record_file(RUN_ID)).unlink()
    for table in ("games", "plies", "tallies"):
        shutil.rmtree(root / table)
    assert {problem.file: problem.what for problem in verify(whole).problems} == {
        root / "sweeps" / "s" / "0.json": f"its run {RUN_ID} {GONE}",
        verdict: "its run has no record",
    }


@pytest.mark.parametrize("job", [0, 1])
def test_a_sweep_misses_each_of_its_jobs_also_the_last(whole: Archive, job: int) -> None:
    whole.save_sweep_job(SweepJob("s", 0, {"seed": "7"}, RUN_ID, jobs=2))
    path = Path(whole.root) / "sweeps" / "s" / f"{job}.json"
    path.unlink()
    (problem,) = verify(whole).problems
    assert (problem.file, problem.what.split(":")[0]) == (path, "missing")


@pytest.mark.parametrize("lost", ["verdicts", "games", "runs"])
def test_what_a_run_had_is_missed(whole: Archive, lost: str) -> None:
    shutil.rmtree(Path(whole.root) / lost)
    assert any("missing" in problem.what for problem in verify(whole).problems)


def test_an_imported_policy_misses_no_run(archive: Archive) -> None:
    learned = {**origin().learned, "run_ids": [], "imported": {"file": "x.csv", "sha256": "ab" * 32}}
    policy_store.save(archive, COUNTS, origin(learned=learned))
    assert verify(archive).problems == []
