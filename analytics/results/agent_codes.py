"""Names that tell agents apart when several codes played under one label in different runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from analytics.store.records import RunRecord

CODE_DIGITS = 6  # of a fingerprint, behind a label that several codes played under


class AgentNames(NamedTuple):
    """The names under which agents are shown: their labels, and ``label@code`` where one label had several codes."""

    apart: Mapping[tuple[str, str], str]  # by run id and label, where the name is not the label
    notes: tuple[str, ...] = ()  # for the user, a sentence for each such label

    def name(self, run_id: str, label: str) -> str:
        """The name of the agent that played under ``label`` in a run."""
        return self.apart.get((run_id, label), label)


def agent_names(played: Iterable[tuple[RunRecord, str]]) -> AgentNames:
    """The names of agents that played: pairs of a run and a label, which may repeat."""
    pairs = list(played)
    of_runs = {record.run_id: record for record, _ in pairs}
    codes = {run_id: _codes_of(record) for run_id, record in of_runs.items()}
    known: dict[str, set[str]] = {}
    for record, label in pairs:
        if code := codes[record.run_id].get(label):
            known.setdefault(label, set()).add(code)
    several = {label: sorted(found) for label, found in sorted(known.items()) if len(found) > 1}
    apart = {
        (run_id, label): _name(label, code)
        for run_id, of_run in codes.items()
        for label, code in of_run.items()
        if label in several
    }
    notes = [
        f"{label!r} was played by {len(found)} codes, shown as {' and '.join(_name(label, code) for code in found)}: "
        "--run chooses runs of one"
        for label, found in several.items()
    ]
    extended = [run_id for run_id, record in of_runs.items() if record.code.get("extended_by")]
    if extended:
        notes.append(f"run {', '.join(extended)} has games of several codes under one label: other code extended it")
    return AgentNames(apart, tuple(notes))


def _name(label: str, code: str) -> str:
    return f"{label}@{code[:CODE_DIGITS]}"


def _codes_of(record: RunRecord) -> dict[str, str]:
    """The fingerprints of a run's agents by label, as far as they are known: a person, for one, has none."""
    codes = record.code.get("agents")
    return {str(label): str(code) for label, code in codes.items()} if isinstance(codes, Mapping) else {}
