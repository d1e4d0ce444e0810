"""Whatever an archive has lost is named by ``verify``, and no question is answered around it."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from msgspec import UNSET, structs
from polars.testing import assert_frame_equal

from analytics import open_archive
from analytics.questions.mistakes import build_judged_agent_names
from analytics.questions.sql.views import VIEWS
from analytics.store.archive import ArchiveStore
from analytics.store.records import SweepJob
from analytics.store.snapshot import Snapshot
from analytics.tables.derived.definitions import EVALUATIONS_TABLE
from analytics.tables.derived.range_table import record_increased_derived_units
from analytics.tables.verification.archive import verify_archive
from quarto.errors import ArenaError, FailureError
from tests.analytics.folders import copy_archive
from tests.analytics.naive_games import RUN_ID

# By what is lost: the files, of which the first is removed, and whether that is a loss. Tallies follow from games.
LOSSES = {
    "games": ("games/run=*/*", True),
    "plies": ("plies/run=*/*", True),
    "tallies": ("tallies/run=*/*", False),
    "decisions": ("decisions/run=*/*", True),
    "positions": ("positions/run=*/*", True),
    "first_plies": ("first_plies/run=*/*", True),
    "evaluations": ("evaluations/run=*/*", True),
    "a run's record": ("runs/*.json", True),
    "a job of a sweep": ("sweeps/*/*.json", True),
    "a verdict": ("verdicts/run=*/*.json", True),
    "a policy's table": ("policies/*/table-*.parquet", True),
    "a policy's curve": ("policies/*/curve-*.parquet", True),
    "a policy's card": ("policies/*/card.json", True),
}
QUESTIONS = {
    **{view: f"FROM {view} ORDER BY ALL" for view in VIEWS},
    **{f"the number of {view}": f"SELECT count(*) FROM {view}" for view in VIEWS},
    "a policy": "FROM policy('mine') ORDER BY ALL",
    "openings": "FROM ordered_openings(2) ORDER BY ALL",
}


def answers(root: Path) -> dict[str, pl.DataFrame | str]:
    """Ask each question and return the answer, or its error."""
    by_question: dict[str, pl.DataFrame | str] = {}
    for name, question in QUESTIONS.items():
        try:
            with open_archive(root) as opened:
                by_question[name] = opened.sql(question)
        except ArenaError as error:
            by_question[name] = str(error)
    return by_question


@pytest.fixture(scope="module")
def promising(everything: ArchiveStore, tmp_path_factory: pytest.TempPathFactory) -> ArchiveStore:
    """Copy an archive with files of every kind, and add a sweep of three jobs that has ended."""
    archive = copy_archive(everything, tmp_path_factory.mktemp("promising") / "archive")
    for job in range(3):
        archive.write_sweep_job(SweepJob("sweep", job, {"games": "16"}, RUN_ID, jobs=0 if job == 1 else 3))
    return archive


@pytest.fixture(scope="module")
def sound(promising: ArchiveStore) -> dict[str, pl.DataFrame | str]:
    return answers(Path(promising.root))


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("all_files", [False, True], ids=["one file", "all files"])
def test_a_lost_file_is_named_and_not_answered_around(
    loss: str, all_files: bool, promising: ArchiveStore, sound: dict[str, pl.DataFrame | str], tmp_path: Path
) -> None:
    archive = copy_archive(promising, tmp_path / "archive")
    pattern, is_loss = LOSSES[loss]
    files = sorted(Path(archive.root).glob(pattern))
    assert files
    is_unknown = loss == "a job of a sweep" and all_files  # nothing says any more that there was one
    for file in files if all_files else files[:1]:
        file.unlink()
    problems = [str(problem.file) for problem in verify_archive(archive).problems]
    assert bool(problems) == (is_loss and not is_unknown)
    assert not problems or any(problem.startswith(str(files[0].parent)) for problem in problems)
    if is_unknown or loss == "a policy's card":  # files without a card may also be left of a killed writer
        return
    answers_after = answers(Path(archive.root))
    differing = [name for name, answer in answers_after.items() if not is_same(answer, sound[name])]
    assert differing == [
        name for name in differing if isinstance(answers_after[name], str)
    ]  # an error, no other answer
    for name in differing:
        assert names_loss(str(answers_after[name]), files[0], loss), (name, answers_after[name])


def is_same(answer: pl.DataFrame | str, before: pl.DataFrame | str) -> bool:
    if isinstance(answer, str) or isinstance(before, str):
        return answer is before
    try:
        assert_frame_equal(answer.cast({pl.Categorical: pl.String}), before.cast({pl.Categorical: pl.String}))
    except AssertionError:
        return False
    return True


def names_loss(error: str, file: Path, loss: str) -> bool:
    """Return whether an error names what is lost, or the command that makes it again."""
    if loss == "positions":
        return "not indexed" in error and "runners.index" in error
    return file.parent.name in error


def test_mistakes_are_not_counted_in_a_part_of_the_decisions(full_archive: ArchiveStore) -> None:
    min(Path(full_archive.root).glob("decisions/run=*/*")).unlink()
    with open_archive(full_archive.root) as opened, pytest.raises(FailureError) as refused:
        build_judged_agent_names(opened, "true")
    folder = full_archive.folder("decisions", RUN_ID)
    remedy = "which were there: restore the files from a copy, or run 'qarena annotate' again"
    assert str(refused.value) == f"{folder} lacks 16 of 24 units, {remedy}"


def test_pages_leave_out_a_run_whose_record_is_lost_and_say_so(full_archive: ArchiveStore) -> None:
    Path(full_archive.run_record_path(RUN_ID)).unlink()
    snapshot = Snapshot(full_archive.root)
    (line,) = snapshot.drop_damaged_runs_and_list_messages()
    assert line.startswith(
        f"run {RUN_ID} has games and no record: restore {full_archive.run_record_path(RUN_ID)} from a copy"
    )
    assert (snapshot.load_runs(), snapshot.list_ids_of_runs_with_games()) == ([], [])
    with pytest.raises(FailureError, match="has games and no record"):
        full_archive.load_runs()
    for file in Path(full_archive.root).glob("games/run=*/*"):
        file.unlink()
    assert (full_archive.load_runs(), Snapshot(full_archive.root).load_runs()) == ([], [])  # an empty folder is no run


def test_a_loss_is_not_forgotten_when_units_are_noted_again(full_archive: ArchiveStore) -> None:
    min(Path(full_archive.root).glob("evaluations/run=*/*")).unlink()
    record_increased_derived_units(full_archive, RUN_ID, [EVALUATIONS_TABLE])
    (problem,) = verify_archive(full_archive).problems
    assert "lacks 16 of 24 units" in problem.fault


def test_a_record_of_before_promises_no_derived_table(full_archive: ArchiveStore) -> None:
    """Check that it also stays the same bytes."""
    path = Path(full_archive.run_record_path(RUN_ID))
    assert '"derived"' in path.read_text()
    before = ArchiveStore.open(full_archive.root, create=True).load_run(RUN_ID)

    full_archive.write_run_and_unit_count(structs.replace(before, derived=UNSET))
    content = path.read_bytes()
    assert b"derived" not in content
    full_archive.write_run_and_unit_count(full_archive.load_run(RUN_ID))
    assert path.read_bytes() == content
    for file in Path(full_archive.root).glob("evaluations/run=*/*"):
        file.unlink()
    assert verify_archive(full_archive).problems == []
