"""What pages give their readers works: the player on the page of agents, the sample archive."""

from __future__ import annotations

import re
from pathlib import Path

from analytics.store.archive import ArchiveStore
from analytics.tables.verification.archive import verify_archive
from runners.authoring.agent_check import find_faults
from runners.authoring.new_agent import create_and_describe_agent_files
from tests.paths import ROOT, SAMPLE


def test_the_player_of_the_page_on_agents_is_sound(tmp_path: Path) -> None:
    page = (ROOT / "docs/agents.md").read_text(encoding="utf-8")
    (source,) = re.findall(r"^```python\n([^`]*^class Corner.*?)^```$", page, re.MULTILINE | re.DOTALL)
    create_and_describe_agent_files("corner", "choose", tmp_path / "my_agents")
    (tmp_path / "my_agents" / "corner.py").write_text(source)
    assert find_faults(tmp_path / "my_agents", "corner") == []


def test_the_sample_archive_is_whole_and_small() -> None:
    report = verify_archive(ArchiveStore.open(SAMPLE))
    assert not report.problems
    assert report.games >= 10_000
    assert sum(path.stat().st_size for path in SAMPLE.rglob("*") if path.is_file()) < 2_000_000
