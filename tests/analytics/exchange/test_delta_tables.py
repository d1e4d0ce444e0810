"""Delta tables of games and plies, as Polars reads them."""

from pathlib import Path

import polars as pl
import pytest
from msgspec import structs

from analytics.questions.sql.database import OpenArchive
from analytics.store.archive import Archive
from analytics.tables.upkeep.compaction import compact_run
from analytics.tables.upkeep.garbage import remove_replaced_files
from quarto.errors import FailureError, RequestError
from tests.analytics.naive_games import RUN_ID, random_block, record, single_games, spec_of, store
from tests.object_storage import BOTH

pytestmark = pytest.mark.extras
TABLES = ("games", "plies")


def export(archive: Archive, folder: Path, tables: tuple[str, ...] = TABLES) -> tuple[int, int]:
    from analytics.exchange.delta_tables import write_delta_tables

    added = write_delta_tables(archive, folder, tables)
    return added["games"], added["plies"]


def assert_same(archive: Archive, folder: Path) -> None:
    with OpenArchive(archive.root) as opened:
        for table in TABLES:
            rows = pl.scan_delta(str(folder / table)).collect()
            expected = opened.sql(f"FROM {table}").select(rows.columns).cast(rows.schema)
            assert rows.sort(pl.all()).equals(expected.sort(pl.all()))


@BOTH
def test_polars_reads_the_rows_of_the_archive(archive: Archive, tmp_path: Path) -> None:
    counts = export(archive, tmp_path / "delta")
    assert_same(archive, tmp_path / "delta")
    assert counts[0] == pl.scan_delta(str(tmp_path / "delta" / "games")).select(pl.len()).collect().item()
    schema = pl.scan_delta(str(tmp_path / "delta" / "plies")).collect_schema()
    assert {name: schema[name] for name in ("game_id", "piece", "run_id")} == {
        "game_id": pl.Int64,
        "piece": pl.Int8,
        "run_id": pl.String,
    }


def test_again_adds_only_what_is_new_also_after_compaction_of_either(archive: Archive, tmp_path: Path) -> None:
    from deltalake import DeltaTable

    folder = tmp_path / "delta"
    export(archive, folder)
    assert export(archive, folder) == (0, 0)
    DeltaTable(folder / "games").optimize.compact()
    more = [random_block(1, pairing, 8) for pairing in range(3)]  # units 24 to 47
    store(archive, RUN_ID, more)
    archive.update_run(RUN_ID, lambda run: run and structs.replace(run, games=32))
    assert compact_run(archive, RUN_ID)[:2] == (4, 1)  # a file of which the table has a part
    assert remove_replaced_files(archive, RUN_ID, 0) == 12
    fixed = record(spec_of(seats="fixed", seed=3))
    archive.write_run(fixed)
    store(archive, fixed.run_id, [single_games(1, 0, 0), single_games(1, 0, 12)])
    imported = record(spec_of(seats="fixed", imported={"event": "", "date": "", "sha256": "ab" * 32}))
    archive.write_run(imported)
    store(archive, imported.run_id, [single_games(1, 0, 0), single_games(1, 2, 8)])
    assert export(archive, folder)[0] == 48 + 16 + 16
    assert_same(archive, folder)
    assert export(archive, folder) == (0, 0)


def test_two_writers_do_not_write_the_same_games(
    archive: Archive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from analytics.exchange import delta_tables

    folder, append = tmp_path / "delta", delta_tables._append_rows
    export(archive, folder)
    store(archive, RUN_ID, [random_block(1, 0, 200, 1)])

    def other_first(*arguments: object) -> object:
        monkeypatch.undo()
        assert export(archive, folder)[0] == 2
        return append(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(delta_tables, "_append_rows", other_first)
    with pytest.raises(FailureError, match="if another process writes to it, run the same command again"):
        export(archive, folder)
    assert_same(archive, folder)


def test_stopped_it_goes_on(archive: Archive, tmp_path: Path) -> None:
    from analytics.exchange.delta_tables import write_delta_tables

    def stop(_games: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_delta_tables(archive, tmp_path / "delta", TABLES, stop)
    export(archive, tmp_path / "delta")
    assert_same(archive, tmp_path / "delta")


@pytest.mark.parametrize("obstacle", ["archive", "file", "other", "table"])
def test_other_folders_are_refused(archive: Archive, tmp_path: Path, obstacle: str) -> None:
    folder = tmp_path / "delta"
    if obstacle == "archive":
        folder = Path(archive.root) / "delta"
    elif obstacle == "file":
        folder.write_text("mine")
    elif obstacle == "other":
        (folder / "notes").mkdir(parents=True)
    else:
        pl.DataFrame({"a": [1]}).write_delta(str(folder / "games"))
    with pytest.raises(RequestError, match=r"archive|is a file|has other files|of something else"):
        export(archive, folder)
