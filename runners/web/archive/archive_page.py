"""A page about the archive as a value: its title, links, tables and figures; and the fields of its form."""

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
    empty: str = ""  # text for an empty field; if it is "", one of the options is always chosen
    options: Sequence[str] = ()  # choices; without any, the field takes text
    kind: str = "text"  # text, agent, checkbox, number, or whole: a text as wide as the form


class NameForm(NamedTuple):
    """The form in which a run gets a name and a note."""

    action: str  # its address
    name: str = ""
    note: str = ""


@dataclass(frozen=True)
class ArchivePage:
    """The content of a page about the archive, from top to bottom.

    In the texts of the page, backticks enclose code.
    """

    title: str
    lead: str = ""
    links: Mapping[str, str] = field(default_factory=dict)  # addresses by name, the most useful one first
    parts: Sequence[Table | Figure | Result | str] = ()  # a text is shown as a notice
    pieces: bool = False  # the page shows pictures of pieces
    left_out: Sequence[str] = ()  # a line for each damaged file of which the page leaves out the run
    name_form: NameForm | None = None  # of the run that the page is about
