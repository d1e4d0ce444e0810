"""The store of policies returns the stored values to the bit, or reports the problem in one line."""

from __future__ import annotations

import hashlib
import io
import os
import struct
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path, PurePath
from typing import Any

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from agents.learning.policy import GENOME, Policy
from analytics.policies import listing
from analytics.questions.sql.views import build_view_frame
from analytics.store import policy_cards, policy_store
from analytics.store.archive import ArchiveStore
from analytics.store.policy_cards import POLICY_NAME, PolicyCard, PolicyFile
from analytics.store.snapshot import Snapshot
from analytics.tables.upkeep.garbage import list_unneeded_files, remove_unneeded_files
from analytics.tables.verification.archive import verify_archive
from quarto.errors import FailureError, RequestError
from tests.analytics.folders import forge as forge_record
from tests.analytics.folders import snapshot
from tests.analytics.naive_games import record
from tests.analytics.stored_policies import COUNTS, CURVE, GENES, LEARNED, origin
from tests.object_storage import BOTH, find_root

BOMB = 2_000_000  # equal rows


@pytest.fixture
def archive(request: pytest.FixtureRequest, tmp_path: Path) -> ArchiveStore:
    new_archive = ArchiveStore.open(find_root(request, tmp_path), create=True)
    new_archive.write_run_and_unit_count(record())  # of which policies are learned
    return new_archive


def assert_same(actual: Policy, expected: Policy) -> None:
    assert (actual.kind, actual.parameters) == (expected.kind, expected.parameters)
    assert list(actual.table) == list(expected.table)
    for name, column in expected.table.items():
        assert actual.table[name].dtype == column.dtype
        assert actual.table[name].tobytes() == column.tobytes()


@pytest.mark.parametrize("policy", [COUNTS, GENES], ids=lambda policy: policy.kind)
@BOTH
def test_a_policy_is_read_as_it_was_saved_by_name_and_by_id(archive: ArchiveStore, policy: Policy) -> None:
    saved = policy_store.save(archive, policy, origin(tables={"curve": CURVE}, pictures={"curve": b"<svg/>"}))
    for id_or_name in ("mine", saved.policy_id):
        card, stored_policy = policy_store.read(archive, id_or_name)
        assert card == saved
        assert_same(stored_policy, policy)
    assert_frame_equal(policy_store.read_table(archive, saved, "curve"), CURVE)
    folder = archive.root / "policies" / saved.policy_id
    knowledge = "genome.json" if policy.kind == GENOME else "table.parquet"
    assert {*saved.files} == {knowledge, "curve.parquet", "curve.svg"}
    for name, file in saved.files.items():  # named by what they hold
        content = archive.backend.read(folder / saved.stored_name(name))
        assert (file.sha256, file.bytes) == (hashlib.sha256(content).hexdigest(), len(content))
        assert saved.stored_name(name) == f"-{file.sha256[:16]}.".join(name.split("."))
    there = {*archive.backend.list_names(folder)}
    assert there == {"card.json", *map(saved.stored_name, saved.files)}
    assert archive.load_record(folder / "card.json", PolicyCard) == saved
    assert verify_archive(archive).problems == []
    assert list_unneeded_files(archive) == []


def test_the_hash_of_knowledge_is_made_of_kind_parameters_names_types_and_bytes() -> None:
    head = (
        '{"columns":[["board","int64",3],["cell","int8",3],["value","float64",3]],"kind":"counts",'
        '"parameters":{"rate":0.5}}'
    )
    body = struct.pack("<3q3b3d", -5, 0, 7, 3, 1, -1, 0.5, -0.0, 1e300)
    assert policy_store.compute_knowledge_digest(COUNTS) == hashlib.sha256(head.encode() + body).hexdigest()
    variants = [
        replace(COUNTS, kind="count"),
        replace(COUNTS, parameters={"rate": 0.25}),
        replace(COUNTS, table={"bord" if name == "board" else name: column for name, column in COUNTS.table.items()}),
        replace(COUNTS, table={**COUNTS.table, "cell": COUNTS.table["cell"].astype(np.int16)}),
        replace(COUNTS, table={**COUNTS.table, "value": np.array([0.5, 0.0, 1e300])}),
    ]
    assert len({policy_store.compute_knowledge_digest(policy) for policy in [COUNTS, *variants]}) == 1 + len(variants)


@BOTH
def test_a_name_stands_for_its_newest_card_and_older_ones_are_found_by_id(archive: ArchiveStore) -> None:
    first = policy_store.save(archive, COUNTS, origin())
    more = replace(COUNTS, table={name: column[:2] for name, column in COUNTS.table.items()})
    second = policy_store.save(archive, more, origin(learned=LEARNED | {"games": 40}))
    assert policy_store.find(archive, "mine") == second
    assert policy_store.find(archive, first.policy_id) == first
    listed = listing.select_policy_columns_for_people(build_view_frame("policies", Snapshot(archive.root)))
    assert listed["policy_id"].to_list() == [first.policy_id, second.policy_id]
    assert listed["current"].to_list() == [False, True]
    assert listed.select("name", "trainer", "seed", "games", "runs", "rows").rows() == [
        ("mine", "counting", 3, 20, 1, 3),
        ("mine", "counting", 3, 40, 1, 2),
    ]
    again = policy_store.save(archive, COUNTS, origin())
    assert policy_store.find(archive, "mine") == again
    assert again.policy_id == first.policy_id


