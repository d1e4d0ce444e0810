"""An archive of an older format is used after its upgrade as if this program had written it."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from analytics import open_archive
from analytics.store.archive import ArchiveStore
from analytics.store.policy_store import read
from analytics.store.records import compute_run_id
from analytics.tables.upkeep import evaluations_step
from analytics.tables.upkeep.format_upgrade import upgrade_archive
from tests.analytics.tables.upkeep.older_archives import POLICY_ID, SEARCH_RUN, copy_format_2
from tests.runners.conftest import Qarena
from tests.runners.learning.training.trainings import build_request

SEARCHES = ("mcts(iterations=20)", "alpha_beta(depth=2)", "opening_plies=6", "threads=1", "archive.evaluations=true")
LEARNED = ("kind=line_values", "kind.method=evaluations", "kind.passes=1", 'kind.agent="mcts(iterations=20)"')
FINGERPRINT_OF_24 = "20939c9b77b3d0fb"  # of 24 games, by the program that wrote the archive


@pytest.fixture
def upgraded_root(tmp_path: Path) -> Path:
    root = copy_format_2(tmp_path / "archive")
    upgrade_archive(root)
    return root


def count_evaluations(root: Path) -> int:
    with open_archive(root) as opened:
        return int(opened.sql(f"SELECT count(*) FROM evaluations WHERE run_id = '{SEARCH_RUN}'").item())


def test_the_command_upgrades_it_once(qarena: Qarena, tmp_path: Path) -> None:
    copy_format_2(tmp_path / "old")
    refusal = qarena("run", *SEARCHES, "games=24", "--archive", "old")
    assert (refusal.code, refusal.err.count("\n")) == (2, 1)
    assert "run 'qarena archive upgrade --archive old'" in refusal.err
    assert qarena("archive", "upgrade", "--archive", "old").out == (
        "old: format 2 is now format 3: thoughts are called evaluations\n"
    )
    assert qarena("archive", "upgrade", "--archive", "old").out == "old has format 3 already.\n"
    assert qarena("archive", "verify", "--archive", "old").code == 0


def test_its_run_goes_on(qarena: Qarena, upgraded_root: Path) -> None:
    count_before = count_evaluations(upgraded_root)
    result = qarena("run", *SEARCHES, "games=24", "--archive", str(upgraded_root))
    assert "16 games played again gave the same result, so it goes on" in result.err
    assert "8 games in " in result.out
    archive = ArchiveStore.open(upgraded_root)
    assert f"{archive.list_effective_ranges(SEARCH_RUN).fingerprint:016x}" == FINGERPRINT_OF_24
    assert archive.load_run(SEARCH_RUN).derived == {"evaluations": 12, "positions": 8, "first_plies": 8}
    assert count_evaluations(upgraded_root) > count_before
    assert qarena("archive", "verify", "--archive", str(upgraded_root)).code == 0


def test_its_policy_is_rebuilt_and_built_again_under_its_name(qarena: Qarena, upgraded_root: Path) -> None:
    rebuilt = qarena("policy", "rebuild", "from_search", "--archive", str(upgraded_root))
    assert rebuilt.out.startswith(f"identical: policy from_search ({POLICY_ID})")
    built = qarena("policy", "build", *LEARNED, "name=from_search", "--archive", str(upgraded_root))
    assert (built.code, built.err) == (0, "")
    card, _ = read(ArchiveStore.open(upgraded_root), "from_search")
    assert (card.policy_id, card.schema_version) == (POLICY_ID, 3)


def test_it_merges_with_a_new_archive(qarena: Qarena, upgraded_root: Path) -> None:
    assert qarena("run", *SEARCHES, "games=24", "--archive", "new").code == 0
    merged = qarena("archive", "merge", str(upgraded_root), "new")
    assert merged.out.startswith("Added to new: 16 games, 2 new runs, 1 policy"), merged
    archive = ArchiveStore.open(Path("new"))
    assert f"{archive.list_effective_ranges(SEARCH_RUN).fingerprint:016x}" == FINGERPRINT_OF_24
    assert qarena("archive", "verify", "--archive", "new").code == 0
    assert qarena("policy", "rebuild", "from_search", "--archive", "new").out.startswith("identical")


def test_a_self_improvement_keeps_the_name_of_its_policy() -> None:
    """Check the id of a training, a hash of settings of which one is the kind, as a label."""
    training_request = build_request("trainer=self_improve", "trainer.kind='line_values(method=evaluations,passes=1)'")
    old_settings = {**training_request.settings, "kind": "line_values(method=thoughts,passes=1)"}
    rules = asdict(training_request.context.rules)
    trainer = {key: value for key, value in old_settings.items() if key != "generations"}
    learned = {
        "training": compute_run_id({"trainer": trainer, "rules": rules, "seed": training_request.context.seed}),
        "trainer": "self_improve",
        "parameters": old_settings,
        "seed": training_request.context.seed,
    }

    def convert(learned: dict[str, Any]) -> dict[str, Any]:
        values = evaluations_step.rename_word_in_record("policies/0/card.json", {"learned": learned, "rules": rules})
        converted: dict[str, Any] = values["learned"]
        return converted

    converted = convert(learned)
    assert (converted["training"], converted["parameters"]) == (training_request.training_id, training_request.settings)
    other_learned = learned | {"training": "0123456789ab"}  # begun by archive.other_code=new: a hash of the code, too
    assert convert(other_learned)["training"] == "0123456789ab"
