"""Texts that may be shown: what is hidden is visible, and one expression says what that is, in Python and in Polars."""

from __future__ import annotations

import json
import sys
import unicodedata

import polars as pl
import pytest

from analytics.questions.columns import escape_hidden_characters, to_escaped_csv
from analytics.store.texts import (
    HIDDEN_CHARACTERS,
    MAX_CHARACTERS,
    MAX_LEVELS,
    MAX_TYPED,
    MESSAGE_CHARACTERS,
    check_texts,
    escape_and_cut_typed_text,
    escape_hidden,
    escape_hidden_json,
    has_only_allowed_texts,
    to_line,
)

EVERY = [chr(number) for number in range(sys.maxunicode + 1)]
# Categories whose characters a terminal obeys or does not draw. Some others of Cf join letters, in Persian and emojis.
NEVER_SHOWN = ("Cc", "Cs", "Zl", "Zp")
JOINING = "\u200c\u200d"


def test_what_is_hidden_is_one_set_of_characters_in_python_and_in_polars() -> None:
    hidden = {character for character in EVERY if escape_hidden(character) != character}
    assert {character for character in EVERY if unicodedata.category(character) in NEVER_SHOWN} < hidden
    assert {
        character for character in EVERY if unicodedata.bidirectional(character) in ("LRE", "RLE", "LRO", "RLO", "PDF")
    } < hidden
    assert {
        character for character in EVERY if unicodedata.bidirectional(character) in ("LRI", "RLI", "FSI", "PDI")
    } < hidden
    assert not hidden & {*JOINING, *"aé日ש✓ \u00a0\U0001f600"}
    texts = pl.Series([character for character in EVERY if not "\ud800" <= character <= "\udfff"])
    assert {*texts.filter(texts.str.contains(f"[{HIDDEN_CHARACTERS}]"))} == hidden & {*texts}


def test_whatever_is_made_visible_is_not_hidden_any_more() -> None:
    for text in ("a\x1b[31mb", "\u202e\ud800\U000e0041", "\n\t\r"):
        assert escape_hidden(escape_hidden(text)) == escape_hidden(text)
        assert escape_hidden(text).isprintable()
    assert escape_hidden("a\x1b\n", keep="\n") == escape_hidden_characters("a\x1b\n") == "a\\x1b\n"


def test_visible_json_is_the_same_json() -> None:
    for text in ("a\x1b", "\u202eb", "\U000e0041", "\n", "\ufeff"):
        visible = escape_hidden_json(json.dumps({text: text}, ensure_ascii=False))
        assert visible.isprintable()
        assert json.loads(visible) == {text: text}


def test_lines_and_typed_texts_are_of_limited_length() -> None:
    assert to_line("a\nb\x1b") == "a b\\x1b"
    assert to_line("x" * 300_000) == "x" * MESSAGE_CHARACTERS + "…"
    assert len(to_line("\x1b" * 300_000)) == MESSAGE_CHARACTERS + 1
    assert len(escape_and_cut_typed_text("x" * (MAX_TYPED + 1))) == MAX_TYPED
    assert escape_and_cut_typed_text("a\n\tb\x1b") == "a\n\tb\\x1b"


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ({"a": "b\n"}, "has characters that are not shown"),
        ({"a\t": 1}, "has characters that are not shown"),
        ({"a": [{"command": "b\n"}]}, "has characters that are not shown"),
        ({"command": ["b\n"]}, "has characters that are not shown"),
        ({"learned": {"learned": {"command": "b\n"}}}, "has characters that are not shown"),
        ({"command": "b\x1b"}, "has characters that are not shown"),
        ({"a": "b" * (MAX_CHARACTERS + 1)}, "goes on for 65,537 characters, and a text has at most 65,536"),
        ({"command": "b" * (MAX_TYPED + 1)}, "goes on for 1,048,577 characters"),
        ({"command": "a\n\tb", "learned": {"command": "c\n"}, "x": ["y" * MAX_CHARACTERS, 1, None]}, ""),
    ],
)
def test_texts_are_lines_but_those_that_were_typed(values: object, complaint: str) -> None:
    if not complaint:
        check_texts(values, ("command",))
        return
    assert not any(has_only_allowed_texts(json.dumps(values, ensure_ascii=is_ascii)) for is_ascii in (True, False))
    with pytest.raises(ValueError, match=complaint) as refused:
        check_texts(values, ("command",))
    assert str(refused.value).isprintable()


def test_no_hidden_character_and_no_deep_nesting_is_plainly_allowed() -> None:
    assert has_only_allowed_texts('{\n "a": ["é", 1, {"b": null}]\n}')
    hidden = [character for character in map(chr, range(sys.maxunicode + 1)) if escape_hidden(character) != character]
    assert len(hidden) > 2_000
    for character in hidden:
        written = json.dumps(f"a{character}", ensure_ascii=False)
        assert not has_only_allowed_texts(written), character
    assert has_only_allowed_texts("[" * MAX_LEVELS + "]" * MAX_LEVELS)
    assert not has_only_allowed_texts("[" * (MAX_LEVELS + 1) + "]" * (MAX_LEVELS + 1))


def test_a_table_of_texts_holds_nothing_hidden() -> None:
    frame = pl.DataFrame({"a\u200b": ["b\u2060", "c\nd"]})
    assert to_escaped_csv(frame).decode() == 'a\\u200b\nb\\u2060\n"c\nd"\n'
