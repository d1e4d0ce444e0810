"""A folder of Parquet tables that other tools know: a card as the Hub of datasets reads it, and a data package.

The card, README.md, begins with YAML that names the tables (``configs``) and the licence. ``datapackage.json`` has the
names, types, units and meanings of columns, and the bytes and SHA-256 of files (Data Package, version 2). Both follow
from the files of the folder, and from where columns are declared: so they are made last, and for any folder of tables.

Texts of strangers, such as labels and commands, are in JSON only. It is ASCII in one line, which is also YAML, and
stands in a block of code.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from analytics.exact import position_set, puzzles
from analytics.questions.selection import EVERYTHING, Selection
from analytics.questions.sql.answers import sink_parquet
from analytics.questions.sql.views import described_columns

# The condition that a row of a table belongs to the chosen games, ``_chosen``.
OF_GAME = "(run_id, game_id) IN (SELECT (run_id, game_id) FROM _chosen)"
OF_RUN = "run_id IN (SELECT run_id FROM _chosen)"
EXPORTED = {
    "games": OF_GAME,
    "plies": OF_GAME,
    "decisions": OF_GAME,
    "thoughts": OF_GAME,
    "runs": OF_RUN,
    "agents": OF_RUN,
}
CARD, PACKAGE = "README.md", "datapackage.json"
SCHEMA_OF_PACKAGES = "https://datapackage.org/profiles/2.0/datapackage.json"
LICENCE = re.compile(r"[a-z0-9][a-z0-9.+-]*")  # as the Hub names them: cc0-1.0, mit, unknown
ROW_GROUP = 1 << 17  # fixed, so that the same rows are the same bytes
MOST_RUNS = 100  # that a card lists
SHORT = 500  # characters of a text in a card


class DatasetCard(NamedTuple):
    """The texts of a card."""

    title: str
    licence: str  # as the Hub names it
    origin: str  # Markdown: how the tables were made


def write_dataset(chosen: Selection, folder: Path, licence: str) -> None:
    """Write the chosen games, their plies, decisions, thoughts, runs and agents to an empty folder. Raises ``OSError``.

    Rows are those of the views in SQL. They go to the disk in parts. A table without rows is left out.
    """
    opened = chosen.opened
    for table, belongs in EXPORTED.items():
        question = f"FROM {table}"
        if chosen.where != EVERYTHING:
            games = f"SELECT run_id, game_id FROM games WHERE (\n{chosen.where}\n)"  # noqa: S608  (a condition by design)
            question = f"WITH _chosen AS ({games}) {question} WHERE {belongs}"
        path = folder / f"{table}.parquet"
        opened.stream(question, _writer(path))
        if not _rows(path).select(pl.len()).collect().item():
            path.unlink()
    runs = pl.read_parquet(folder / "runs.parquet")
    write_card(folder, DatasetCard("Games of Quarto", licence, _made_by(runs)))


def _writer(path: Path) -> Callable[[pl.LazyFrame, Callable[[], None]], None]:
    def write(rows: pl.LazyFrame, _stop: Callable[[], None]) -> None:
        sink_parquet(rows, path, compression="zstd", compression_level=3, row_group_size=ROW_GROUP)

    return write


def _made_by(runs: pl.DataFrame) -> str:
    """The commands that played the games, and fingerprints of the code and of the games, as lines of JSON."""
    names = ("run_id", "command", "agents", "games", "seed", "code_version", "code_fingerprint", "fingerprint")
    lines = [
        json.dumps({name: _short(row[name]) for name in names}) for row in runs.head(MOST_RUNS).iter_rows(named=True)
    ]
    more = f"\n\nThe table `runs` has {len(runs) - MOST_RUNS:,} more." if len(runs) > MOST_RUNS else ""
    said = (
        "Agents played each run by its command. Its games follow from the command and the code: the same `fingerprint` "
        "means the same games. `games` counts those of the whole run."
    )
    return "\n".join([said, "", "```json", *lines, "```"]) + more


def _short(value: Any) -> Any:
    if isinstance(value, list):
        return [_short(each) for each in value[:SHORT]]
    return value[:SHORT] if isinstance(value, str) else value


def write_card(folder: Path, card: DatasetCard) -> None:
    """Write the card and the data package of a folder with tables. Raises ``OSError``."""
    for name, text in described(folder, card).items():
        (folder / name).write_text(text, encoding="utf-8")


def described(folder: Path, card: DatasetCard) -> dict[str, str]:
    """The texts of the card and of the data package of the tables in a folder. Raises ``OSError``."""
    resources = [each for path in _tables(folder) for each in _resources(path)]
    tables = [each for each in resources if "schema" in each]
    configs = [
        {"config_name": each["name"], "data_files": each["path"]} | ({} if number else {"default": True})
        for number, each in enumerate(tables)
    ]
    package: dict[str, Any] = {"$schema": SCHEMA_OF_PACKAGES, "name": "quarto-arena", "title": card.title}
    if card.licence != "unknown":
        package["licenses"] = [{"name": card.licence.upper()}]
    package["resources"] = resources
    tags = json.dumps(["quarto", "board-game"])
    header = ["---", f"license: {json.dumps(card.licence)}", f"tags: {tags}", f"configs: {json.dumps(configs)}", "---"]
    parts = [*header, "", f"# {card.title}", "", *_overview(folder, tables), "## How it was made", "", card.origin]
    return {CARD: "\n".join(parts) + "\n", PACKAGE: json.dumps(package, indent=1) + "\n"}


def _tables(folder: Path) -> list[Path]:
    """The tables of a folder, those of an export in its order, then by name."""
    known = [*EXPORTED]
    paths = (path for path in folder.iterdir() if path.suffix in (".parquet", ".csv"))
    return sorted(paths, key=lambda path: (known.index(path.stem) if path.stem in known else len(known), path.name))


def _rows(path: Path) -> pl.LazyFrame:
    return pl.scan_csv(path) if path.suffix == ".csv" else pl.scan_parquet(path, hive_partitioning=False, glob=False)


def _resources(path: Path) -> Iterator[dict[str, Any]]:
    """A table as the data package describes it: its columns, then its bytes: frictionless checks those of files."""
    yield {
        "name": path.stem,
        "path": path.name,
        "format": path.suffix[1:],
        "mediatype": "text/csv" if path.suffix == ".csv" else "application/vnd.apache.parquet",
        "schema": {"fields": [*_fields(path)]},
    }
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    size = path.stat().st_size
    yield {"name": f"{path.stem}-file", "type": "file", "path": path.name, "bytes": size, "hash": f"sha256:{digest}"}


def _fields(path: Path) -> Iterator[dict[str, str]]:
    shipped_table = puzzles.MEANINGS if path.stem == "puzzles" else position_set.MEANINGS
    declared = described_columns(path.stem) or {name: (text, "") for name, text in shipped_table.items()}
    for name, kind in _rows(path).collect_schema().items():
        meaning, unit = declared.get(name, ("", ""))
        found = {"name": name, "type": _type(kind, "NULL" in meaning), "description": meaning, "unit": unit}
        yield {key: value for key, value in found.items() if value}


def _type(kind: pl.DataType, may_be_null: bool) -> str:
    """The name of a type in a data package.

    frictionless reads Parquet by pandas, which has no whole number that is NULL, and whose lists are arrays of NumPy.
    """
    if kind.is_integer() and not may_be_null:
        return "integer"
    names: Mapping[Any, str] = {pl.Boolean: "boolean", pl.Datetime: "datetime", pl.List: "any", pl.Struct: "any"}
    return "number" if kind.is_numeric() else names.get(kind.base_type(), "string")


def _overview(folder: Path, tables: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """The tables with their columns, as Markdown. Names of columns are those of this project."""
    for each in tables:
        count = _rows(folder / each["path"]).select(pl.len()).collect().item()
        yield from (f"## {each['name']}", "", f"{count:,} rows in `{each['path']}`.", "", "| column | type | meaning |")
        yield "|---|---|---|"
        for field in each["schema"]["fields"]:
            unit = f" ({field['unit']})" if "unit" in field else ""
            meaning = field.get("description", "").replace("|", "\\|")
            yield f"| `{field['name']}` | {field['type']} | {meaning}{unit} |"
        yield ""


def is_dataset(folder: Path) -> bool:
    """Whether a folder holds an exported dataset and nothing else."""
    names = {path.name for path in folder.iterdir()}
    return PACKAGE in names and names <= {CARD, PACKAGE, *(f"{table}.parquet" for table in EXPORTED)}
