"""Datasets: the tables of an archive in a folder, with a card and a data package that follow from them."""

from __future__ import annotations

import errno
import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import yaml

from analytics import open_archive
from analytics.exact import position_set
from analytics.exchange import data_package
from analytics.exchange.export import ExportRequest, write_export
from analytics.questions.sql.views import VIEWS, read_column_descriptions
from analytics.store.archive import ArchiveStore
from analytics.store.run_notes import update_note
from quarto.errors import FailureError, RequestError
from tests.analytics.exchange.archives import RUNS
from tests.analytics.folders import snapshot
from tests.analytics.naive_games import build_spec, random_block, record, store

LABEL = '```<b>|{{y}} --- "x": [\\'  # of those that may be a label
HOSTILE = 'a\n---\nlicense: mit\n```\n# "x" | <b>{{y}} \\'


def exported(archive: Path, output: Path, where: str | None = None, **options: Any) -> Path:
    with open_archive(archive) as opened:
        write_export(opened, ExportRequest("dataset", where, **options), output)
    return output


def header(folder: Path) -> dict[str, Any]:
    """Parse the YAML of a card."""
    begin, text, _ = (folder / "README.md").read_text(encoding="utf-8").split("---\n", 2)
    assert not begin
    values: dict[str, Any] = yaml.safe_load(text)
    return values


def assert_described(folder: Path) -> None:
    """Check that the card and the data package name every table, its columns and its bytes."""
    package = json.loads((folder / "datapackage.json").read_text(encoding="utf-8"))
    tables = [resource for resource in package["resources"] if "schema" in resource]
    assert [resource["path"] for resource in tables] == [
        resource["data_files"] for resource in header(folder)["configs"]
    ]
    assert {resource["path"] for resource in tables} == {
        path.name for path in folder.iterdir() if path.suffix in (".parquet", ".csv")
    }
    for resource in tables:
        path = folder / resource["path"]
        columns = (pl.scan_csv(path) if path.suffix == ".csv" else pl.scan_parquet(path)).collect_schema().names()
        assert [field["name"] for field in resource["schema"]["fields"]] == columns
        assert all(field["description"] for field in resource["schema"]["fields"])
    for resource in package["resources"]:
        if resource not in tables:
            content = (folder / resource["path"]).read_bytes()
            assert resource["bytes"] == len(content)
            assert resource["hash"] == f"sha256:{hashlib.sha256(content).hexdigest()}"


def test_the_rows_are_those_of_sql_and_the_bytes_are_the_same_again(unsplit: Path, tmp_path: Path) -> None:
    folder = exported(unsplit, tmp_path / "set", licence="cc0-1.0")
    with open_archive(unsplit) as opened:
        for table in ("games", "plies", "runs", "agents"):
            exported_rows = pl.read_parquet(folder / f"{table}.parquet")
            assert exported_rows.equals(opened.sql(f"FROM {table}").select(exported_rows.columns)), table
    assert not (folder / "decisions.parquet").exists()  # it would have no row
    assert_described(folder)
    assert header(folder)["license"] == "cc0-1.0"
    (tmp_path / "again").mkdir()  # an empty folder may be there
    again = exported(unsplit, tmp_path / "again", licence="cc0-1.0")
    for path in folder.iterdir():
        assert (again / path.name).read_bytes() == path.read_bytes()


def test_a_condition_chooses_the_games_of_all_tables(unsplit: Path, tmp_path: Path) -> None:
    run = RUNS[1].run_id
    folder = exported(unsplit, tmp_path / "set", f"run_id = '{run}' AND plies < 9")
    games, plies, runs = (pl.read_parquet(folder / f"{table}.parquet") for table in ("games", "plies", "runs"))
    assert games["plies"].max() < 9  # type: ignore[operator]
    assert plies["game_id"].unique().sort().equals(games.filter(pl.col("plies") > 0)["game_id"].sort())
    assert runs["run_id"].to_list() == [run]
    assert_described(folder)


def test_every_exported_column_has_a_meaning() -> None:
    for table in data_package.TABLE_CONDITIONS:
        assert {name for name, (meaning, _) in read_column_descriptions(table).items() if meaning} == set(VIEWS[table])


