"""Texts in records from strangers: what a terminal obeys or hides is refused in one line, whichever record it is in."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec import structs

from analytics.policies import policy_store
from analytics.report.page import report
from analytics.sql.database import OpenArchive
from analytics.statistics.sprt import Hypotheses, SequentialTest
from analytics.store import policy_cards, sprt_verdicts
from analytics.store.archive import Archive
from analytics.store.records import LABEL, SweepJob
from analytics.verify.archive import verify
from quarto.errors import FailureError, RequestError
from tests.analytics.folders import forge
from tests.analytics.naive_games import RUN_ID
from tests.analytics.stored_policies import COUNTS, GENES, origin
from tests.marks import seldom

OBEYED = ["\x1b", "\x00", "\r", "\x7f", "\x85", "\x9b", "\u061c", "\u200e", "\u2028", "\u2029", "\u202e", "\u2067"]


@pytest.fixture
def whole(archive: Archive) -> Archive:
    """An archive with a record of each kind."""
    policy_store.save(archive, COUNTS, origin())
    archive.save_sweep_job(SweepJob("s", 0, {"rules": "classic"}, RUN_ID))
    trial = SequentialTest(Hypotheses(), 8)
    trial.take(np.full(8, 4, np.int8))
    sprt_verdicts.save(archive, sprt_verdicts.SprtVerdict.from_trial(RUN_ID, trial, "qarena sprt"))
    return archive


def put(*keys: str | int, name: bool = False) -> Callable[[str], Callable[[dict[str, Any]], None]]:
    """The change that adds a text to the value at these keys, or with ``name`` a key beside it."""

    def change(text: str) -> Callable[[dict[str, Any]], None]:
        def changed(values: Any) -> None:
            for key in keys[:-1]:
                values = values[key]
            values[f"a{text}b" if name else keys[-1]] = values[keys[-1]] if name else f"a{text}b"

        return changed

    return change


RECORDS = {
    "label": ("runs/*.json", put("spec", "agents", 0, "label")),
    "parameter": ("runs/*.json", put("spec", "agents", 0, "target")),
    "name of a parameter": ("runs/*.json", put("spec", "agents", name=True)),
    "rules": ("runs/*.json", put("spec", "rules", "name")),
    "code": ("runs/*.json", put("code", "version")),
    "command": ("runs/*.json", put("command")),
    "setting": ("sweeps/s/0.json", put("overrides", "rules")),
    "name of a setting": ("sweeps/s/0.json", put("overrides", "rules", name=True)),
    "error": ("sweeps/s/0.json", put("error")),
    "policy": ("policies/*/card.json", put("name")),
    "kind": ("policies/*/card.json", put("kind")),
    "trainer": ("policies/*/card.json", put("learned", "trainer")),
    "gene": ("policies/*/card.json", put("parameters", "rate", name=True)),
    "verdict": ("verdicts/*/*.json", put("command")),
}


# Each text in one place and each place with one text; all combinations among the long tests.
PAIRED = [(place, text) for place in RECORDS for text in OBEYED]
SOMETIMES = [(place, text) for place, text in PAIRED if place != "label" and text != OBEYED[0]]


@pytest.mark.parametrize(
    ("place", "text"), [*(each for each in PAIRED if each not in SOMETIMES), *seldom(*SOMETIMES)], ids=ascii
)
def test_a_record_with_a_text_that_is_not_shown_is_refused_in_one_line(whole: Archive, place: str, text: str) -> None:
    pattern, change = RECORDS[place]
    (path,) = Path(whole.root).glob(pattern)
    forge(path, change(text))
    read: dict[str, Callable[[], object]] = {
        "runs": whole.runs,
        "sweeps": whole.sweep_jobs,
        "policies": lambda: policy_cards.cards(whole),
        "verdicts": lambda: sprt_verdicts.read(whole, path),
    }
    with pytest.raises(FailureError) as refused:
        read[pattern.partition("/")[0]]()
    assert str(refused.value).startswith(f"{path} is damaged (")
    assert str(refused.value).isprintable()
    assert any(problem.file == path for problem in verify(whole).problems)


@pytest.mark.parametrize("text", ["\x1b[31m", "\u202e", "\x9b2J"])
def test_a_report_about_such_a_label_is_refused_and_aborts_nothing(archive: Archive, text: str) -> None:
    """A renderer of pictures ended the process at ESC."""
    forge(Path(archive.record_file(RUN_ID)), put("spec", "agents", 0, "label")(text))
    with OpenArchive(archive.root) as opened, pytest.raises(FailureError, match="is damaged"):
        report(opened)


@pytest.mark.parametrize("text", OBEYED)
def test_a_label_is_refused_by_the_same_rule_when_it_is_typed(text: str) -> None:
    assert not LABEL.fullmatch(f"a{text}b")
    assert LABEL.fullmatch("größer(日本, depth=2) שלום ✓")


def test_texts_that_were_typed_or_raised_are_kept_so_that_they_are_shown(archive: Archive) -> None:
    archive.update_run(RUN_ID, lambda known: known and structs.replace(known, command="qarena run 'a\n\tb\x1b[2J'"))
    assert archive.known_run(RUN_ID).command == "qarena run 'a\n\tb\\x1b[2J'"
    archive.save_sweep_job(SweepJob("s", 0, {}, None, "failed", "ValueError: \x1b[31mred\u202e"))
    assert archive.sweep_jobs()[0].error == "ValueError: \\x1b[31mred\\u202e"
    learned = {**origin().learned, "command": "qarena train \x9b", "where": "plies > 3\nAND winner = 0"}
    policy_store.save(archive, COUNTS, origin(learned=learned))
    assert policy_store.find(archive, "mine").learned["command"] == "qarena train \\x9b"


def test_other_texts_are_refused_before_anything_is_written(archive: Archive) -> None:
    with pytest.raises(RequestError, match=r"this cannot be recorded: 'red\\x1b\[31m' has characters that are not"):
        archive.save_sweep_job(SweepJob("s", 0, {"agent": "red\x1b[31m"}))
    assert archive.sweep_jobs() == []


def test_a_gene_that_is_not_on_the_card_is_refused(archive: Archive) -> None:
    card = policy_store.save(archive, GENES, origin())
    folder = Path(archive.root) / "policies" / card.policy_id
    forge(folder / "card.json", lambda values: values["parameters"].pop("beta"))
    with pytest.raises(RequestError, match=r"gene 'beta' is not on its card"):
        policy_store.read(archive, "mine")
