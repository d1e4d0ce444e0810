"""The texts that may be shown: one definition for records, tables, the terminal and pages.

A terminal obeys or hides some characters, and line ends forge lines of output. A *line* has no such characters. Texts
that were typed or raised, such as commands, may have tabs and line ends, and are shown with these or as one line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

# Control characters; characters that change the direction of writing, separate lines or have no width; tags. The same
# expression is valid in Python and in Rust, which is Polars' (``\ud800`` is not: no text of Polars has surrogates).
HIDDEN_CHARACTERS = (
    r"\x00-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f"
)
SURROGATES = r"\ud800-\udfff"  # no file can hold them
MAX_CHARACTERS = 1 << 16  # of a line
MAX_TYPED = 1 << 20  # of a text that may have several lines
MAX_LEVELS = 64  # levels of nested values
MESSAGE_CHARACTERS = 400  # characters of a text of data in a message
TABS_AND_LINE_ENDS = "\t\n"  # that a typed text may have

_HIDDEN = re.compile(f"[{HIDDEN_CHARACTERS}{SURROGATES}]")
_HIDDEN_IN_TYPED = re.compile(f"(?![{TABS_AND_LINE_ENDS}])[{HIDDEN_CHARACTERS}{SURROGATES}]")


def escape_hidden(text: str, keep: str = "") -> str:
    """Return a text with hidden characters replaced by escapes, except the characters in ``keep``."""
    return _HIDDEN.sub(lambda match: match[0] if match[0] in keep else _escape(match[0]), text)


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode()


def escape_hidden_json(text: str) -> str:
    """Return equivalent JSON with hidden characters, except line breaks, replaced by escapes."""
    return _HIDDEN.sub(lambda match: match[0] if match[0] == "\n" else _escape_json(match[0]), text)


def _escape_json(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))


def to_line(text: str, max_characters: int = MESSAGE_CHARACTERS) -> str:
    """Return a text as one line without hidden characters.

    If the line is longer than ``max_characters``, it is cut there and ``…`` is added.
    """
    line = escape_hidden(" ".join(text[: 8 * max_characters].split()))
    return line if len(line) <= max_characters and len(text) <= 8 * max_characters else f"{line[:max_characters]}…"


def format_count_with_noun(count: int, noun: str, nouns: str = "") -> str:
    """Format a count with its noun, for example ``1 range``, ``no ranges`` or ``2 policies``.

    ``nouns`` is the plural, if it is irregular.
    """
    return f"{count:,} {noun if count == 1 else nouns or f'{noun}s'}" if count else f"no {nouns or f'{noun}s'}"


def escape_and_cut_typed_text(text: str) -> str:
    """Return a text that a user typed, or an error's message, in the form in which records hold it.

    Hidden characters are escaped, and the length is limited.
    """
    visible = escape_hidden(text, TABS_AND_LINE_ENDS)
    return visible if len(visible) <= MAX_TYPED else f"{visible[: MAX_TYPED - 1]}…"


def check_texts(values: Any, typed_keys: tuple[str, ...] = ()) -> None:
    """Raise ``ValueError`` if a text in JSON values, or a key, is too long or has hidden characters.

    The values of ``typed_keys``, in ``values`` itself and in ``values["learned"]``, may be longer and have several
    lines, because users type them. Values that are nested too deeply are also an error.
    """
    for text, is_typed in _iterate_texts(values, typed_keys):
        most, hidden = (MAX_TYPED, _HIDDEN_IN_TYPED) if is_typed else (MAX_CHARACTERS, _HIDDEN)
        if len(text) > most:
            raise ValueError(f"{text[:40]!a} goes on for {len(text):,} characters, and a text has at most {most:,}")
        if hidden.search(text):
            raise ValueError(f"{text!a:.80} has characters that are not shown")


def has_only_allowed_texts(json: str) -> bool:
    """Return whether it is plain to see that ``check_texts`` accepts the values of a JSON text.

    False says nothing. Nearly all records of an archive are short and have no escapes, and looking at the whole text
    takes a tenth of the time of looking at each of its values. Python counts all hidden characters as not printable.
    """
    return (
        len(json) <= MAX_CHARACTERS
        and json.count("{") + json.count("[") <= MAX_LEVELS
        and "\\" not in json
        and json.replace("\n", "").isprintable()
    )


def _iterate_texts(values: Any, typed_keys: tuple[str, ...]) -> Iterator[tuple[str, bool]]:
    """Yield each text and key in JSON values, and whether this text may have several lines.

    Raises ``ValueError`` if the values are nested too deeply.
    """
    learned = values.get("learned") if isinstance(values, dict) else None
    waiting: list[tuple[Any, int, bool]] = [(values, 0, False)]
    while waiting:
        value, depth, is_typed = waiting.pop()
        if isinstance(value, str):
            yield value, is_typed
        elif depth > MAX_LEVELS:
            raise ValueError(f"it is nested too deeply: more than {MAX_LEVELS} levels")
        elif isinstance(value, Mapping):
            holds_typed = value is values or value is learned
            for key, inner in value.items():
                yield key, False
                waiting.append((inner, depth + 1, holds_typed and key in typed_keys))
        elif isinstance(value, list):
            waiting += [(inner, depth + 1, False) for inner in value]
