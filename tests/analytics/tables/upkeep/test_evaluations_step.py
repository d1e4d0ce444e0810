"""An archive in which evaluations were called thoughts is upgraded; nothing is lost, whenever that is killed."""

from __future__ import annotations

import json
from pathlib import Path, PurePath
from typing import Any

import polars as pl
import pytest

from analytics import open_archive
from analytics.store import policy_store
from analytics.store.archive import ArchiveStore
from analytics.store.files.backend import ObjectUrl
from analytics.store.files.local_files import find_backend
from analytics.store.records import CHECKSUM, compute_run_id
from analytics.tables.upkeep import evaluations_step
from analytics.tables.upkeep.format_upgrade import upgrade_archive
from analytics.tables.verification.archive import verify_archive
from quarto.errors import FailureError, RequestError
from tests.analytics.folders import forge, read_contents, snapshot
from tests.analytics.tables.upkeep.killing import kill_before
from tests.analytics.tables.upkeep.older_archives import (
    FINGERPRINTS,
    FORMAT_2,
    POLICY_ID,
    SEARCH_RUN,
    UNITS,
    copy_format_2,
)

CHANGES = 3 + 2 + 3 + 1 + 1 + 3  # files of the table, jobs, runs, a card and the marker are written; files are removed


@pytest.fixture
def old(tmp_path: Path) -> Path:
    return copy_format_2(tmp_path / "archive")


@pytest.fixture(scope="module")
def upgraded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = copy_format_2(tmp_path_factory.mktemp("upgraded") / "archive")
    upgrade_archive(root)
    return root


def load_json(path: Path) -> dict[str, Any]:
    values: dict[str, Any] = json.loads(path.read_bytes())
    return {key: value for key, value in values.items() if key not in {CHECKSUM, "schema_version"}}


def relative_names(root: Path) -> dict[str, bytes]:
    return {path.relative_to(root).as_posix(): content for path, content in snapshot(root).items()}


def test_an_archive_with_thoughts_is_refused_with_the_command_that_upgrades_it(old: Path) -> None:
    with pytest.raises(RequestError, match=f"has format 2, .*: run 'qarena archive upgrade --archive {old}'$"):
        ArchiveStore.open(old)


def test_runs_games_and_policies_are_the_same_afterwards(upgraded: Path) -> None:
    archive = ArchiveStore.open(upgraded)
    assert verify_archive(archive).problems == []
    assert archive.list_ids_of_runs_with_games() == sorted(FINGERPRINTS)
    for run_id, fingerprint in FINGERPRINTS.items():
        assert f"{archive.list_effective_ranges(run_id).fingerprint:016x}" == fingerprint
        assert archive.load_run(run_id).derived == dict.fromkeys(
            ("evaluations", "positions", "first_plies"), UNITS[run_id]
        )
    card, _ = policy_store.read(archive, "from_search")
    assert card.policy_id == POLICY_ID
    stored = pl.concat(pl.read_parquet(path, hive_partitioning=False) for path in FORMAT_2.glob("thoughts/*/*.parquet"))
    with open_archive(upgraded) as opened:
        rows = opened.sql("SELECT count(*) AS rows, sum(visits) FILTER (visits >= 0) AS visits FROM evaluations")
        assert rows.row(0) == (stored.height, stored.filter(pl.col("visits") >= 0)["visits"].sum())
        assert opened.sql('SELECT DISTINCT overrides."archive.evaluations" FROM sweeps').item() is True
        assert opened.sql("SELECT count(*) FROM decisions").item() == 240


def test_files_keep_their_bytes_and_records_all_but_the_word(upgraded: Path) -> None:
    before, after = relative_names(FORMAT_2), relative_names(upgraded)
    assert {name.replace("thoughts/", "evaluations/") for name in before} == set(after)
    assert not (upgraded / "thoughts").exists()
    for name, content in before.items():
        if not name.endswith(".json"):
            assert after[name.replace("thoughts/", "evaluations/")] == content
            continue
        values = load_json(FORMAT_2 / name)
        if name.startswith("policies/"):
            learned = values["learned"]
            learned["evaluations"] = learned.pop("thoughts")
            for parameters in (learned["parameters"], learned["derivation"]["parameters"]):
                assert parameters["method"] == "thoughts"
                parameters["method"] = "evaluations"
            learned["training"] = compute_run_id(
                {"kind": "line_values", "settings": learned["parameters"], "where": "true"}
            )
        elif name.startswith("runs/"):
            values["derived"]["evaluations"] = values["derived"].pop("thoughts")
        elif name.startswith("sweeps/"):
            values["overrides"]["archive.evaluations"] = values["overrides"].pop("archive.thoughts")
        assert load_json(upgraded / name) == values


