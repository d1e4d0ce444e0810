"""A card comes from anybody: what it names is data, and no class is imported or called because a card names it."""

from __future__ import annotations

import hashlib
import io
import json
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from analytics.store import policy_cards, policy_store
from analytics.store.archive import ArchiveStore
from analytics.store.policy_cards import PolicyFile
from analytics.store.records import CHECKSUM, add_checksum
from tests.runners.conftest import Qarena
from tests.runners.experiments import play
from tests.runners.learning.training.trainings import build, train

SMALL = ["trainer.generations=1", "trainer.games=4", "trainer.population=4", "trainer.offspring=2"]
EVIL = """from pathlib import Path
Path({mark!r}).touch()

class Evil:
    def __init__(self, *arguments, **parameters):
        Path({mark!r}).touch()

    def choose(self, position, rng):
        return 0, 0
"""
CLASS = "evil_module.Evil"
AGENT = {"label": "a", "target": CLASS, "params": {}}

Forge = Callable[[dict[str, Any]], None]  # changes the mapping ``learned`` of a card


@pytest.fixture(scope="module")
def shared_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build an archive with three policies: ``gift``, derived; ``online``, learned; ``bred``, a genome."""
    root = tmp_path_factory.mktemp("stored") / "archive"
    play(root, "agent@a=random", "agent@b=random", "games=60")
    build(root, "gift", name="gift")
    train(root, "trainer=q_table", "trainer.games=20", "policy.name=online")
    train(root, "trainer=ga2", *SMALL, "policy.name=bred")
    return root


@pytest.fixture
def root(shared_root: Path, tmp_path: Path) -> Path:
    """Copy the archive, so that a test may change it."""
    shutil.copytree(shared_root, tmp_path / "archive")
    return tmp_path / "archive"


@pytest.fixture
def mark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put a hostile module on the import path; return the file that it would create."""
    (tmp_path / "code").mkdir()
    (tmp_path / "code/evil_module.py").write_text(EVIL.format(mark=str(tmp_path / "mark")))
    monkeypatch.syspath_prepend(str(tmp_path / "code"))
    monkeypatch.delitem(sys.modules, "evil_module", raising=False)
    return tmp_path / "mark"


def card_path(root: Path, name: str) -> Path:
    archive = ArchiveStore.open(root)
    return Path(policy_cards.policy_folder(archive, policy_store.find(archive, name).policy_id) / "card.json")


def write_record(path: Path, values: dict[str, Any]) -> None:
    """Write a changed card or record with the checksum that fits."""
    values.pop(CHECKSUM, None)
    path.write_text(json.dumps(add_checksum(values)))


@contextmanager
def forge_card(root: Path, name: str, change: Forge) -> Iterator[str]:
    """Forge a card as long as the context lasts; yield the id of its policy."""
    path = card_path(root, name)
    before = path.read_bytes()
    card = json.loads(before)
    change(card["learned"])
    write_record(path, card)
    yield path.parent.name
    path.write_bytes(before)


