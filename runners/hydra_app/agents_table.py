"""The agents of the configuration as a table: what each plays, and its parameters."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from typing import Any

from analytics.results.columns import words
from quarto.errors import RequestError
from quarto.sources import find
from runners.arena.config_groups import NOT_PARAMETERS, names, settings_of, text_of
from runners.terminal import console
from runners.terminal.console import TerminalTable

WIDTH = 80  # of the table with descriptions, in which each is one line
BETWEEN = 7  # characters of the frame


def show_agents(wide: bool = False) -> None:
    """Print the table of agents. Raises ``RequestError`` after it for a yaml that cannot be read."""
    agents, wrong = dict[str, dict[str, Any]](), list[RequestError]()
    for name in names("agent"):
        try:
            agents[name] = settings_of("agent", name)
        except RequestError as error:
            wrong.append(error)
    console.show([agents_table(agents, wide)])
    if wrong:
        raise RequestError("\n".join(map(str, wrong)))


def agents_table(agents: Mapping[str, dict[str, Any]], wide: bool = False) -> TerminalTable:
    """Agents by name, each with a line of description; ``wide``: whole, with their parameters and classes."""
    room = max(20, WIDTH - BETWEEN - max(map(len, agents)))
    texts = (description_of(name, own) for name, own in agents.items())
    columns: dict[str, Iterable[str]] = {
        "agent": agents,
        "plays": texts if wide else (_cut(text, room) for text in texts),
    }
    if wide:
        columns["parameters"] = map(_parameters, agents.values())
        columns["class"] = (str(own.get("_target_")) for own in agents.values())
    return console.tabulated([words(heading, texts) for heading, texts in columns.items()])


def _parameters(settings: dict[str, Any]) -> str:
    return ", ".join(f"{key}={value}" for key, value in settings.items() if key not in NOT_PARAMETERS)


def description_of(name: str, settings: dict[str, Any]) -> str:
    """One line about an agent's play: the first comment of its yaml, else the first line of its class's docstring."""
    for line in text_of("agent", name).splitlines():
        comment = line.removeprefix("#").strip()
        if not line.startswith("#"):
            break
        if comment and not comment.startswith("@package"):
            return comment
    return _docstring(str(settings.get("_target_")))


def _docstring(target: str) -> str:
    """The first line of a class's docstring, or nothing; read from its module's text, so that nothing is imported."""
    module, _, wanted = target.rpartition(".")
    spec = find(module) if module else None
    get_data = getattr(spec and spec.loader, "get_data", None)
    if spec is None or spec.origin is None or get_data is None:
        return ""
    try:
        tree = ast.parse(get_data(spec.origin))
    except (SyntaxError, ValueError, OSError):
        return ""  # playing it will tell
    classes = (node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == wanted)
    return next((ast.get_docstring(node) or "" for node in classes), "").partition("\n")[0]


def _cut(text: str, room: int) -> str:
    """A text of at most ``room`` characters, cut at a word."""
    if len(text) <= room:
        return text
    return f"{text[: room - 1].rpartition(' ')[0].rstrip(',;:')} …"[:room]
