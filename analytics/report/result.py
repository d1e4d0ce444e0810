"""The answer to a question as one value, which terminals, notebooks, pages, reports and files render.

A section of a report is such a value, too: the frame is computed first, then the tables and figures that show it.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl
from rich.console import Console

from analytics.questions.columns import Table
from analytics.report import style
from analytics.report.advice import Advice, word_for_python
from analytics.report.frame_formats import write_rows
from analytics.report.rendering import render_template
from analytics.report.text_tables import build_visible_table, print_fitting_tables, to_table
from analytics.store.files.backend import expand_home
from quarto.errors import FailureError, RequestError, describe_valid_names

if TYPE_CHECKING:
    import pandas as pd

    from analytics.report.style import Figure


@dataclass(frozen=True)
class Result:
    """The answer to a question: all rows in ``frame``, and the tables and figures that people see.

    ``print(result)`` shows it as a terminal does, and a notebook shows it as a page. If ``missing`` is not empty, it
    says why there is nothing to show, and ``frame`` has no rows.

    Examples:
        >>> import analytics
        >>> result = analytics.open_archive("data/sample").ratings(rules="classic")
        >>> result.frame.columns[:5]
        ['rank', 'agent', 'elo', 'low', 'high']

    """

    note: str = ""  # how to read it
    table: Table | None = None
    figures: Sequence[Figure] = ()
    numbers: Table | None = None  # the figures' values, or a second table; pages show it on request
    others: Sequence[Table] = ()  # more tables
    side_by_side: bool = False  # figures and table side by side
    missing: str | Advice = ""
    legend: Sequence[str] = ()  # of the figures: results, and "random play"
    title: str = ""
    # All rows, unrounded; shares and scores are from 0 to 1.
    frame: pl.DataFrame = field(default_factory=pl.DataFrame, compare=False)
    run_id: str = ""  # of the run that it is about; empty: of none or of several
    policy_id: str = ""  # of the policy that it is about; empty: of none or of several
    # What readers of the numbers alone must know, too, such as that games are copies.
    warnings: Sequence[str | Advice] = ()
    omissions: Sequence[str] = ()  # what the tables leave out of the frame
    prints_numbers: bool = True  # False: ``numbers`` are many rows of the frame, which pages fold and print leaves out

    @property
    def anchor(self) -> str:
        """The section's id in the page."""
        return "".join(letter if letter.isalnum() else "-" for letter in self.title.lower())

    @property
    def tables(self) -> list[Table]:
        """The tables that have rows."""
        return [table for table in (self.table, self.numbers, *self.others) if table is not None and table.rows]

    @property
    def remarks(self) -> str:
        """The note, the warnings, and the reason why there is nothing to show: one or more lines."""
        nothing = f"Nothing to show: {self.missing}." if self.missing else ""
        omissions = [f"{text}: the frame has all, and so has --format csv" for text in self.omissions]
        warnings = [str(warning) for warning in self.warnings]
        return "\n".join(filter(None, (nothing, self.note, *map(to_sentence, [*warnings, *omissions]))))

    @property
    def for_python(self) -> Result:
        """The same result with remarks that name calls of Python where those for the terminal name commands."""
        omissions = [f"{text}: the frame has all" for text in self.omissions]
        warnings = [*map(word_for_python, self.warnings), *omissions]
        return replace(self, missing=word_for_python(self.missing), warnings=warnings, omissions=())

    @property
    def printed_omissions(self) -> list[str]:
        """The sentences on what is not printed of the frame."""
        if self.numbers is None or self.prints_numbers:
            return [*self.omissions]
        return [*self.omissions, f"the table {self.numbers.title!r} is not printed"]

    def __str__(self) -> str:
        """Render the tables and the remarks as the terminal shows them, or at full width if there is no terminal."""
        result = replace(self, omissions=self.printed_omissions).for_python
        text = io.StringIO()
        terminal = Console(file=sys.stdout)
        console = Console(
            file=text,
            width=terminal.width,
            force_terminal=terminal.is_terminal,
            color_system=None,
            highlight=False,
            emoji=False,
        )
        result.draw(console)
        console.out(result.remarks, highlight=False)
        return text.getvalue().rstrip("\n")

    def draw(self, console: Console, wide: bool | None = None, is_document: bool = False) -> None:
        """Draw the tables on a console, each as it fits: see ``analytics.report.text_tables.print_fitting_tables``.

        Args:
            console: The console of ``rich``.
            wide: Whether to draw the tables at full width; None: the user has no option for that.
            is_document: Whether to draw ``numbers``, too, if they are not printed elsewhere.

        """
        drawn = self if is_document or self.prints_numbers else replace(self, numbers=None)
        for table in map(build_visible_table, drawn.tables or ([] if self.missing else [to_table(self.frame)])):
            print_fitting_tables(console, [[table], *table.splits], wide)
            if table.legend:
                console.out(table.legend, highlight=False)

    def _repr_html_(self) -> str:
        return render_template("notebook.html", title="", sections=[self.for_python])

    def to_pandas(self) -> pd.DataFrame:
        """Convert the frame to pandas.

        Raises:
            RequestError: pandas or pyarrow is not installed.

        """
        for package in ("pandas", "pyarrow"):
            try:
                import_module(package)
            except ImportError as error:
                raise RequestError(
                    f"to_pandas() needs {package}, which is not installed: python -m pip install pandas pyarrow"
                ) from error
        return self.frame.to_pandas()

    def write(self, path: str | Path) -> Path:
        """Write the result to a file, in the format that its ending names.

        ``.csv``, ``.json`` and ``.parquet`` hold the frame, as ``--format`` of the commands writes it; ``.html``,
        ``.md`` and ``.txt`` hold what people see, ``.svg`` the figures. An existing file is replaced.

        Args:
            path: The file; ``~`` stands for the home folder.

        Returns:
            The path of the file.

        Raises:
            RequestError: The ending is not known, or is ``.svg`` for a result without figures.
            FailureError: The file cannot be written.

        """
        target = expand_home(str(path))
        ending = target.suffix[1:].lower()
        if ending not in _WRITERS:
            endings = ", ".join(f".{form}" for form in _WRITERS)
            raise RequestError(
                f"{target}: its format is not known, let it end with one of {endings}"
                f"{describe_valid_names(ending, _WRITERS)}"
            )
        content = _WRITERS[ending](self.for_python)
        try:
            target.write_bytes(content)
        except OSError as error:
            raise FailureError(f"cannot write {target}: {error.strerror or error}") from error
        return target


