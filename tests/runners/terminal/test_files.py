"""Files that commands write: whole or as before, never silently over another one, never inside an archive."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import polars as pl
import pytest

from analytics import open_archive
from analytics.store.archive import ArchiveStore
from quarto.errors import FailureError, RequestError
from runners.terminal.files import TableOutput, build_table_output, check_output_file, replace_file, write_file
from runners.terminal.tables import output_batches, output_frame
from tests.another_user import another_user, visible_folder


@contextmanager
def small_disk() -> Iterator[None]:
    """Limit files to 1,000 bytes inside the context, as on a disk that is nearly full."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


@pytest.mark.parametrize("form", ["table", "csv", "json", "parquet"])
def test_a_full_disk_leaves_the_old_file(tmp_path: Path, form: str) -> None:
    path = tmp_path / "answer"
    path.write_bytes(b"old")
    rows = pl.DataFrame({"number": pl.Series(range(5000)).shuffle(1)})
    with small_disk(), pytest.raises(FailureError, match=f"cannot write {path}: "):
        output_frame(rows, build_table_output(form, path, force=True))
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == {"answer": b"old"}


@pytest.mark.parametrize("form", ["csv", "json", "parquet"])
def test_a_full_disk_ends_an_answer_in_parts(tmp_path: Path, form: str) -> None:
    archive = ArchiveStore.open(tmp_path / "archive", create=True)
    path = tmp_path / "answer"
    with open_archive(archive.root) as opened:
        with small_disk(), pytest.raises(FailureError, match=f"cannot write {path}: File too large"):
            opened.stream(
                "SELECT hash(range) FROM range(1000000)", partial(output_batches, output=TableOutput(form, path))
            )
        assert opened.sql("SELECT 1 AS x").item() == 1
    assert [file.name for file in tmp_path.iterdir()] == ["archive"]


def test_an_existing_file_is_replaced_only_if_asked(tmp_path: Path) -> None:
    path = tmp_path / "answer.csv"
    path.write_bytes(b"old")
    path.chmod(0o600)
    with pytest.raises(RequestError, match=r"answer\.csv exists: name another file, or replace it with --force"):
        build_table_output(None, path)
    output_frame(pl.DataFrame({"games": [7]}), build_table_output(None, path, force=True))
    assert path.read_bytes() == b"games\n7\n"
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_bytes(b"old")
    link.symlink_to("target")
    write_file(link, b"new")
    assert link.is_symlink()
    assert target.read_bytes() == b"new"


def test_an_error_on_the_way_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "answer"
    path.write_bytes(b"old")

    def write_and_interrupt() -> None:
        with replace_file(path) as temporary:
            temporary.write_bytes(b"half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_and_interrupt()
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == {"answer": b"old"}


def test_a_device_is_written_to_and_not_replaced() -> None:
    check_output_file(Path("/dev/null"), force=False)
    write_file(Path("/dev/null"), b"x")
    assert Path("/dev/null").is_char_device()


@pytest.mark.parametrize("name", ["archive.json", "games/x/000000.parquet", "new.csv"])
@pytest.mark.parametrize("link", [False, True])
def test_nothing_is_written_inside_any_archive(tmp_path: Path, name: str, link: bool) -> None:
    root = ArchiveStore.open(tmp_path / "archive", create=True).root
    Path(root / "games" / "x").mkdir(parents=True)
    (tmp_path / "link").symlink_to(root)
    path = (tmp_path / "link" if link else root) / name
    with pytest.raises(RequestError, match=f"is inside archive {root}, where only runs write"):
        check_output_file(Path(path), force=True)


def test_the_standard_output_is_inside_no_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ArchiveStore.open(tmp_path / "archive", create=True).root)
    check_output_file(Path("-"), force=False)


def test_a_marker_of_another_program_is_no_archive(tmp_path: Path) -> None:
    (tmp_path / "archive.json").write_text('{"format": "zip"}')
    check_output_file(tmp_path / "new.csv", force=False)
    (tmp_path / "runs").mkdir()  # a damaged marker
    with pytest.raises(RequestError, match="is inside archive"):
        check_output_file(tmp_path / "new.csv", force=False)


def test_a_folder_that_is_not_writable_is_found_before_the_work() -> None:
    with visible_folder() as folder:
        folder.chmod(0o555)
        with another_user(), pytest.raises(RequestError, match="its folder is not writable"):
            check_output_file(folder / "new.csv", force=False)
