"""Labels of agents, ``name(parameter=value,…)``, and texts of overrides: each is read once, from left to right.

If an agent is named in another spelling, ``find_stored_label_or_keep_text`` finds the label that an archive has for it.

Such texts come from command lines, from records and from links to a server. So their length and the depth of their
brackets are checked before anything else looks at them, and the time of each step grows only in proportion to the
length.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from analytics.store.texts import format_count_with_noun
from quarto.errors import RequestError

if TYPE_CHECKING:
    from analytics.store.records import RunRecord

MAX_LABEL_CHARACTERS = 4_096  # labels in archives have at most 200; those that are typed may name every default
MAX_OVERRIDE_CHARACTERS = 1 << 20  # a sweep may list thousands of values, and a tournament hundreds of agents
MAX_BRACKETS = 16  # inside one another; Hydra's parser calls itself for each
AGENT_NAME = re.compile(r"[\w.@/-]+")
SHOWN_CHARACTERS = 40  # characters of a text that is too long

_OPENING, _CLOSING = frozenset("([{"), frozenset(")]}")


def check_length_and_depth(subject: str, text: str, max_characters: int = MAX_LABEL_CHARACTERS) -> None:
    """Check the length of a text and how deeply its brackets are nested; ``subject`` names the text in messages.

    Raises ``RequestError`` if the text has more than ``max_characters`` characters or more than ``MAX_BRACKETS`` levels
    of brackets.
    """
    start = f"{subject} {text[:SHOWN_CHARACTERS]!r}…"
    if len(text) > max_characters:
        raise RequestError(
            f"{start} has {format_count_with_noun(len(text), 'character')}: write at most {max_characters:,}"
        )
    if any(depth > MAX_BRACKETS for _, _, depth in _scan_unquoted_characters(text)):
        raise RequestError(f"{start} has brackets inside brackets, deeper than {MAX_BRACKETS}: is one not closed?")


def _scan_unquoted_characters(text: str) -> Iterator[tuple[int, str, int]]:
    """Yield, for each character outside quotes, its index, the character and the number of open brackets.

    An opening bracket is itself counted, and a closing one no longer. Quotes, backslashes and the characters after
    backslashes are left out.
    """
    depth, quote, escaped = 0, "", False
    for index, character in enumerate(text):
        if escaped or character == "\\":
            escaped = not escaped
        elif quote:
            quote = "" if character == quote else quote
        elif character in "\"'":
            quote = character
        else:
            depth += (character in _OPENING) - (character in _CLOSING and depth > 0)
            yield index, character, depth


def split_label(text: str, subject: str) -> tuple[str, list[tuple[str, str]]]:
    """Split ``name(parameter=value,…)`` into the name and a list of pairs of texts, ``(parameter, value)``.

    ``subject`` names the text in messages. Raises ``RequestError`` if the text is not such a label or is too long.
    """
    check_length_and_depth(subject, text)
    name, opening, rest = text.strip().partition("(")
    if not AGENT_NAME.fullmatch(name.rstrip()) or (opening and not rest.endswith(")")) or "\n" in rest:
        raise RequestError(f"{subject} {text!r} is neither a name nor name(parameter=value,…)")
    parameters = []
    for part in split_parameters(rest[:-1]):
        key, equals, value = part.partition("=")
        if not equals:
            raise RequestError(
                f"{subject} {text!r}: {part!r} is not parameter=value; a text with a comma needs double "
                "quotes, and several values of a parameter are a sweep, a.KEY=VALUE,VALUE"
            )
        parameters.append((key.strip(), value.strip()))
    return name.rstrip(), parameters


def split_parameters(text: str) -> list[str]:
    """Split ``a=1,b=[2,3],c="4,5"`` at the commas outside brackets and quotes. Empty parts are left out."""
    commas = [index for index, character, depth in _scan_unquoted_characters(text) if character == "," and not depth]
    bounds = zip([0, *(index + 1 for index in commas)], [*commas, len(text)], strict=True)
    return [part for start, end in bounds if (part := text[start:end].strip())]


def quote_for_hydra(text: str) -> str:
    """Quote a text as a value in Hydra's overrides, so that its quotes, commas and ``${`` have no special meaning."""
    from hydra.core.override_parser.types import Quote, QuotedString  # here and below: archives are read without Hydra

    return QuotedString(re.sub(r"(?<!\\)(\\*)\$\{", r"\1\1\\${", text), Quote.single).with_quotes()


def quote_non_ascii_words(value: str) -> str:
    """Quote the words of a value that contain letters outside ASCII, which Hydra's grammar does not allow."""
    if value.isascii() or "${" in value:
        return value
    parts, start = [], 0
    for end in [*_find_word_ends(value), len(value)]:
        word = value[start:end].strip()
        parts += [word if word.isascii() or word[0] in "\"'" else quote_for_hydra(word), value[end : end + 1]]
        start = end + 1
    return "".join(parts)


