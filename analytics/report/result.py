"""The answer to a question as one value, which terminals, notebooks, pages, reports and files render.

A section of a report is such a value, too: its frame is computed first, and its tables and figures show the frame.
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
from analytics.report.advice import word_for_python
from analytics.report.frame_formats import write_rows
from analytics.report.rendering import render_template
from analytics.report.text_tables import build_escaped_plain_table, print_fitting_tables, to_table
from analytics.store.files.backend import expand_home_if_known
from analytics.store.texts import format_count_with_noun
from quarto.errors import FailureError, RequestError, suggest_valid_names

if TYPE_CHECKING:
    import pandas as pd

    from analytics.report.style import Figure


_INTERNAL_NAMES = {"anchor", "draw", "for_python", "printed_omissions", "prints_numbers", "side_by_side"}
MAX_NAMED_COLUMNS = 5  # of the frame, in the short form of a result


@dataclass(frozen=True, repr=False)
class Result:
    """The answer to a question: all rows in ``frame``, and the tables and figures that people see.

    ``print(result)`` shows the tables and remarks in the form that the commands print, and a notebook shows the result
    as HTML. If ``missing`` is not empty, it says why there is nothing to show, and ``frame`` has no rows.

    Examples:
        >>> import analytics
        >>> result = analytics.open_archive("data/sample").ratings(rules="classic")
        >>> result.frame.columns[:5]
        ['rank', 'agent', 'elo', 'low', 'high']

    """

    note: str = ""  # how to read the result
    table: Table | None = None
    figures: Sequence[Figure] = ()
    numbers: Table | None = None  # the figures' values, or a second table; pages show it on request
    others: Sequence[Table] = ()  # more tables
    side_by_side: bool = False  # figures and table side by side
    missing: str = ""
    legend: Sequence[str] = ()  # what the figures' colours show: results, and "random play"
    title: str = ""
    # All rows, unrounded; shares and scores are from 0 to 1.
    frame: pl.DataFrame = field(default_factory=pl.DataFrame, compare=False)
    # More frames, by name; ``Archive.mistakes`` has ``worst``, the positions in which agents gave up most.
    frames: Mapping[str, pl.DataFrame] = field(default_factory=dict, compare=False)
    run_id: str = ""  # the run that the result is about; empty if there is none or several
    policy_id: str = ""  # the policy that the result is about; empty if there is none or several
    # What readers of the numbers alone must know, too, such as that games are copies.
    warnings: Sequence[str] = ()
    omissions: Sequence[str] = ()  # what the tables leave out of the frame
    prints_numbers: bool = True  # False: ``numbers`` are many rows of the frame, which pages fold and print leaves out

    @property
    def anchor(self) -> str:
        """The id of the result's section in a page."""
        return "".join(letter if letter.isalnum() else "-" for letter in self.title.lower())

    @property
    def tables(self) -> list[Table]:
        """All tables of the result that have rows."""
        return [table for table in (self.table, self.numbers, *self.others) if table is not None and table.text_rows]

    @property
    def remarks(self) -> str:
        """The note, the warnings, the omissions, and the reason why there is nothing to show, as lines of text."""
        nothing = f"Nothing to show: {self.missing}." if self.missing else ""
        omissions = [f"{text}: the frame has all, and so has --format csv" for text in self.omissions]
        warnings = [str(warning) for warning in self.warnings]
        return "\n".join(filter(None, (nothing, self.note, *map(to_sentence, [*warnings, *omissions]))))

    @property
    def for_python(self) -> Result:
        """The same result for Python users: its remarks name Python calls instead of commands."""
        omissions = [f"{text}: the frame has all" for text in self.omissions]
        return replace(
            self,
            table=self.table and _word_table_for_python(self.table),
            numbers=self.numbers and _word_table_for_python(self.numbers),
            others=[*map(_word_table_for_python, self.others)],
            missing=word_for_python(self.missing),
            warnings=[*map(word_for_python, self.warnings), *omissions],
            omissions=(),
        )

    @property
    def printed_omissions(self) -> list[str]:
        """Sentences that say which part of the frame is not printed."""
        if self.numbers is None or self.prints_numbers:
            return [*self.omissions]
        return [*self.omissions, f"the table {self.numbers.title!r} is not printed"]

    def __dir__(self) -> list[str]:
        """Return the names of the attributes that users need, so that completion does not suggest internal ones."""
        return [name for name in super().__dir__() if name not in _INTERNAL_NAMES]

    def __repr__(self) -> str:
        title = self.title or "Result"
        if self.missing:
            return f"<{title}: nothing to show, {word_for_python(self.missing)}>"
        rows, columns = self.frame.shape
        rest = ", …" if columns > MAX_NAMED_COLUMNS else ""
        names = ", ".join(self.frame.columns[:MAX_NAMED_COLUMNS])
        return f"<{title}: {format_count_with_noun(rows, 'row')} of {names}{rest}; print it, or see .frame>"

    def __str__(self) -> str:
        """Render the tables and the remarks as the terminal shows them, or at full width if there is no terminal."""
        result = replace(self, omissions=self.printed_omissions).for_python
        text = io.StringIO()
        terminal = Console(file=sys.stdout)
        console = Console(
            file=text,
            width=terminal.width,
            force_terminal=terminal.is_terminal,
            force_jupyter=False,  # rich would show the text below the cell and leave none here
            color_system=None,
            highlight=False,
            emoji=False,
        )
        result.draw(console)
        console.out(result.remarks, highlight=False)
        return text.getvalue().rstrip("\n")

    def draw(self, console: Console, wide: bool | None = None, is_document: bool = False) -> None:
        """Print the tables and their legends to a console: see ``analytics.report.text_tables.print_fitting_tables``.

        Args:
            console: The console of ``rich``.
            wide: Whether to print the tables at full width; None if the caller offers no option ``--wide``.
            is_document: Whether the output is a document. In a document, the result's table ``numbers`` is printed
                even if the result's attribute ``prints_numbers`` is False.

        """
        drawn = self if is_document or self.prints_numbers else replace(self, numbers=None)
        for table in map(build_escaped_plain_table, drawn.tables or ([] if self.missing else [to_table(self.frame)])):
            print_fitting_tables(console, [[table], *table.splits], wide)
            if table.legend:
                console.out(table.legend, highlight=False)

    def _repr_html_(self) -> str:
        """Render the result as HTML for a notebook."""
        return render_template("notebook.html", title="", sections=[self.for_python])

    def to_pandas(self) -> pd.DataFrame:
        """Return the frame as a pandas DataFrame.

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
        """Write the result to a file, in the format that the suffix of the file's name stands for.

        ``.csv``, ``.json`` and ``.parquet`` hold the frame, as the commands write it with ``--format``; ``.html``,
        ``.md`` and ``.txt`` hold what people see, and ``.svg`` holds the figures. An existing file is replaced.

        Args:
            path: The file; ``~`` stands for the home folder.

        Returns:
            The path of the file.

        Raises:
            RequestError: The suffix is not known, or is ``.svg`` for a result without figures.
            FailureError: The file cannot be written.

        """
        target = expand_home_if_known(str(path))
        ending = target.suffix[1:].lower()
        if ending not in _WRITERS:
            endings = ", ".join(f".{form}" for form in _WRITERS)
            raise RequestError(
                f"{target}: its format is not known, let it end with one of {endings}"
                f"{suggest_valid_names(ending, _WRITERS)}"
            )
        content = _WRITERS[ending](self.for_python)
        try:
            target.write_bytes(content)
        except OSError as error:
            raise FailureError(f"cannot write {target}: {error.strerror or error}") from error
        return target


def _word_table_for_python(table: Table) -> Table:
    """Return a table whose title and legend name Python calls instead of commands."""
    return replace(table, title=word_for_python(table.title), legend=word_for_python(table.legend))


def to_sentence(text: str) -> str:
    """Return the text with a capital letter at its beginning and a full stop at its end."""
    return f"{text[0].upper()}{text[1:].rstrip('.')}."


def render_text(result: Result) -> str:
    """Render the tables and the remarks as text at full width."""
    text = io.StringIO()
    console = Console(file=text, color_system=None, highlight=False, emoji=False, force_jupyter=False)
    result.draw(console, is_document=True)
    console.out(result.remarks, highlight=False)
    return text.getvalue().rstrip("\n")


def render_markdown(result: Result) -> str:
    """Render the title, the note and the tables in Markdown."""
    result_tables = result.tables or ([] if result.missing else [to_table(result.frame)])
    tables = [build_escaped_plain_table(_escape_bars(table)) for table in result_tables]
    parts = [f"## {result.title}"] if result.title else []
    parts += [result.remarks]
    parts += [part for table in tables for part in (table.title and f"**{table.title}**", table.markdown, table.legend)]
    return "\n\n".join(filter(None, parts)) + "\n"


def _escape_bars(table: Table) -> Table:
    """Escape the bars in the texts of a table, because a bar ends a cell in Markdown."""
    columns = [
        column._replace(
            heading=column.heading.replace("|", r"\|"), texts=[f"{text}".replace("|", r"\|") for text in column.texts]
        )
        for column in table.columns
    ]
    return replace(table, columns=columns)


def render_results_page(results: Sequence[Result]) -> str:
    """Render results about one subject as an HTML page."""
    return render_template("sections.html", title=results[0].title.partition(":")[0], sections=results)


def render_only_result_svg(results: Sequence[Result]) -> str:
    """Render the figures of a result as one picture; ``results`` must contain one result only.

    Raises ``RequestError`` if the result has no figures, or if there are several results.
    """
    first, has_several = results[0], len(results) > 1
    if has_several or not first.figures:
        titles = ", ".join(result.title for result in results) or "this answer"
        reason = "choose games by one set of rules" if has_several else str(first.missing) or "it is a table"
        raise RequestError(f"{titles}: there is no such picture: {reason}")
    return style.render_svg(style.combine_figures(first.figures, first.title, first.remarks.replace("\n", " ")))


def render_result(result: Result, form: str) -> bytes:
    """Render a result in the format ``form``: its frame for a data format, and otherwise what people see.

    Raises ``RequestError`` if the format is ``svg`` and the result has no figures.
    """
    return _WRITERS[form](result)


def _build_frame_encoder(form: str) -> Callable[[Result], bytes]:
    """Return a function that encodes the frame of a result in the format ``form``."""

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
    "svg": lambda result: render_only_result_svg([result]).encode(),
}
