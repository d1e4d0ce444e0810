"""A page about the archive as a value: its title, the way on from it, its tables and figures, its form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from analytics.questions.columns import Table
from analytics.report.result import Result
from analytics.report.style import Figure


class FormField(NamedTuple):
    """A field of the form above a list."""

    name: str
    label: str
    value: object = ""
    empty: str = ""  # what an empty field means; "": one of the options is always chosen
    options: Sequence[str] = ()  # to choose from
    kind: str = "text"  # agent, checkbox, number, or whole: a text as wide as the form


@dataclass(frozen=True)
class ArchivePage:
    """A page from above to below. Between two backticks of its texts is code."""

    title: str
    lead: str = ""
    links: Mapping[str, str] = field(default_factory=dict)  # addresses by name, the most useful one first
    parts: Sequence[Table | Figure | Result | str] = ()  # a text is a notice
    pieces: bool = False  # whether pieces are drawn in it