def _find_word_ends(value: str) -> Iterator[int]:
    """Yield the index of each unquoted character that separates words in a value.

    The separators are brackets, commas, ``=`` in parentheses, and the ``:`` after a key in braces.
    """
    brackets, last = "", ""
    for index, character, _ in _scan_unquoted_characters(value):
        inside = brackets[-1:]
        if character in _OPENING:
            brackets += character
        elif character in _CLOSING:
            brackets = brackets[:-1]
        elif not (
            character == ","
            or (character == "=" and inside == "(")
            or (character == ":" and inside == "{" and last != ":")
        ):
            continue
        last = character
        yield index


def parse_setting_value(subject: str, setting: str) -> Any:
    """Parse the value of ``setting``, a text of the form ``key=value``.

    The value is written in Hydra's grammar or in JSON, which labels use for lists and mappings. A value that begins
    with ``~`` is a path and is returned as it is. Raises ``RequestError``, whose message begins with ``subject``, if
    the value is in neither form, or if there are several values.
    """
    key, _, text = setting.partition("=")
    if text.startswith("~"):  # a path, which the agent reads; the label does not depend on the user's home folder
        return text
    if text[:1] in ("[", "{"):
        try:
            return json.loads(text)
        except ValueError:
            pass  # most lists that are typed are no JSON, [a,b]
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException

    try:  # the key may have letters that Hydra's grammar lacks
        parsed = OverridesParser.create().parse_override(f"value={quote_non_ascii_words(text)}")
    except HydraException as error:
        reason = " ".join(str(error).split()).partition(" See https")[0]
        advice = f"; {format_quoting_advice(setting, in_shell=False)}" if "=" in text else ""
        raise RequestError(f"{subject}: {setting} cannot be read: {reason}{advice}") from error
    if parsed.is_sweep_override():
        raise RequestError(f"{subject}: {key}={text} is more than one value")
    return parsed.value()


def format_quoting_advice(setting: str, in_shell: bool) -> str:
    """Format the advice to put the value of ``setting``, which is ``key=value``, in double quotes.

    A value that contains ``=`` or a comma needs these quotes. ``in_shell`` tells whether the setting was typed in a
    shell, where it needs single quotes too; otherwise it is part of a label.
    """
    key, _, value = setting.partition("=")
    text = value.replace('"', r"\"")
    if in_shell:
        return f"a text with '=' or a comma needs double quotes inside the single ones, {key}='\"{text}\"'"
    return f"a text with '=' or a comma needs double quotes, {key}=\"{text}\""


# Labels in archives.


def find_stored_label_or_keep_text(records: Iterable[RunRecord], text: str) -> str:
    """Return the stored label of the agent that ``text`` describes, even if ``text`` repeats default values.

    For example, ``mcts(iterations=200)`` may be stored as ``mcts``. A label omits the parameters that had their
    defaults when the run began, but records hold the values of all parameters. So an agent matches if ``text`` has
    every setting of its label, and if every setting in ``text`` agrees with its stored parameters. If no stored agent
    matches, ``text`` is returned.
    """
    agents = {str(agent["label"]): agent for record in records for agent in record.spec["agents"]}
    if text in agents or "(" not in text:
        return text
    return next((label for label, agent in agents.items() if _is_label_of_agent(text, agent)), text)


def format_stale_warning(label: str) -> str:
    """Format the warning that an agent was added to the archive only after the program opened the archive."""
    return f"agent {label!r} is in a run that was added after the archive was opened: archive.refresh() reads it"


def _is_label_of_agent(text: str, agent: Mapping[str, Any]) -> bool:
    """Return whether a label describes ``agent``, the entry of an agent in a run's record."""
    try:
        name, settings = _parse_settings(text)
        stored_name, shown = _parse_settings(str(agent["label"]))
    except RequestError:  # a label of other code, or of a training
        return False
    given_name = settings.pop("name", None)
    if given_name is not None:  # the label is a name of the user's own, and the yaml is not stored
        if given_name != agent["label"]:
            return False
    elif name != stored_name or not shown.keys() <= settings.keys():
        return False
    stored = {**agent.get("limits", {}), **agent["params"]}
    return all(
        any(key in values and _is_same_value(value, values[key]) for values in (shown, stored))
        for key, value in settings.items()
    )


def _parse_settings(text: str) -> tuple[str, dict[str, Any]]:
    """Parse a label into its name and the values of its parameters. A value that is itself a label remains a text."""
    name, parameters = split_label(text, "agent")
    return name, {
        key: value if value.endswith(")") else parse_setting_value(f"agent {text!r}", f"{key}={value}")
        for key, value in parameters
    }


def _is_same_value(label_value: Any, stored: Any) -> bool:
    """Return whether a value from a label equals a stored value, which is a mapping if the value is an agent."""
    if isinstance(stored, Mapping) and "label" in stored:
        return label_value == stored["label"] or _is_label_of_agent(str(label_value), stored)
    if isinstance(label_value, bool) or isinstance(stored, bool):
        return label_value is stored
    return bool(label_value == stored)
