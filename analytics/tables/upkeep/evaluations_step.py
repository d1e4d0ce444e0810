"""The step of an upgrade from format 2 to format 3, in which what was called thoughts is called evaluations.

Files of the table move to another folder under the same names, and keep their bytes. Records of runs, cards and jobs of
sweeps get the new word where it is a key or a setting. Commands and conditions stay as they were typed.

Ids of runs and policies stay: they are hashes of a spec, and of a name and its knowledge, and neither has the word. The
id of a training is a hash of settings that may have it, so it is computed anew.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import PurePath
from typing import Any

from analytics.store.files.backend import Backend
from analytics.store.records import compute_run_id
from analytics.tables.upkeep.raw_records import RecordValues, read_record_and_check_checksum, write_record_with_checksum

OLD_WORD, NEW_WORD = "thoughts", "evaluations"  # folder, table, key and setting
LINE_VALUES = "analytics.policies.derived.line_values.LineValues"  # the identity of the kind with the setting
METHOD_IN_LABEL = re.compile(rf"(\bmethod=['\"]?){OLD_WORD}\b")  # in a kind as a label: line_values(method=…)


def copy_table_and_convert_jobs(backend: Backend, root: PurePath) -> None:
    """Copy the table of evaluations to its new folder, and convert the records of sweeps' jobs.

    These records do not contain the number of their format, so the upgrade does not convert them with the other
    records.
    """
    jobs = list(_convert_jobs(backend, root))  # a damaged one is found before anything is written
    _copy_missing_table_files(backend, root)
    for path, values in jobs:
        write_record_with_checksum(backend, path, values)


def rename_word_in_record(name: str, values: RecordValues) -> RecordValues:
    """Return the values of a record, with ``OLD_WORD`` replaced by ``NEW_WORD``.

    ``name`` is the path of the record relative to the root of the archive.
    """
    if name.startswith("runs/") and "derived" in values:
        return values | {"derived": _rename_key(values["derived"])}
    if name.startswith("policies/"):
        return values | {"learned": _convert_learning(values["learned"], values["rules"])}
    return values


def remove_old_table_folder(backend: Backend, root: PurePath) -> None:
    """Remove the table's old folder, after copying to the new folder those files that exist only in the old one."""
    _copy_missing_table_files(backend, root)
    for path in backend.list_files_below(root / OLD_WORD):
        backend.remove(path)
    backend.remove_empty_folders(root / OLD_WORD)


def _copy_missing_table_files(backend: Backend, root: PurePath) -> None:
    """Copy each file of the table's old folder that is missing from the new folder, or has a different size there."""
    present = backend.list_files_below(root / NEW_WORD)
    for path, status in backend.list_files_below(root / OLD_WORD).items():
        target = root / NEW_WORD / path.relative_to(root / OLD_WORD)
        if target not in present or present[target].bytes != status.bytes:
            backend.replace(target, backend.read(path))


def _convert_jobs(backend: Backend, root: PurePath) -> Iterator[tuple[PurePath, RecordValues]]:
    """Find the sweeps' jobs whose own settings contain ``OLD_WORD``; yield their paths and their converted values."""
    for path in sorted(backend.list_files_below(root / "sweeps")):
        if path.suffix == ".json":
            values = read_record_and_check_checksum(backend, path)
            overrides = {
                _replace_if_equal(key, f"archive.{OLD_WORD}", f"archive.{NEW_WORD}"): _replace_old_word_in_setting(
                    key, text
                )
                for key, text in values["overrides"].items()
            }
            if overrides != values["overrides"]:
                yield path, values | {"overrides": overrides}


def _convert_learning(learned: Mapping[str, Any], rules: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entry ``learned`` of a card, with ``OLD_WORD`` replaced by ``NEW_WORD``.

    The entry says how the card's policy was learned. If the training's id is a hash of settings that contain
    ``OLD_WORD``, the id is computed anew.
    """
    converted = _rename_key(learned) | {"parameters": _convert_settings(learned["parameters"])}
    if "derivation" in learned:
        derivation = learned["derivation"]
        converted["derivation"] = derivation | {"parameters": _convert_settings(derivation["parameters"])}
    for before, after in zip(
        _list_possible_training_id_fields(learned, rules),
        _list_possible_training_id_fields(converted, rules),
        strict=True,
    ):
        if compute_run_id(before) == learned["training"]:
            return converted | {"training": compute_run_id(after)}
    return converted  # the training has an id for one code alone, by which nobody can go on with it


def _list_possible_training_id_fields(learned: Mapping[str, Any], rules: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield two sets of fields; a training's id may be the hash of either.

    The first set is for a policy that was derived from games. The second is for a policy that a training by
    self-improvement made; it leaves out the number of generations, because a training that is continued keeps its id.
    """
    parameters = learned["parameters"]
    yield {"kind": learned["trainer"], "settings": parameters, "where": learned.get("where")}
    trainer = {key: value for key, value in parameters.items() if key != "generations"}
    yield {"trainer": trainer, "rules": dict(rules), "seed": learned["seed"]}


def _convert_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a kind, or of a trainer that names a kind, with ``OLD_WORD`` replaced by ``NEW_WORD``.

    The word is replaced in the value of ``method`` if the settings are those of the kind ``line_values``, and in the
    label that is the value of ``kind`` if they are those of a trainer.
    """
    converted = dict(settings)
    if settings.get("_target_") == LINE_VALUES and settings.get("method") == OLD_WORD:
        converted["method"] = NEW_WORD
    if isinstance(settings.get("kind"), str):
        converted["kind"] = _convert_label(settings["kind"])
    return converted


def _convert_label(kind: str) -> str:
    """Replace ``OLD_WORD`` with ``NEW_WORD`` in a label of the form ``line_values(method=…)``.

    Any other label is returned unchanged.
    """
    return METHOD_IN_LABEL.sub(rf"\1{NEW_WORD}", kind) if kind.startswith("line_values(") else kind


def _replace_old_word_in_setting(key: str, text: str) -> str:
    """Return ``text``, the value of the setting ``key`` of a job, with ``OLD_WORD`` replaced by ``NEW_WORD``."""
    if key == "kind.method":
        return _replace_if_equal(text, OLD_WORD, NEW_WORD)
    return _convert_label(text) if key == "trainer.kind" else text


def _rename_key(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return a mapping in which the key ``OLD_WORD`` is renamed to ``NEW_WORD``, with the keys in the same order."""
    return {_replace_if_equal(key, OLD_WORD, NEW_WORD): value for key, value in values.items()}


def _replace_if_equal(text: str, old: str, new: str) -> str:
    """Return ``new`` if ``text`` equals ``old``, and otherwise ``text`` unchanged."""
    return new if text == old else text
