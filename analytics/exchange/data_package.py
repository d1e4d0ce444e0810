"""A folder of Parquet tables for other tools, with a card as the Hub of datasets reads it and a data package.

The card, README.md, begins with YAML that names the tables (``configs``) and the licence. ``datapackage.json`` has the
names, types, units and meanings of columns, and the bytes and SHA-256 of files (Data Package, version 2). Both follow
from the files of the folder and from the declarations of columns. So they are made last, and for any folder of tables.

Texts of strangers, such as labels and commands, occur only inside JSON. In the header of the card, JSON is one line of
ASCII, which is also YAML; below the header, JSON stands in a block of code.
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
from analytics.questions.selection import ALWAYS_TRUE, Selection
from analytics.questions.sql.query_execution import sink_parquet
from analytics.questions.sql.views import ColumnDescription, read_column_descriptions
from analytics.store.texts import format_count_with_noun

# The conditions that select the rows of a table that belong to the chosen games, ``_chosen``.
GAME_CONDITION = "(run_id, game_id) IN (SELECT (run_id, game_id) FROM _chosen)"
RUN_CONDITION = "run_id IN (SELECT run_id FROM _chosen)"
TABLE_CONDITIONS = {
    "games": GAME_CONDITION,
    "plies": GAME_CONDITION,
    "decisions": GAME_CONDITION,
    "evaluations": GAME_CONDITION,
    "runs": RUN_CONDITION,
    "agents": RUN_CONDITION,
}
CARD_FILE, PACKAGE_FILE = "README.md", "datapackage.json"
PACKAGE_SCHEMA = "https://datapackage.org/profiles/2.0/datapackage.json"
LICENCE_NAME = re.compile(r"[a-z0-9][a-z0-9.+-]*")  # as the Hub names them: cc0-1.0, mit, unknown
ROW_GROUP_ROWS = 1 << 17  # fixed, so that the same rows are the same bytes
MAX_RUNS = 100  # runs that a card lists
MAX_TEXT = 500  # characters of a text in a card


class DatasetCard(NamedTuple):
    """The title, the licence and the origin of a dataset, from which its card (``README.md``) is rendered."""

    title: str
    licence: str  # as the Hub names it
    origin: str  # Markdown: how the tables were made


def write_dataset(selection: Selection, folder: Path, licence: str) -> None:
    """Write the selected games to an empty folder, with their plies, decisions, evaluations, runs and agents.

    Each table is a Parquet file that has the same name, columns and rows as an SQL view; only the rows that belong to
    the selected games are written. Tables without rows are left out. The folder also gets a data package and a card,
    which names ``licence``. Raises ``OSError`` if a file cannot be written.
    """
    opened = selection.opened
    for table, belongs in TABLE_CONDITIONS.items():
        question = f"FROM {table}"
        if selection.where != ALWAYS_TRUE:
            games = f"SELECT run_id, game_id FROM games WHERE (\n{selection.where}\n)"  # noqa: S608  (a condition by design)
            question = f"WITH _chosen AS ({games}) {question} WHERE {belongs}"
        path = folder / f"{table}.parquet"
        opened.stream(question, _build_parquet_writer(path))
        if not _scan_csv_or_parquet(path).select(pl.len()).collect().item():
            path.unlink()
    runs = pl.read_parquet(folder / "runs.parquet")
    write_card_and_package(folder, DatasetCard("Games of Quarto", licence, _describe_origin(runs)))


def _build_parquet_writer(path: Path) -> Callable[[pl.LazyFrame, Callable[[], None]], None]:
    def write(rows: pl.LazyFrame, _stop: Callable[[], None]) -> None:
        sink_parquet(rows, path, compression="zstd", compression_level=3, row_group_size=ROW_GROUP_ROWS)

    return write


def _describe_origin(runs: pl.DataFrame) -> str:
    """Describe in Markdown how the games were made.

    Each of the first ``MAX_RUNS`` runs has a line of JSON with the command that played its games, the fingerprint of
    the code and the fingerprint of the games.
    """
    names = ("run_id", "command", "agents", "games", "seed", "code_version", "code_fingerprint", "fingerprint")
    lines = [
        json.dumps({name: _truncate_lists_and_texts(row[name]) for name in names})
        for row in runs.head(MAX_RUNS).iter_rows(named=True)
    ]
    more = f"\n\nThe table `runs` has {len(runs) - MAX_RUNS:,} more." if len(runs) > MAX_RUNS else ""
    introduction = (
        "Agents played each run by its command. Its games follow from the command and the code: the same `fingerprint` "
        "means the same games. `games` counts those of the whole run."
    )
    return "\n".join([introduction, "", "```json", *lines, "```"]) + more


def _truncate_lists_and_texts(value: Any) -> Any:
    if isinstance(value, list):
        return [_truncate_lists_and_texts(item) for item in value[:MAX_TEXT]]
    return value[:MAX_TEXT] if isinstance(value, str) else value


def write_card_and_package(folder: Path, card: DatasetCard) -> None:
    """Write the card and the data package into the folder of the tables that they describe.

    Raises ``OSError`` if a table cannot be read, or if a file cannot be written.
    """
    for name, text in build_card_and_package(folder, card).items():
        (folder / name).write_text(text, encoding="utf-8")


def build_card_and_package(folder: Path, card: DatasetCard) -> dict[str, str]:
    """Build the card and the data package that describe the tables in a folder, as texts keyed by file name.

    Raises ``OSError`` if a table cannot be read.
    """
    resources = [
        resource
        for path in _list_table_files_in_export_order(folder)
        for resource in _build_schema_and_file_entries(path)
    ]
    tables = [resource for resource in resources if "schema" in resource]
    configs = [
        {"config_name": resource["name"], "data_files": resource["path"]} | ({} if number else {"default": True})
        for number, resource in enumerate(tables)
    ]
    package: dict[str, Any] = {"$schema": PACKAGE_SCHEMA, "name": "quarto-arena", "title": card.title}
    if card.licence != "unknown":
        package["licenses"] = [{"name": card.licence.upper()}]
    package["resources"] = resources
    tags = json.dumps(["quarto", "board-game"])
    header = ["---", f"license: {json.dumps(card.licence)}", f"tags: {tags}", f"configs: {json.dumps(configs)}", "---"]
    parts = [
        *header,
        "",
        f"# {card.title}",
        "",
        *_render_overview(folder, tables),
        "## How it was made",
        "",
        card.origin,
    ]
    return {CARD_FILE: "\n".join(parts) + "\n", PACKAGE_FILE: json.dumps(package, indent=1) + "\n"}


def _list_table_files_in_export_order(folder: Path) -> list[Path]:
    """List the CSV and Parquet files in a folder.

    The tables that an export writes come first, in the order of the export. The remaining tables follow, sorted by
    name.
    """
    exported_tables = [*TABLE_CONDITIONS]
    paths = (path for path in folder.iterdir() if path.suffix in (".parquet", ".csv"))
    return sorted(
        paths,
        key=lambda path: (
            exported_tables.index(path.stem) if path.stem in exported_tables else len(exported_tables),
            path.name,
        ),
    )


def _scan_csv_or_parquet(path: Path) -> pl.LazyFrame:
    return pl.scan_csv(path) if path.suffix == ".csv" else pl.scan_parquet(path, hive_partitioning=False, glob=False)


def _build_schema_and_file_entries(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the two entries of a table in the data package: the first has its columns, the second its size and hash.

    frictionless needs the second entry to check the bytes of the file.
    """
    yield {
        "name": path.stem,
        "path": path.name,
        "format": path.suffix[1:],
        "mediatype": "text/csv" if path.suffix == ".csv" else "application/vnd.apache.parquet",
        "schema": {"fields": [*_build_field_entries(path)]},
    }
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    size = path.stat().st_size
    yield {"name": f"{path.stem}-file", "type": "file", "path": path.name, "bytes": size, "hash": f"sha256:{digest}"}


