"""Labels and values are read as they are written, whatever they hold, and refused if they are too long or too deep."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from hypothesis import given
from hypothesis import strategies as st

from analytics.store.labels import (
    MAX_BRACKETS,
    MAX_LABEL_CHARACTERS,
    check_length_and_depth,
    parse_setting_value,
    quote_for_hydra,
    quote_non_ascii_words,
    split_label,
    split_parameters,
)
from quarto.errors import RequestError
from runners.arena.spec import format_label
from runners.config.agents import parse_label


def naive_split(text: str) -> list[str]:
    """Split a text at the commas before which all quotes and brackets are closed."""
    commas = [i for i in range(len(text)) if text[i] == "," and is_outside(text[:i])]
    parts = [text[start + 1 : end] for start, end in zip([-1, *commas], [*commas, len(text)], strict=True)]
    return [part.strip() for part in parts if part.strip()]


def is_outside(before: str) -> bool:
    if re.search(r"(?<!\\)(\\\\)*\\$", before):  # the next character has no meaning
        return False
    rest = re.sub(r"\"[^\"]*\"|'[^']*'", "", re.sub(r"\\.", "", before, flags=re.DOTALL))
    if "'" in rest or '"' in rest:
        return False
    brackets = re.sub(r"[^(){}\[\]]", "", rest)
    while re.search(r"[(\[{][)\]}]", brackets):
        brackets = re.sub(r"[(\[{][)\]}]", "", brackets)
    return not re.search(r"[(\[{]", brackets)


@given(st.text(alphabet="a=,,\"'\\()[]{} ", max_size=30))
def test_parameters_are_split_at_the_commas_outside_of_quotes_and_brackets(text: str) -> None:
    assert split_parameters(text) == naive_split(text)


words = st.from_regex(r"[a-z_][a-z0-9_]{0,8}", fullmatch=True)
names = st.from_regex(r"[\w.@/-]{1,12}", fullmatch=True)
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False)
texts = words | st.from_regex(r"[a-zà-ÿ][\w./-]{0,8}", fullmatch=True)
containers = st.recursive(
    scalars | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=6,
).filter(lambda value: isinstance(value, list | dict))


@given(names, st.dictionaries(words, scalars | texts | containers, max_size=4))
def test_a_label_is_read_back_as_it_was_written(name: str, parameters: dict[str, Any]) -> None:
    label = format_label(name, parameters, {})
    read_name, read = parse_label(label, "agent")
    assert read_name == name
    assert format_label(read_name, read, {}) == label
    assert {key: value for key, value in read.items() if isinstance(value, list | dict)} == {
        key: value for key, value in parameters.items() if isinstance(value, list | dict)
    }


@given(st.text(st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="$")))
def test_a_text_in_quotes_is_that_text(text: str) -> None:
    assert split_label(f"mine(a={quote_for_hydra(text)},b=2)", "agent") == (
        "mine",
        [("a", quote_for_hydra(text)), ("b", "2")],
    )
    assert parse_setting_value("agent", f"a={quote_for_hydra(text)}") == text.replace("${", r"\${")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("naïve", "naïve"),
        ("C:/naïve player", "C:/naïve player"),
        ("'naïve'", "naïve"),
        ("[naïve, dumb, [C:/ü]]", ["naïve", "dumb", ["C:/ü"]]),
        ("{agent: naïve, name: C:/ü}", {"agent": "naïve", "name": "C:/ü"}),
        ("str(ü)", "ü"),
    ],
)
def test_words_outside_ascii_are_words(value: str, expected: object) -> None:
    read = OverridesParser.create().parse_override(f"a={quote_non_ascii_words(value)}")
    assert read.value() == expected
    assert parse_setting_value("agent", f"a={value}") == expected


def test_a_path_in_a_home_folder_is_the_agents_to_expand() -> None:
    """Check that the label is the same for every user."""
    assert parse_label("polito(folder=~/players, seed=3)", "agent") == ("polito", {"folder": "~/players", "seed": 3})


@pytest.mark.parametrize(
    "label",
    [
        f"random({',' * 45_000})",
        f"random(a={'[' * 20_000})",
        f"random(a={'[' * 40}{']' * 40})",
        "oracle(below=" * 200 + ")" * 200,
        "{" * 17,
    ],
)
def test_long_and_deep_labels_are_refused_in_one_short_line(label: str) -> None:
    with pytest.raises(RequestError) as refused:
        parse_label(label, "agent")
    assert len(str(refused.value)) < 200
    assert re.search("write at most 4,096$|deeper than 16: is one not closed", str(refused.value))


def test_labels_up_to_the_limits_are_read() -> None:
    deep = f"random(a={'[' * (MAX_BRACKETS - 1)}1{']' * (MAX_BRACKETS - 1)})"
    value = parse_label(deep, "agent")[1]["a"]
    for _ in range(MAX_BRACKETS - 1):
        (value,) = value
    assert value == 1
    long = f"random(a={'x' * (MAX_LABEL_CHARACTERS - 10)})"
    assert len(long) == MAX_LABEL_CHARACTERS
    assert parse_label(long, "agent") == ("random", {"a": "x" * (MAX_LABEL_CHARACTERS - 10)})
    check_length_and_depth("brackets in quotes", "a='" + "[" * 100 + "'")
