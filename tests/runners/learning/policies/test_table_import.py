"""`qarena policy import`: a file becomes a policy that is played, shown and verified like any other."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from agents.network import INPUTS, Layers, to_policy
from analytics.store import policy_cards, policy_store
from analytics.store.archive import ArchiveStore
from quarto.errors import RequestError
from quarto.notation import format_position
from quarto.observations import TURN_CODES
from quarto.position import EMPTY
from runners.learning.policies.table_import import save_network
from tests.paths import ROOT
from tests.runners.conftest import Qarena

START = format_position(EMPTY._replace(available=0xFFFE, hand=0))
ROWS = [(START, "b1", "F", 0.5), (START, "a1", "3", -0.5), (format_position(EMPTY), None, "0", 0.25)]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "theirs.csv"
    pl.DataFrame(ROWS, ["position", "cell", "gift", "value"], orient="row").write_csv(path)
    return path


def test_an_imported_policy_is_stored_with_its_origin_and_played(file: Path, qarena: Qarena) -> None:
    imported = qarena("policy", "import", "theirs.csv", "kind=q_table", "name=learned")
    assert (imported.code, imported.err) == (0, "")
    assert imported.out.startswith(
        "q_table: 3 turns up to symmetry from 3 rows; the policy is in data/archive/policies/"
    )
    assert imported.out.endswith("  qarena run 'policy(policy=learned)' random rules=classic\n")
    archive = ArchiveStore.open(Path("data/archive"))
    (card,) = policy_cards.load_cards(archive)
    assert card.learned["imported"] == {
        "file": "theirs.csv",
        "sha256": hashlib.sha256(file.read_bytes()).hexdigest(),
    }
    readme = (ROOT / "data/README.md").read_text(encoding="utf-8")
    assert [key for key in card.learned if f"`{key}`" not in readme] == []
    played = qarena("run", "agent@a=policy", "a.policy=learned", "agent@b=random", "games=20")
    assert played.code == 0
    first = qarena(
        "sql",
        "SELECT DISTINCT piece FROM plies JOIN games USING (run_id, game_id) "
        "WHERE plies.ply = 0 AND agent_0 LIKE 'policy%'",
        "--format",
        "csv",
    )
    assert first.out == "piece\n0\n"  # the only first gift of which it knows a value
    shown = qarena("policy", "show", "learned").out
    assert f"theirs.csv, SHA-256 {card.learned['imported']['sha256']}" in shown
    assert "imported from theirs.csv" in shown
    assert "import" in qarena("policy", "ls").out
    assert qarena("archive", "verify").code == 0
    again = qarena("policy", "rebuild", "learned")
    assert "was imported from theirs.csv (SHA-256 " in again.refusal
    assert qarena("policy", "import", "theirs.csv", "kind=q_table", "name=learned").code == 0
    assert [stored.policy_id for stored in policy_cards.load_cards(archive)] == [card.policy_id]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "kind=KIND is missing; valid: fitted_q, mc_afterstate, q_table"),
        (("kind=gift",), "kind=gift is not a kind of values of turns"),
        (("kind=q_table", "mine"), "'mine' is not KEY=VALUE"),
        (("kind=q_table", "scale=x"), "scale=x is not a finite number"),
        (("kind=q_table", "conflicts=max"), "conflicts=max does not exist"),
        (("kind=q_table", "rules=own_piece"), "there the mover chooses the piece"),
    ],
)
def test_wrong_requests_are_refused_and_make_no_archive(
    words: tuple[str, ...], message: str, file: Path, qarena: Qarena, tmp_path: Path
) -> None:
    result = qarena("policy", "import", "theirs.csv", *words)
    assert message in result.refusal
    assert not (tmp_path / "data").exists()


def test_the_name_of_another_policy_is_refused(file: Path, qarena: Qarena) -> None:
    assert qarena("policy", "import", "theirs.csv", "kind=q_table").code == 0
    other = qarena("policy", "import", "theirs.csv", "kind=fitted_q")
    assert other.code == 2
    assert "name=theirs is the name of another policy (import, kind q_table, " in other.err
    assert qarena("policy", "import", "nowhere.csv", "kind=q_table").err.startswith(
        "error: nowhere.csv cannot be read: "
    )


def random_layers() -> Layers:
    chance = np.random.default_rng(1)
    shapes = ((INPUTS, 8), (8, TURN_CODES))
    return [(chance.normal(0, 0.3, shape).astype(np.float32), np.zeros(shape[1], np.float32)) for shape in shapes]


def test_a_network_is_stored_as_arrays_alone_and_plays_and_is_judged(qarena: Qarena, small: Path) -> None:
    layers = random_layers()
    card = save_network(layers, "mine", "data/archive")
    assert (card.kind, [*card.files]) == ("network", ["table.parquet"])
    _, stored = policy_store.read(ArchiveStore.open(Path("data/archive")), "mine")
    assert policy_store.compute_knowledge_digest(stored) == policy_store.compute_knowledge_digest(to_policy(layers))
    assert qarena("run", "policy(policy=mine)", "random", "games=20").code == 0
    assert "policy(policy=mine)" in qarena("policy", "judge", "mine", "--games", "0", "--positions", str(small)).out
    assert qarena("archive", "verify").code == 0
    assert "was imported from arrays" in qarena("policy", "rebuild", "mine").refusal
    assert save_network(layers, "mine", "data/archive").policy_id == card.policy_id


def test_a_network_that_cannot_be_stored_is_refused(qarena: Qarena) -> None:
    with pytest.raises(RequestError, match=r"this network cannot be stored: weights of layer 0 are \(8, 289\)"):
        save_network(random_layers()[1:], "mine")
    with pytest.raises(RequestError, match="name='my net' cannot be a name"):
        save_network(random_layers(), "my net")
    with pytest.raises(RequestError, match="rules"):
        save_network(random_layers(), "mine", rules="chess")
    assert not Path("data/archive").exists()
