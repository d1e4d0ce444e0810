"""How an export takes the place of what was there."""

import errno
from pathlib import Path

import pytest

from analytics.exchange.export import _temporary
from quarto.errors import FailureError
from tests.analytics.folders import snapshot


@pytest.mark.parametrize("failing", [1, 2, None])
def test_a_folder_is_replaced_or_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: int | None) -> None:
    output = tmp_path / "games-v0"
    output.mkdir()
    (output / "old").write_text("old")
    before = snapshot(tmp_path)
    calls = iter(range(1, 9))
    rename = Path.rename

    def refuse(path: Path, target: Path) -> Path:
        if next(calls) == failing:
            raise OSError(errno.EIO, "Input/output error")
        return rename(path, target)

    def replace() -> None:
        with _temporary(output, force=True) as (path, _):
            path.mkdir()
            (path / "new").write_text("new")

    monkeypatch.setattr(Path, "rename", refuse)
    if failing:
        with pytest.raises(FailureError, match="Input/output error"):
            replace()
        assert snapshot(tmp_path) == before
    else:
        replace()
        assert snapshot(tmp_path) == {output / "new": b"new"}
