"""The runs that the games come from, and the parameters of their agents."""

from __future__ import annotations

from collections.abc import Iterable

from analytics.questions.columns import Cell, ResultColumn, Table, column, words
from analytics.questions.selection import repeated_games
from analytics.report.reported_games import ReportedGames
from analytics.report.section import ReportSection
from analytics.store.records import RunRecord

MOST_RUNS = 50  # rows


def runs(chosen: ReportedGames) -> ReportSection:
    """The runs that the games come from, and the parameters of their agents."""
    records = list(chosen.records.values())
    rows = list(zip(records, chosen.selection.counts, strict=True))[:MOST_RUNS]
    columns = [
        _code_column("run", [record.run_id for record, _ in rows]),
        words("begun", [record.created[:10] for record, _ in rows]),
        words("rules", [record.rules.name for record, _ in rows]),
        column("games", [games for _, games in rows]),
        column("seed", [record.spec["seed"] for record, _ in rows], str),
        column("imposed plies", [record.spec["opening_plies"] for record, _ in rows]),
        words("seats", ["swapped" if record.swapped else "fixed" for record, _ in rows]),
        words("agents", [", ".join(record.labels) for record, _ in rows]),
        _code_column("code", [_code(record) for record, _ in rows]),
        _code_column("command", [record.command for record, _ in rows]),
    ]
    oldest = [f"The oldest {MOST_RUNS} of {len(records)} runs."] if len(records) > MOST_RUNS else []
    notes = [*chosen.names.notes, *repeated_games(chosen.opened, chosen.records)]
    note = " ".join([*oldest, *(f"{note[0].upper()}{note[1:]}." for note in notes)])
    table = Table("Runs of the chosen games", columns)
    return ReportSection(note, table, numbers=_parameters([record for record, _ in rows]))


def _code_column(heading: str, texts: Iterable[str]) -> ResultColumn:
    return words(heading, [Cell(text, code=True) for text in texts])


def _code(record: RunRecord) -> str:
    """The version and the fingerprint of the code that played a run."""
    known = (str(record.code.get(name, "")) for name in ("version", "fingerprint"))
    return " ".join(filter(None, known))


def _parameters(records: Iterable[RunRecord]) -> Table:
    """Each agent of some runs with all of its parameters, those that its label leaves out too."""
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
    return Table("Agents of these runs", [words("agent", labels), words("parameters", settings), words("code", codes)])