def _build_field_entries(path: Path) -> Iterator[dict[str, str]]:
    shipped_table = puzzles.COLUMN_MEANINGS if path.stem == "puzzles" else position_set.COLUMN_MEANINGS
    descriptions = read_column_descriptions(path.stem) or {
        name: ColumnDescription(text, "") for name, text in shipped_table.items()
    }
    for name, kind in _scan_csv_or_parquet(path).collect_schema().items():
        meaning, unit = descriptions.get(name, ("", ""))
        field = {
            "name": name,
            "type": _find_field_type_in_pandas(kind, "NULL" in meaning),
            "description": meaning,
            "unit": unit,
        }
        yield {key: value for key, value in field.items() if value}


def _find_field_type_in_pandas(kind: pl.DataType, may_be_null: bool) -> str:
    """Return the type that a data package must name for a column: the type that frictionless finds in the file.

    frictionless reads Parquet with pandas. There, a column of integers becomes floating-point numbers if it may have
    NULLs, and lists become NumPy arrays.
    """
    if kind.is_integer() and not may_be_null:
        return "integer"
    names: Mapping[Any, str] = {pl.Boolean: "boolean", pl.Datetime: "datetime", pl.List: "any", pl.Struct: "any"}
    return "number" if kind.is_numeric() else names.get(kind.base_type(), "string")


def _render_overview(folder: Path, tables: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the lines of Markdown that describe the tables, their numbers of rows and their columns.

    Column names need no escaping, because this project chose them.
    """
    for table in tables:
        count = _scan_csv_or_parquet(folder / table["path"]).select(pl.len()).collect().item()
        yield from (
            f"## {table['name']}",
            "",
            f"{format_count_with_noun(count, 'row')} in `{table['path']}`.",
            "",
            "| column | type | meaning |",
        )
        yield "|---|---|---|"
        for field in table["schema"]["fields"]:
            unit = f" ({field['unit']})" if "unit" in field else ""
            meaning = field.get("description", "").replace("|", "\\|")
            yield f"| `{field['name']}` | {field['type']} | {meaning}{unit} |"
        yield ""


def has_only_exported_dataset(folder: Path) -> bool:
    """Return whether a folder holds an exported dataset and nothing else."""
    names = {path.name for path in folder.iterdir()}
    return PACKAGE_FILE in names and names <= {
        CARD_FILE,
        PACKAGE_FILE,
        *(f"{table}.parquet" for table in TABLE_CONDITIONS),
    }
