"""The views that are made from an archive's records, as frames: runs, sweeps, verdicts, agents, policies."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec
import polars as pl

from analytics.results.pairings import PairingResult, results
from analytics.sql.files import POLICY_TABLE
from analytics.sql.views import IN_POLARS, STRUCT, VIEWS
from analytics.statistics.sprt import strength
from analytics.store.archive import Archive
from analytics.store.policy_cards import PolicyCard
from analytics.store.records import RunRecord, SweepJob
from analytics.store.snapshot import Snapshot
from analytics.store.sprt_verdicts import SprtVerdict

Row = dict[str, Any]


def frame(view: str, archive: Snapshot) -> pl.DataFrame:
    """One of the views ``FILLED``. Raises ``FailureError`` for a damaged record, tally, verdict or card.

    A column of settings has a field for each setting of any row. If there is none, it is a column of nulls.
    """
    rows = [{name: _in_sql(value) for name, value in row.items()} for row in _ROWS[view](archive)]
    columns = {
        name: typed_settings([row[name] for row in rows])
        if kind == STRUCT
        else pl.Series([row[name] for row in rows], dtype=IN_POLARS[kind])
        for name, kind in VIEWS[view].items()
    }
    return pl.DataFrame(columns)


def _in_sql(value: Any) -> Any:
    """A value whose texts DuckDB and Polars take: bytes of a path or a command that are not UTF-8 are replaced."""
    if isinstance(value, str):
        return value.encode(errors="replace").decode()
    if isinstance(value, dict):
        return {_in_sql(name): _in_sql(each) for name, each in value.items()}
    return [_in_sql(each) for each in value] if isinstance(value, list | tuple) else value


def typed_settings(rows: Sequence[Mapping[str, Any]]) -> pl.Series:
    """Settings as one column of structs: a field for each name, in their order; nulls if there is no name.

    A field is BOOLEAN, BIGINT or DOUBLE if all its values are, else VARCHAR, in which lists and the like are JSON.
    Where names differ in case only, which SQL does not see, the later ones get an underscore.
    """
    fields: dict[str, str] = {}
    for name in sorted({name for row in rows for name in row}):
        field = name
        while field.lower() in map(str.lower, fields):
            field += "_"
        fields[field] = name
    if not fields:
        return pl.Series([None] * len(rows), dtype=pl.String)
    columns = [_typed([row.get(name) for row in rows]).alias(field) for field, name in fields.items()]
    return pl.DataFrame(columns).to_struct()


def _typed(values: Sequence[Any]) -> pl.Series:
    kinds = {type(value) for value in values if value is not None}
    if kinds == {bool}:
        return pl.Series(values, dtype=pl.Boolean)
    if kinds == {int} and all(-(1 << 63) <= value < 1 << 63 for value in values if value is not None):
        return pl.Series(values, dtype=pl.Int64)
    if kinds and kinds <= {int, float}:
        return pl.Series(values, dtype=pl.Float64, strict=False)
    texts = [value if value is None or isinstance(value, str) else json.dumps(value) for value in values]
    return pl.Series(texts, dtype=pl.String)


_WORDS = {"true": True, "false": False, "null": None, "none": None}
_WHOLE = re.compile(r"[+-]?\d+")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|[+-]?(inf|nan)", re.IGNORECASE)


def value_of(text: str) -> bool | int | float | str | None:
    """The value of a setting that is kept as text, as it was typed on a command line."""
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    if _WHOLE.fullmatch(text):
        return int(text)
    return float(text) if _NUMBER.fullmatch(text) else text


def _run_row(archive: Archive, record: RunRecord) -> Row:
    held = archive.ranges(record.run_id)
    return {
        "run_id": record.run_id,
        "created": datetime.fromisoformat(record.created).replace(tzinfo=None),
        "status": record.status,
        "rules": record.rules.name,
        "agents": list(record.labels),
        "pairings": len(record.pairings),
        "seed": record.spec["seed"],
        "opening_plies": record.spec["opening_plies"],
        "games_asked": record.games * len(record.pairings),
        "games": held.units * record.line.games_a_pair,
        "ranges": len(held),
        "fingerprint": f"{held.fingerprint:016x}",
        "code_version": record.code.get("version"),
        "code_fingerprint": record.code.get("fingerprint"),
        "command": record.command,
        "seconds": record.seconds,
    }


def _result_rows(result: PairingResult, record: RunRecord) -> Iterator[Row]:
    """A row for each agent of a pairing and each seat in which it played."""
    agents = result.first, result.second
    for second, seat in ((0, 0), (0, 1), (1, 0), (1, 1)):
        losses, draws, wins = result.in_seat(seat ^ second)  # of the first agent, which then holds that seat
        counts = {"games": losses + draws + wins, "wins": wins, "draws": draws, "losses": losses}
        if second:
            counts |= {"wins": losses, "losses": wins}
        if counts["games"]:
            names = {"agent": agents[second], "opponent": agents[1 - second]}
            yield {
                "run_id": record.run_id,
                "pairing": result.pairing,
                **names,
                "seat": seat,
                **counts,
                "rules": record.rules.name,
            }


def _job_rows(archive: Archive, job: SweepJob) -> list[Row]:
    """A row for each pairing that was played; one row without agents and counts if the job played none."""
    known = job.run_id is not None and archive.run(job.run_id) is not None
    of_pairings = [_pairing_columns(result) for result in (results(archive, str(job.run_id)) if known else [])]
    of_job = {
        "sweep_id": job.sweep_id,
        "job": job.job,
        "overrides": {name: value_of(text) for name, text in job.overrides.items()},
        "run_id": job.run_id,
        "status": job.status,
        "error": job.error,
        "objective": job.objective,
        "value": job.value,
    }
    empty = dict.fromkeys(VIEWS["sweeps"])
    return [empty | of_job | columns for columns in of_pairings or [{}]]


def _pairing_columns(result: PairingResult) -> Row:
    return {
        "agent_a": result.first,
        "agent_b": result.second,
        "games": result.games,
        "wins": result.wins,
        "draws": result.draws,
        "losses": result.losses,
        **dict(zip(("win_rate", "win_low", "win_high"), result.win_rate, strict=True)),
    }


def _verdict_row(verdict: SprtVerdict) -> Row:
    estimate = strength(verdict.counts).normalised_elo
    stored = msgspec.structs.asdict(verdict) | msgspec.structs.asdict(verdict.hypotheses)
    return {
        **{name: value for name, value in stored.items() if name in VIEWS["verdicts"]},
        "created": datetime.fromisoformat(verdict.created).replace(tzinfo=None),
        **dict(zip(("ll", "ld", "dd", "wd", "ww"), verdict.counts, strict=True)),
        **dict(zip(("normalised_elo", "normalised_elo_low", "normalised_elo_high"), estimate, strict=True)),
    }


def _agent_rows(record: RunRecord) -> list[Row]:
    return [
        {
            "run_id": record.run_id,
            "label": agent["label"],
            "target": agent.get("target"),
            "parameters": agent.get("params", {}),
        }
        for agent in record.spec["agents"]
    ]


def _policy_rows(archive: Snapshot) -> list[Row]:
    cards = archive.cards()
    current = {card.name: card.policy_id for card in cards}  # the newest comes last
    return [_policy_row(card, current[card.name] == card.policy_id) for card in cards]


def _policy_row(card: PolicyCard, current: bool) -> Row:
    learned = card.learned
    return {
        "policy_id": card.policy_id,
        "name": card.name,
        "current": current,
        "kind": card.kind,
        "parameters": card.parameters,
        "rules": card.rules["name"],
        "trainer": learned["trainer"],
        "seed": learned["seed"],
        "games": learned["games"],
        "run_ids": list(learned["run_ids"]),
        "condition": learned.get("where"),
        "rows": card.files[POLICY_TABLE].rows if POLICY_TABLE in card.files else None,
        "bytes": sum(file.bytes for file in card.files.values()),
        "created": datetime.fromisoformat(card.created).replace(tzinfo=None),
        "command": learned.get("command"),
    }


_ROWS: Mapping[str, Callable[[Snapshot], list[Row]]] = {
    "runs": lambda archive: [_run_row(archive, record) for record in archive.runs()],
    "results": lambda archive: [
        row
        for record in archive.runs()
        for result in results(archive, record.run_id)
        for row in _result_rows(result, record)
    ],
    "sweeps": lambda archive: [row for job in archive.sweep_jobs() for row in _job_rows(archive, job)],
    "verdicts": lambda archive: [_verdict_row(verdict) for verdict in archive.verdicts()],
    "agents": lambda archive: [row for record in archive.runs() for row in _agent_rows(record)],
    "policies": _policy_rows,
}