def test_texts_of_strangers_stay_texts(tmp_path: Path) -> None:
    archive = ArchiveStore.open(tmp_path / "archive", create=True)
    run = record(build_spec(pairings=((LABEL, "b"),)), command=HOSTILE)
    archive.write_run_and_unit_count(run)
    store(archive, run.run_id, [random_block(1, 0, 0, 4)], run.pairings)
    update_note(archive, run.run_id, LABEL, HOSTILE)
    folder = exported(tmp_path / "archive", tmp_path / "set")
    assert_described(folder)
    assert pl.read_parquet(folder / "runs.parquet").select("name", "note").row(0) == (LABEL, HOSTILE)
    assert header(folder)["license"] == "unknown"
    card = (folder / "README.md").read_text(encoding="utf-8")
    (line,) = [line for line in card.splitlines() if line.startswith('{"run_id"')]
    assert json.loads(line)["command"] == HOSTILE
    assert sum(line.startswith("```") for line in card.splitlines()) == 2
    assert "<b>" not in card.replace(line, "")
    assert LABEL in pl.read_parquet(folder / "games.parquet")["agent_0"].to_list()


def test_wrong_requests_are_refused_and_leave_the_folder(unsplit: Path, tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("mine")
    with open_archive(unsplit) as opened:
        for options, message in {
            ("full", None, False): "exists: name another, or replace it with --force",
            ("full", None, True): "is not an exported dataset alone, so --force does not replace it",
            ("new", "run_id = 'nobody'", False): "has no game with where=\"run_id = 'nobody'\"",
            ("nowhere/new", None, False): "there is no folder",
        }.items():
            output, where, force = options
            with pytest.raises(RequestError, match=message.replace("(", "\\(")):
                write_export(opened, ExportRequest("dataset", where), tmp_path / output, force)
        for name, value in {"perspective": "mover", "sample": 3, "rows": "games", "imposed": True}.items():
            with pytest.raises(RequestError, match=f"--{name}.* has no effect on format dataset"):
                ExportRequest("dataset", **{name: value})  # type: ignore[arg-type]
    with pytest.raises(RequestError, match="is not the name of a licence on the Hub"):
        ExportRequest("dataset", licence="mine\nx: y")
    with pytest.raises(RequestError, match="--license has no effect on format csv"):
        ExportRequest("csv", licence="mit")
    assert [path.name for path in tmp_path.rglob("*")] == ["full", "mine.txt"]


def test_a_full_disk_is_one_line_and_the_old_dataset_stays(
    unsplit: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = exported(unsplit, tmp_path / "set")
    before = snapshot(tmp_path)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(data_package, "write_card_and_package", full)
    with open_archive(unsplit) as opened:
        with pytest.raises(FailureError, match=r"cannot write .*set: No space left on device"):
            write_export(opened, ExportRequest("dataset"), folder, force=True)
        assert snapshot(tmp_path) == before
        monkeypatch.undo()
        write_export(opened, ExportRequest("dataset", "plies < 9"), folder, force=True)
    assert snapshot(tmp_path) != before


SHIPPED = {
    position_set.SHIPPED_FOLDER: data_package.DatasetCard(
        "Positions of Quarto with the exact value of every turn",
        "cc0-1.0",
        "`qarena policy positions --archive data/sample --output classic.parquet` makes the same bytes.",
    ),
    position_set.SHIPPED_FOLDER.parent / "puzzle_sets": data_package.DatasetCard(
        "Puzzles of Quarto: one turn keeps the value",
        "cc0-1.0",
        "`qarena puzzles make` chose them among positions of annotated games, by exact values.",
    ),
}


def test_the_positions_and_puzzles_that_ship_are_datasets() -> None:
    """Compare the cards; if this fails, write the texts of ``data_package.build_card_and_package`` to their paths."""
    for folder, card in SHIPPED.items():
        for name, text in data_package.build_card_and_package(folder, card).items():
            assert (folder / name).read_text(encoding="utf-8") == text
        assert_described(folder)


@pytest.mark.extras
def test_their_own_libraries_read_a_dataset(unsplit: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from frictionless import validate

    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    from datasets import load_dataset

    folder = exported(unsplit, tmp_path / "set")
    for table in ("games", "plies", "runs", "agents"):
        dataset = load_dataset(str(folder), table, split="train", cache_dir=str(tmp_path / "cache"))
        assert dataset.to_polars().equals(pl.read_parquet(folder / f"{table}.parquet"))
    assert "winner" in load_dataset(str(folder), split="train", cache_dir=str(tmp_path / "cache")).features  # games
    for dataset_folder in (folder, *SHIPPED):
        assert load_dataset(str(dataset_folder), split="train", cache_dir=str(tmp_path / "cache")).num_rows
        report = validate(str(dataset_folder / "datapackage.json"), limit_rows=1000)
        assert report.valid, report.to_summary()
    broken = shutil.copytree(folder, tmp_path / "broken")
    (broken / "runs.parquet").write_bytes((folder / "runs.parquet").read_bytes() + b"x")
    assert not validate(str(broken / "datapackage.json")).valid