def write_file(path: Path, card: dict[str, Any], name: str, content: bytes) -> None:
    """Replace a file of a policy and what its card says of it, so that only its content is wrong."""
    file_fields = card["files"][name]
    file_fields |= {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    (path.parent / PolicyFile(**file_fields).add_digest_to_name(name)).write_bytes(content)
    write_record(path, card)


def forge_value(*keys: str | int, value: Any) -> Forge:
    """Build the forgery that puts ``value`` under these keys, one within the other."""

    def change(learned: dict[str, Any]) -> None:
        node: Any = learned
        for key in keys[:-1]:
            node = node[key]
        node[keys[-1]] = value

    return change


ENTRY = {"agent": "random", "_target_": CLASS}
HOSTILE = {
    "kind": ("gift", forge_value("derivation", "parameters", "_target_", value=CLASS)),
    "part of a kind": ("gift", forge_value("derivation", "parameters", "smoothing", value=[{"_target_": CLASS}])),
    "learner": ("online", forge_value("parameters", "learner", "_target_", value=CLASS)),
    "trainer": ("bred", forge_value("parameters", "_target_", value=CLASS)),
    "opponent": ("bred", forge_value("parameters", "opponents", value=[ENTRY])),
    "opponent's part": ("bred", forge_value("parameters", "opponents", value=[{"agent": "oracle", "below": ENTRY}])),
    "key that nobody reads": ("online", forge_value("parameters", "spare", value={"_target_": CLASS})),
}


def test_a_class_of_others_is_not_imported(root: Path, mark: Path, qarena: Qarena) -> None:
    for case, (name, change) in HOSTILE.items():
        with forge_card(root, name, change):
            result = qarena("policy", "rebuild", name, "--archive", str(root))
        assert re.fullmatch(
            rf"error: policy '{name}' would run code that this project does not vouch for \(class {CLASS}\), "
            "and you did not name it: look at that code, then allow it with --trust-agents\n",
            result.refusal,
        ), case
        assert not mark.exists(), case
        assert "evil_module" not in sys.modules, case


POLITO = "polito(folder={folder},player=evil_module.Evil)"
FOLDERS: list[Any] = [
    POLITO,
    " " + POLITO,
    {"agent": "polito", "folder": "{folder}", "player": "evil_module.Evil"},
    f"oracle(horizon=4,below='{POLITO}')",
    f"oracle(horizon=4,below={POLITO})",
    f"""oracle(below="oracle(horizon=4,below='{POLITO}')")""",
    {"agent": "oracle", "below": POLITO},
    {"agent": "oracle", "below": {"agent": "polito", "folder": "{folder}"}},
]


@pytest.mark.parametrize(("key", "trust"), [("opponents", ()), ("agent", ("--trust-agents",))])
def test_the_code_of_a_folder_does_not_run(
    key: str, trust: tuple[str, ...], root: Path, mark: Path, qarena: Qarena
) -> None:
    """Rebuild without playing, so that no agent is built even if the user trusts the card."""
    for entry in FOLDERS:
        agent = json.loads(json.dumps(entry).replace("{folder}", str(mark.parent / "code")))
        with forge_card(root, "bred", forge_value("parameters", key, value=[agent] if key == "opponents" else agent)):
            assert qarena("policy", "rebuild", "bred", "--archive", str(root), *trust).refusal, entry
        assert not mark.exists(), entry


SPELT = f"oracle(below={{label:a,target:{CLASS},params:{{}}}})"
SMUGGLED = {
    "agent that a parameter describes": forge_value(
        "parameters", "opponents", value=[{"agent": "oracle", "below": AGENT}]
    ),
    "the same within a label": forge_value("parameters", "opponents", value=[SPELT]),
    "class within a label": forge_value("parameters", "opponents", value=[f"random(_target_={CLASS})"]),
    "class within the player's label": forge_value("parameters", "agent", value=f"ga2(_target_={CLASS})"),
    "entry within a label": forge_value(
        "parameters", "opponents", value=[f"oracle(below={{agent:random,_target_:{CLASS}}})"]
    ),
}


def test_no_agent_of_a_card_is_made_but_those_of_yamls(root: Path, mark: Path, qarena: Qarena) -> None:
    refusal = (
        "below=.* is not an agent's label|agent '.*': below=.* cannot be read|"
        "the yaml of agent '.*' has no parameter '_target_'"
    )
    for case, change in SMUGGLED.items():
        with forge_card(root, "bred", change):
            result = qarena("policy", "rebuild", "bred", "--archive", str(root))
        assert re.fullmatch(f"error: ({refusal}).*\n", result.refusal), case
        assert not mark.exists(), case


DAMAGED = {
    "no derivation": ("gift", forge_value("derivation", value=None)),
    "derivation of a wrong type": ("gift", forge_value("derivation", value=["gift"])),
    "kind of a wrong type": ("gift", forge_value("derivation", "kind", value={"_target_": CLASS})),
    "parameters of a wrong type": ("gift", forge_value("derivation", "parameters", value="smoothing")),
    "no class": ("gift", forge_value("derivation", "parameters", value={"smoothing": 1.0})),
    "two runs of a learner": ("online", forge_value("run_ids", value=["0123456789ab"] * 2)),
    "no run of a learner": ("online", forge_value("run_ids", value=[])),
    "a path as an opponent": ("bred", forge_value("parameters", "opponents", value=["../../../etc/passwd"])),
    "a number as an opponent": ("bred", forge_value("parameters", "opponents", value=[7])),
    "an unknown parameter": ("bred", forge_value("parameters", "__class__", value="x")),
    "no run of a genome": ("bred", forge_value("run_ids", value=[])),
}


def test_a_card_that_makes_no_sense_is_refused_in_one_line(root: Path, mark: Path, qarena: Qarena) -> None:
    for case, (name, change) in DAMAGED.items():
        with forge_card(root, name, change) as policy_id:
            result = qarena("policy", "rebuild", policy_id, "--archive", str(root))
        assert result.code in (1, 2), case
        assert result.out == "", case
        assert re.fullmatch(r"error: .*\n", result.err), case
        assert "unexpected" not in result.err, case
        assert not mark.exists(), case


TABLES: list[tuple[dict[str, Any], str]] = [
    ({"run_id": ["0123456789ab"], "first_game": [0], "games": [1], "step": [1]}, "has other runs"),
    ({"first_game": [0]}, "has other columns"),
    ({"first_game": [-1], "games": [1], "step": [1]}, "has a range that holds no games"),
    ({"first_game": [0], "games": [1 << 62], "step": [1]}, "has a range that holds no games"),
    ({"first_game": [0], "games": [1 << 31], "step": [1]}, "from 2,147,483,648 games of run"),
    ({"first_game": [0], "games": [1], "step": [0]}, "has a range that holds no games"),
]


def test_a_forged_table_of_games_is_refused_in_one_line(root: Path, qarena: Qarena) -> None:
    path = card_path(root, "gift")
    card = json.loads(path.read_text())
    for table, reason in TABLES:
        content = io.BytesIO()
        pl.DataFrame({"run_id": card["learned"]["run_ids"]} | table).write_parquet(content)
        write_file(path, card, "games.parquet", content.getvalue())
        result = qarena("policy", "rebuild", "gift", "--archive", str(root))
        assert re.fullmatch(rf"error: policy 'gift' .*{reason}.*\n", result.refusal), table


def test_a_spec_with_a_hostile_learner_is_a_damaged_record(root: Path, mark: Path, qarena: Qarena) -> None:
    card = policy_store.find(ArchiveStore.open(root), "online")
    path = root / "runs" / f"{card.learned['run_ids'][0]}.json"
    record = json.loads(path.read_text())
    learner: Any
    for learner in ({"_target_": CLASS}, "x", -1, 7, True):
        record["spec"]["learner"] = learner
        write_record(path, record)
        result = qarena("policy", "rebuild", "online", "--archive", str(root))
        assert (result.code, result.out) == (1, ""), learner
        assert re.fullmatch(r"error: .* is damaged \(.*learner.*\): restore it from a copy.*\n", result.err), learner
        assert not mark.exists(), learner


def test_a_genome_names_genes_and_nothing_else(root: Path, mark: Path, qarena: Qarena) -> None:
    path = card_path(root, "bred")
    card = json.loads(path.read_text())
    for genes in ({"_target_": CLASS}, {"_target_": 1.0, "alpha": 0.5}, {"alpha": {"_target_": CLASS}}):
        write_file(path, card, "genome.json", json.dumps(genes).encode())
        result = qarena("run", "agent@a=policy", "a.policy=bred", "agent@b=random", "games=2", f"archive.root={root}")
        assert re.fullmatch(r"error: policy 'bred' is damaged: .*gene.*\n", result.refusal)
    assert not mark.exists()


@pytest.mark.slow
def test_imported_text_and_records_of_sweeps_are_shown_and_never_made(
    tmp_path: Path, mark: Path, qarena: Qarena
) -> None:
    agents = f"[agent_0=random(_target_={CLASS})] [agent_1=!!python/object/new:{CLASS}]"
    (tmp_path / "games.txt").write_text(f"{agents} 0@a1 1@b1 2@c1 3@d1\n")
    assert qarena("archive", "import", "games.txt").code == 0
    for rules in ("../../agent/random", "/etc/passwd", "${oc.env:HOME}", CLASS):
        (tmp_path / "other.txt").write_text(f"[rules={rules}] 0@a1 1@b1 2@c1 3@d1\n")
        refused = qarena("archive", "import", "other.txt")
        assert "does not exist" in refused.refusal
    folder = tmp_path / "data/archive/sweeps/0123456789ab"
    folder.mkdir(parents=True)
    overrides = {"agent@a": f"{{_target_:{CLASS}}}", "_target_": CLASS, "x": "${oc.env:HOME}"}
    (folder / "0.json").write_text(json.dumps({"sweep_id": folder.name, "job": 0, "overrides": overrides}))
    for command in (
        ("sql", "SELECT * FROM sweeps"),
        ("sql", "SELECT * FROM runs"),
        ("rate",),
        ("crosstable",),
        ("archive", "verify"),
        ("report", "--output", "page.html"),
    ):
        assert "unexpected" not in qarena(*command).err
    assert not mark.exists()


def test_trainings_among_the_games_of_a_policy_are_said(root: Path, qarena: Qarena) -> None:
    built = qarena("policy", "build", "kind=gift", "name=all", "--archive", str(root)).out
    assert re.search(r" games of \d+ runs \(\d+ of them trainings\) in ", built)
    run_id = next(record.run_id for record in ArchiveStore.open(root).load_runs() if record.training)
    where = ("--where", f"run_id = '{run_id}'", "--archive", str(root))
    alone = qarena("policy", "build", "kind=gift", "name=one", *where).out
    assert f" games of run {run_id} (a training) in " in alone
