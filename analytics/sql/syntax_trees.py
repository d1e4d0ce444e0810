"""The syntax trees that DuckDB's own parser gives (``json_serialize_sql``), as nested lists and mappings."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

Node = dict[str, Any]


def nodes(part: Any) -> Iterator[Node]:
    """All mappings in a tree, each before those inside it."""
    if isinstance(part, dict):
        yield part
    for value in part.values() if isinstance(part, dict) else part if isinstance(part, list) else ():
        yield from nodes(value)
