"""The runs that the games come from, with the parameters of their agents."""

from __future__ import annotations

from collections.abc import Iterable

from analytics.questions.columns import (
    Cell,
    ResultColumn,
    Table,
    imposed_plies_columns,
    number_column,
    text_column,
)
from analytics.questions.selection import describe_pairings_of_identical_games
from analytics.report.report_data import ReportData
from analytics.report.result import Result
from analytics.store.records import RunRecord

MAX_RUNS = 50  # rows


def build_runs_section(data: ReportData) -> Result:
    """Build the section about the runs of the games, and the parameters of the agents that played in them."""
    records = list(data.records.values())
    rows = list(zip(records, data.selection.counts, strict=True))[:MAX_RUNS]
    columns = [
        _code_column("run", [record.run_id for record, _ in rows]),
        text_column("begun", [record.created[:10] for record, _ in rows]),
        text_column("rules", [record.rules.name for record, _ in rows]),
        number_column("games", [games for _, games in rows]),
        number_column("seed", [record.spec["seed"] for record, _ in rows], str),
        *imposed_plies_columns(record.spec["opening_plies"] for record, _ in rows),
        text_column("seats", ["swapped" if record.swapped else "fixed" for record, _ in rows]),
        text_column("agents", [", ".join(record.distinct_labels_in_table_order) for record, _ in rows]),
        _code_column("code", [_format_code_version_and_fingerprint(record) for record, _ in rows]),
        _code_column("command", [record.command for record, _ in rows]),
    ]
    oldest = [f"The oldest {MAX_RUNS} of {len(records)} runs."] if len(records) > MAX_RUNS else []
    notes = [*data.agent_names.notes, *describe_pairings_of_identical_games(data.opened, data.records)]
    note = " ".join([*oldest, *(f"{note[0].upper()}{note[1:]}." for note in notes)])
    table = Table("Runs of the chosen games", columns)
    return Result(note, table, numbers=_build_parameters_table([record for record, _ in rows]))


def _code_column(heading: str, texts: Iterable[str]) -> ResultColumn:
    return text_column(heading, [Cell(text, code=True) for text in texts])


def _format_code_version_and_fingerprint(record: RunRecord) -> str:
    """Format the version and the fingerprint of the code that played a run."""
    parts = (str(record.code.get(name, "")) for name in ("version", "fingerprint"))
    return " ".join(filter(None, parts))


def _build_parameters_table(records: Iterable[RunRecord]) -> Table:
    """Build the table of the agents in some runs, with all of their parameters, including those that labels omit."""
    agents = dict.fromkeys(
        (
            str(agent["label"]),
            ", ".join(f"{name}={value}" for name, value in agent.get("params", {}).items()),
            str((record.code.get("agents") or {}).get(agent["label"], "")),
        )
        for record in records
        for agent in record.spec["agents"]
    )
    labels, settings, codes = zip(*sorted(agents), strict=True)
    return Table(
        "Agents of these runs",
        [text_column("agent", labels), text_column("parameters", settings), text_column("code", codes)],
    )