def to_sentence(text: str) -> str:
    """Return a text that begins with a capital letter and ends with a full stop."""
    return f"{text[0].upper()}{text[1:].rstrip('.')}."


def render_text(result: Result) -> str:
    """Render the tables and the remarks as text at full width."""
    text = io.StringIO()
    console = Console(file=text, color_system=None, highlight=False, emoji=False)
    result.draw(console, is_document=True)
    console.out(result.remarks, highlight=False)
    return text.getvalue().rstrip("\n")


def render_markdown(result: Result) -> str:
    """Render the title, the note and the tables in Markdown."""
    result_tables = result.tables or ([] if result.missing else [to_table(result.frame)])
    tables = [build_visible_table(_escape_bars(table)) for table in result_tables]
    parts = [f"## {result.title}"] if result.title else []
    parts += [result.remarks]
    parts += [part for table in tables for part in (table.title and f"**{table.title}**", table.markdown, table.legend)]
    return "\n\n".join(filter(None, parts)) + "\n"


def _escape_bars(table: Table) -> Table:
    """Escape the bars in a table, so that they do not end a cell of Markdown."""
    columns = [
        column._replace(
            heading=column.heading.replace("|", r"\|"), texts=[f"{text}".replace("|", r"\|") for text in column.texts]
        )
        for column in table.columns
    ]
    return replace(table, columns=columns)


def render_results_page(results: Sequence[Result]) -> str:
    """Render results about one subject as a page of their own."""
    return render_template("sections.html", title=results[0].title.partition(":")[0], sections=results)


def render_results_svg(results: Sequence[Result]) -> str:
    """Render the figures of a result as one picture.

    Raises ``RequestError`` without figures, and for several results.
    """
    first, has_several = results[0], len(results) > 1
    if has_several or not first.figures:
        titles = ", ".join(result.title for result in results) or "this answer"
        reason = "choose games by one set of rules" if has_several else str(first.missing) or "it is a table"
        raise RequestError(f"{titles}: there is no such picture: {reason}")
    return style.render_svg(style.combine_figures(first.figures, first.title, first.remarks.replace("\n", " ")))


def render_result(result: Result, form: str) -> bytes:
    """Render what people see of a result in the format ``form``. Raises ``RequestError`` for a missing picture."""
    return _WRITERS[form](result)


def _build_frame_encoder(form: str) -> Callable[[Result], bytes]:
    def write_frame(result: Result) -> bytes:
        out = io.BytesIO()
        write_rows(form, result.frame.lazy(), lambda: None, out)
        return out.getvalue()

    return write_frame


_WRITERS: Mapping[str, Callable[[Result], bytes]] = {
    **{form: _build_frame_encoder(form) for form in ("csv", "json", "parquet")},
    "html": lambda result: render_results_page([result]).encode(),
    "md": lambda result: render_markdown(result).encode(),
    "txt": lambda result: f"{render_text(result)}\n".encode(),
    "svg": lambda result: render_results_svg([result]).encode(),
}
