"""No module of a sandboxed entry is imported into this process, and its source can still be read."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

from quarto.sources import read_imported_modules
from runners.league.entries import isolate_entries
from runners.league.import_guard import refuse_imports_of_entries
from runners.league.standings import open_league_results
from tests.runners.league.leagues import HERE, opened, play, write_league, write_own_agent


def test_a_module_of_an_entry_cannot_be_imported_where_entries_have_a_sandbox(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runners.league.entries.find_sandbox_obstacle", lambda: "")
    folder = write_league(
        tmp_path, "name: a, agent: league_guarded", f"name: b, agent: league_first, {HERE}", settings="games: 2\n"
    )
    code = "import pathlib\npathlib.Path(__file__).with_name('imported').touch()\n"
    own_folder = write_own_agent(folder, "league_guarded", "class Player:\n    pass\n")
    (own_folder / "optional_dependency_of_a_library.py").write_text(code)
    monkeypatch.delitem(sys.modules, "league_first", raising=False)
    with opened(folder) as league, isolate_entries(league, trust_agents=False) as (isolation, _):
        assert isolation == "sandbox"
        for name in ("optional_dependency_of_a_library", "league_guarded"):
            with pytest.raises(ImportError, match="imported in its sandbox alone"):
                importlib.import_module(name)
        importlib.import_module("league_first")  # plays in this process
        assert read_imported_modules("league_guarded")["league_guarded"] == b"class Player:\n    pass\n"
    assert not (own_folder / "imported").exists()
    assert "optional_dependency_of_a_library" not in sys.modules


def test_the_table_imports_no_entry(tmp_path: Path) -> None:
    folder = write_league(tmp_path, "name: a, agent: random", "name: b, agent: rule_based")
    play(folder)
    (folder / "entries" / "league_first" / "optional_dependency.py").write_text("")
    with open_league_results(folder), pytest.raises(ImportError, match="in its sandbox alone"):
        importlib.import_module("optional_dependency")


def test_modules_elsewhere_are_not_refused(tmp_path: Path) -> None:
    with refuse_imports_of_entries(tmp_path):
        assert importlib.import_module("json")
    with refuse_imports_of_entries(None):
        assert importlib.import_module("json")