@pytest.mark.parametrize("change", range(CHANGES))
def test_a_killed_upgrade_loses_nothing_and_is_gone_on_with(old: Path, upgraded: Path, change: int) -> None:
    kill_before(old, change, lambda: upgrade_archive(old))
    names = {name.removeprefix("thoughts/").removeprefix("evaluations/") for name in relative_names(old)}
    assert names >= {name.removeprefix("thoughts/") for name in relative_names(FORMAT_2)}
    upgrade_archive(old)
    assert relative_names(old) == relative_names(upgraded)


def test_there_are_as_many_writes_and_removals_as_were_tried(old: Path) -> None:
    with pytest.raises(pytest.fail.Exception, match="DID NOT RAISE"):
        kill_before(old, CHANGES, lambda: upgrade_archive(old))


def test_files_that_came_into_the_old_folder_later_move_too(upgraded: Path, tmp_path: Path) -> None:
    root = tmp_path / "archive"
    for name, content in relative_names(upgraded).items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    folder = f"run={SEARCH_RUN}"
    (root / "thoughts").mkdir()
    (root / "evaluations" / folder).rename(root / "thoughts" / folder)
    assert upgrade_archive(root) == []
    assert relative_names(root) == relative_names(upgraded)
    assert not (root / "thoughts").exists()


def test_nothing_is_written_if_a_job_of_a_sweep_is_damaged(old: Path) -> None:
    job = min(old.glob("sweeps/*/*.json"))
    job.write_bytes(job.read_bytes().replace(b'"complete"', b'"failed"'))
    before = snapshot(old)
    with pytest.raises(FailureError, match=f"{job.name} is damaged: restore"):
        upgrade_archive(old)
    assert snapshot(old) == before


@pytest.mark.parametrize(
    ("key", "text", "expected"),
    [
        ("kind.method", "thoughts", "evaluations"),
        ("kind.method", "fitted", "fitted"),
        ("trainer.kind", "line_values(method=thoughts,passes=2)", "line_values(method=evaluations,passes=2)"),
        ("trainer.kind", "mine(method=thoughts)", "mine(method=thoughts)"),
        ("policy.name", "thoughts", "thoughts"),
    ],
)
def test_settings_of_jobs_get_the_word_where_they_mean_it(old: Path, key: str, text: str, expected: str) -> None:
    job = min(old.glob("sweeps/*/*.json"))
    forge(job, lambda values: values["overrides"].update({key: text}))
    upgrade_archive(old)
    assert load_json(job)["overrides"][key] == expected


def test_a_kind_of_the_users_own_keeps_its_settings(old: Path) -> None:
    card = old / "policies" / POLICY_ID / "card.json"
    settings = {"_target_": "mine.Kind", "method": "thoughts"}
    forge(
        card,
        lambda values: values["learned"].update(parameters=settings, derivation={"kind": "k", "parameters": settings}),
    )
    before = load_json(card)["learned"]
    upgrade_archive(old)
    assert load_json(card)["learned"] == {
        **{key: value for key, value in before.items() if key != "thoughts"},
        "evaluations": before["thoughts"],
    }


def test_a_record_of_a_verdict_stays_as_it_is() -> None:
    values = {"verdict_id": "thoughts"}
    assert evaluations_step.rename_word_in_record("verdicts/run=1/2.json", values) == values


@pytest.mark.extras
def test_an_archive_in_a_bucket_is_upgraded_too(bucket: ObjectUrl, upgraded: Path) -> None:
    root: PurePath = bucket / "archive"
    for name, content in relative_names(FORMAT_2).items():
        find_backend(root).replace(root / name, content)
    upgrade_archive(root)
    archive = ArchiveStore.open(root)
    assert {archive.relative_name(path): content for path, content in read_contents(archive).items()} == relative_names(
        upgraded
    )
    assert verify_archive(archive).problems == []
