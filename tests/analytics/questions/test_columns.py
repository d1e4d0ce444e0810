"""Each quantity has one unit and one form: the table of quantities, the glossary and the headings in use agree."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from pkgutil import resolve_name

import pytest

from analytics.questions import columns
from analytics.questions.columns import (
    format_elo,
    format_expected_value,
    format_seconds,
    format_significant,
)
from analytics.questions.quantities import QUANTITIES, format_quantity, format_quantity_heading, scale_quantity
from analytics.store.texts import format_count_with_noun

ROOT = Path(columns.__file__).parents[2]
UNITS = re.compile(r", (%|s|MB)$")
BY_HEADING = {heading: quantity for quantity in QUANTITIES for heading in quantity.headings}
WHOLE_REGRETS = {"runners/exact/annotation.py"}  # the regret of one decision is a whole number of half-points


def list_number_columns() -> Iterator[tuple[str, ast.Call]]:
    """Yield each call of ``number_column`` in the source, with its file."""
    for package in ("analytics", "runners"):
        for path in sorted((ROOT / package).rglob("*.py")):
            file = path.relative_to(ROOT).as_posix()
            if not file.startswith("runners/bench/"):
                for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                    if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "number_column":
                        yield file, node


def find_format(call: ast.Call) -> ast.expr | None:
    formats = (keyword.value for keyword in call.keywords if keyword.arg == "format_value")
    return next(formats, call.args[2] if call.args[2:] else None)


def test_the_glossary_has_the_table_of_quantities() -> None:
    text = (ROOT / "docs/glossary.md").read_text(encoding="utf-8").partition("## Quantities")[2]
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| `")]
    assert rows == [
        [
            f"`{quantity.column}`",
            quantity.stored,
            ", ".join(quantity.headings),
            quantity.unit,
            quantity.format(1.0),
            f"`{quantity.definition}`",
        ]
        for quantity in QUANTITIES
    ]


@pytest.mark.parametrize("definition", [quantity.definition for quantity in QUANTITIES])
def test_the_table_of_quantities_names_what_computes_them(definition: str) -> None:
    assert callable(resolve_name(definition)) or isinstance(resolve_name(definition), property)


def test_every_heading_of_a_quantity_has_the_form_of_the_quantity() -> None:
    wrong, headings = [], set()
    for file, call in list_number_columns():
        form, heading = find_format(call), call.args[0]
        named = form is None or isinstance(form, ast.Name)
        if not named:
            wrong.append(f"{file}:{call.lineno}: {ast.unparse(form) if form else ''} is no function of columns")
        if not isinstance(heading, ast.Constant) or file in WHOLE_REGRETS:
            continue
        quantity = BY_HEADING.get(UNITS.sub("", str(heading.value)))
        if quantity is not None and named:
            headings.add(quantity.column)
            used = form.id if isinstance(form, ast.Name) else "format_count"
            if used != quantity.format.__name__:
                wrong.append(f"{file}:{call.lineno}: {heading.value!r} has {used}, not {quantity.format.__name__}")
    assert wrong == []
    assert headings >= {"score", "share", "regret", "blunders", "seconds", "plies", "games"}


def test_numbers_have_one_sign_and_no_exponent() -> None:
    assert [format_seconds(seconds) for seconds in (1.31e-05, 0.25, 19.94, 1234.5)] == [
        "0.0000131",
        "0.25",
        "19.9",
        "1,234",
    ]
    assert [format_significant(value) for value in (-0.006, 1.31e-05, 123456.0, 0.0)] == [
        "\N{MINUS SIGN}0.006",
        "0.0000131",
        "123456",
        "0",
    ]
    assert [format_expected_value(value) for value in (-0.006, 0.0001)] == ["\N{MINUS SIGN}0.006", "0.000"]
    assert format_elo(-0.5) == "\N{MINUS SIGN}0.5"
    assert [format_count_with_noun(count, "game") for count in (0, 1, 2000)] == ["no games", "1 game", "2,000 games"]


def test_what_jobs_are_judged_by_has_the_form_of_its_quantity() -> None:
    assert [format_quantity(name, 0.341) for name in ("score", "win_rate", "elo", "regret", "fitness")] == [
        "34.10",
        "34.10",
        "0.3",
        "0.3410",
        "0.341",
    ]
    assert [format_quantity_heading(name) for name in ("score", "win_rate", "regret")] == [
        "score, %",
        "win rate, %",
        "regret",
    ]
    assert (scale_quantity("win_rate", 0.25), scale_quantity("regret", 0.25)) == (25, 0.25)
