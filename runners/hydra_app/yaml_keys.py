"""The keys and comments of the yamls in ``conf``, read from their text: completion in the shell must be quick."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

# A line of a yaml: its indentation, a dash, a key, its value, a comment.
LINE = re.compile(r"""( *)(- )?(?:override )?/?([\w@]+): *("[^"]*"|\[.*?\]|\{.*?\}|[^#]*?) *(?:# ?(.*))?""")
EXAMPLE = "qarena "


class Key(NamedTuple):
    """A key of a configuration or of an option of a group, as its yaml explains it."""

    name: str  # dotted
    default: str  # "" for a mapping, whose keys follow
    meaning: str
    is_group: bool = False  # it is in the defaults list
    kind: str = ""  # its type and its range
    choices: Sequence[str] = ()


def keys_in(text: str) -> Iterator[Key]:
    """The keys of a yaml in their order, without their types and choices."""
    path: list[tuple[int, str]] = []
    for found in filter(None, map(LINE.fullmatch, text.splitlines())):
        indent, dash, key, value, meaning = len(found[1]), found[2], found[3], found[4], found[5] or ""
        path = [each for each in path if each[0] < indent]
        name = ".".join([*(each for _, each in path), key])
        if dash:
            yield Key(key, value, meaning, is_group=True)
        elif key not in ("defaults", "_target_"):
            path += [] if value else [(indent, key)]
            yield Key(name, value, meaning)


def introduction(text: str) -> tuple[str, list[str]]:
    """The purpose of a yaml and the commands of its examples, from its first comment."""
    lines = [line.strip("# ") for line in itertools.takewhile(lambda line: line.startswith("#"), text.splitlines())]
    examples = [line for line in lines if line.startswith(EXAMPLE)]
    return " ".join(line for line in lines if line not in examples and not line.startswith("@package")), examples