@BOTH
def test_a_policy_is_read_by_its_id_and_checked_without_a_listing_of_all(
    archive: ArchiveStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A listing for each policy would make the verification of many policies quadratic."""
    policy_id = policy_store.save(archive, COUNTS, origin()).policy_id
    monkeypatch.setattr(archive.backend, "list_files_below", None)
    assert policy_store.read(archive, policy_id)[0].policy_id == policy_id
    assert policy_store.list_problems(archive, policy_id) == []


def test_a_policy_counts_once_its_card_is_there(archive: ArchiveStore, monkeypatch: pytest.MonkeyPatch) -> None:
    card = policy_store.save(archive, COUNTS, origin(tables={"curve": CURVE}))
    folder = archive.root / "policies" / card.policy_id
    archive.backend.remove(folder / "card.json")
    with pytest.raises(RequestError, match="policy 'mine' is not in archive"):
        policy_store.find(archive, "mine")
    (problem,) = verify_archive(archive).problems
    assert problem.file == folder / "card.json"
    assert problem.fault.startswith("missing: restore it from a copy, or learn the policy again")
    unneeded = list_unneeded_files(archive)
    assert {file.path.name for file in unneeded if file.ours} == set(map(card.stored_name, card.files))
    assert remove_unneeded_files(archive, unneeded, 3600) == []
    assert len(remove_unneeded_files(archive, unneeded, 0)) == 2
    policy_store.save(archive, COUNTS, origin(tables={"curve": CURVE}))
    assert_same(policy_store.read(archive, "mine")[1], COUNTS)


@BOTH
def test_a_policy_is_saved_again_in_one_step(archive: ArchiveStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Check the same knowledge with another curve: until the new card is there, the old one and its curve count."""
    before = policy_store.save(archive, COUNTS, origin(tables={"curve": CURVE}))
    other = CURVE.with_columns(pl.col("win_rate") / 2)
    save, stops = ArchiveStore.write_record, iter([True, False])

    def look(self: ArchiveStore, path: PurePath, card: PolicyCard) -> None:
        assert policy_store.list_problems(archive, before.policy_id) == []
        assert policy_store.read_table(archive, policy_store.find(archive, "mine"), "curve").equals(CURVE)
        if next(stops):
            raise KeyboardInterrupt
        save(self, path, card)

    monkeypatch.setattr(ArchiveStore, "write_record", look)
    for _ in range(2):
        with suppress(KeyboardInterrupt):
            policy_store.save(archive, COUNTS, origin(tables={"curve": other}))
        assert verify_archive(archive).problems == []
    after = policy_store.find(archive, "mine")
    assert after.files["table.parquet"] == before.files["table.parquet"]
    assert policy_store.read_table(archive, after, "curve").equals(other)
    assert [file.path.name for file in list_unneeded_files(archive)] == [before.stored_name("curve.parquet")]


def test_an_unknown_policy_is_refused_with_the_nearest_names(archive: ArchiveStore) -> None:
    policy_store.save(archive, COUNTS, origin())
    with pytest.raises(RequestError, match=r"policy 'mien' is not in archive .*; did you mean 'mine'\? valid: mine"):
        policy_store.read(archive, "mien")
    with pytest.raises(RequestError, match="has no table 'curv'; valid: table"):
        policy_store.read_table(archive, policy_store.find(archive, "mine"), "curv")


@pytest.mark.parametrize(
    ("broken", "expected"),
    [
        (replace(COUNTS, parameters={"rate": float("inf")}), "parameter 'rate' is inf"),
        (replace(COUNTS, table={"a": np.zeros(2), "b": np.zeros(3)}), "differ in length"),
        (replace(COUNTS, table={"a": np.zeros(2, np.float32)}), "column 'a' is float32"),
        (replace(COUNTS, table={"a": np.array([0.0, np.nan])}), "column 'a' is nan in row 1"),
    ],
)
def test_a_policy_with_invalid_values_is_not_saved(archive: ArchiveStore, broken: Policy, expected: str) -> None:
    before = snapshot(Path(archive.root))
    with pytest.raises(ValueError, match=expected):
        policy_store.save(archive, broken, origin())
    assert snapshot(Path(archive.root)) == before


def stored(folder: Path, name: str) -> Path:
    """Return the path of the only file of a policy with a name."""
    stem, _, suffix = name.partition(".")
    (path,) = folder.glob(f"{stem}-*.{suffix}")
    return path


def forge(folder: Path, file: str, content: bytes) -> None:
    """Change a file, its name and its checksum in the card, so that only the content is wrong."""
    stored(folder, file).unlink()
    entry = PolicyFile(None, len(content), hashlib.sha256(content).hexdigest())
    (folder / entry.add_digest_to_name(file)).write_bytes(content)
    values = {"bytes": entry.bytes, "sha256": entry.sha256}
    forge_record(folder / "card.json", lambda card: card["files"][file].update(values))


def with_column(name: str, values: Any) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        frame, buffer = (
            pl.read_parquet(stored(folder, "table.parquet")).with_columns(pl.Series(name, values)),
            io.BytesIO(),
        )
        frame.write_parquet(buffer)
        forge(folder, "table.parquet", buffer.getvalue())

    return change


def with_rows(folder: Path, rows_on_card: int) -> None:
    """Write a table of a few kilobytes that would take many megabytes; its card says ``told`` rows."""
    buffer = io.BytesIO()
    pl.DataFrame({"board": pl.Series([0], dtype=pl.Int64).new_from_index(0, BOMB)}).write_parquet(buffer)
    forge(folder, "table.parquet", buffer.getvalue())
    forge_record(folder / "card.json", lambda card: card["files"]["table.parquet"].update(rows=rows_on_card))


def flip(folder: Path) -> None:
    content = bytearray(stored(folder, "table.parquet").read_bytes())
    content[20] ^= 1
    stored(folder, "table.parquet").write_bytes(content)


def truncate(folder: Path) -> None:
    os.truncate(stored(folder, "table.parquet"), 40)


@pytest.mark.parametrize(
    ("damage", "expected"),
    [
        (flip, "is not that of its card"),
        (truncate, ".parquet has 40 bytes, its card says"),
        (lambda folder: stored(folder, "table.parquet").unlink(), ".parquet is missing"),
        (lambda folder: forge(folder, "table.parquet", b"PAR1"), "is damaged: "),
        (with_column("value", [0.5, float("nan"), 1.0]), "column 'value' is nan in row 1 (1 such row)"),
        (with_column("value", [0.5, None, 1.0]), "table.parquet has nulls in column 'value'"),
        (with_column("value", [0.5, 0.0, 1.0]), "its values are not those that its card describes"),
        (with_column("cell", ["a", "b", "c"]), "column 'cell' is"),
        (partial(with_rows, rows_on_card=3), "and would unpack to 16,000,000: "),
        (partial(with_rows, rows_on_card=BOMB), "and would unpack to 16,000,000: "),
    ],
)
def test_a_policy_whose_file_was_changed_is_refused_in_one_line_and_found_by_verify(
    archive: ArchiveStore, damage: Callable[[Path], None], expected: str
) -> None:
    card = policy_store.save(archive, COUNTS, origin())
    policy_store.save(archive, GENES, origin("sound"))
    folder = archive.root / "policies" / card.policy_id
    damage(Path(folder))
    for id_or_name in ("mine", card.policy_id):
        with pytest.raises(RequestError) as refused:
            policy_store.read(archive, id_or_name)
        assert expected in str(refused.value)
        assert str(refused.value).startswith("policy 'mine' is damaged: ")
        assert f"restore {folder} from a copy or train it again" in str(refused.value)
        assert "\n" not in str(refused.value)
    (problem,) = verify_archive(archive).problems
    assert str(problem.file).startswith(str(folder))
    assert_same(policy_store.read(archive, "sound")[1], GENES)


@pytest.mark.parametrize(
    "change",
    [
        {"policy_id": "aaaaaaaaaaaa"},
        {"name": "yours"},
        {"knowledge": "ab" * 32},
        {"created": "yesterday"},
        {"files": {"../table.parquet": {"rows": 1, "bytes": 1, "sha256": "ab" * 32}}},
        {"learned": {}},
        {"rules": {"name": "classic", "diagonals": "some"}},
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_damaged_card_is_named_and_stops_nothing_else(archive: ArchiveStore, change: dict[str, Any]) -> None:
    card = policy_store.save(archive, COUNTS, origin())
    policy_store.save(archive, GENES, origin("sound"))
    path = archive.root / "policies" / card.policy_id / "card.json"
    forge_record(Path(path), change)
    with pytest.raises(RequestError, match=f"{path} is damaged"):
        policy_store.read(archive, "mine")
    with pytest.raises(FailureError, match=f"{path} is damaged"):
        policy_cards.load_cards(archive)
    with pytest.raises(FailureError, match=f"{path} is damaged"):
        list_unneeded_files(archive)
    (problem,) = verify_archive(archive).problems
    assert problem.file == path
    assert_same(policy_store.read(archive, "sound")[1], GENES)


def test_names_that_can_be_typed_are_allowed_and_those_taken_for_something_else_refused() -> None:
    for name in ("a", "rl_encoded", "Mine-2.b", "x" * 64, "nano", "abcdef01234", "abcdef0123456"):
        policy_store.check_name(name)
        assert POLICY_NAME.fullmatch(name)
    wrong = ("", "1a", "_a", "a b", "a/b", "a=b", "a(b)", "x" * 65, "null", "True", "NaN", "inf", "abcdef012345")
    for name in wrong:
        with pytest.raises(RequestError, match="cannot be a name"):
            policy_store.check_name(name)
