"""Hydra's flags and values on a command line."""

from __future__ import annotations

import re
from collections.abc import Sequence

from quarto.errors import RequestError

FLAGS_WITH_VALUES = (
    "--config-dir",
    "-cd",
    "--config-name",
    "-cn",
    "--config-path",
    "-cp",
    "--cfg",
    "-c",
    "--package",
    "-p",
)
MULTIRUN = ("--multirun", "-m")
INFO = ("--info", "-i")
INFO_TOPICS = ("all", "config", "defaults", "defaults-tree", "plugins", "searchpath")  # the value may be left out


def flags_first(arguments: Sequence[str]) -> tuple[bool, list[str], list[str]]:
    """Split a command line: whether it asks for a multirun, the other flags with their values, and all else.

    Hydra does not accept flags after overrides. Raises ``RequestError`` for a flag without its value.
    """
    flags: list[str] = []
    rest: list[str] = []
    waiting = False
    for argument in arguments:
        topic = bool(flags) and flags[-1] in INFO and argument in INFO_TOPICS
        if waiting or topic or argument.startswith("-"):
            flags.append(argument)
            waiting = not waiting and argument in FLAGS_WITH_VALUES
        else:
            rest.append(argument)
    if waiting:
        raise RequestError(f"{flags[-1]} needs a value: {flags[-1]} VALUE")
    flags += ["all"] if flags and flags[-1] in INFO else []
    alone = [flag for flag in flags if flag not in MULTIRUN]
    return alone != flags, alone, rest


def quoted(text: str) -> str:
    """A text as a value of Hydra's overrides: its quotes, commas and ``${`` mean nothing to Hydra and OmegaConf."""
    from hydra.core.override_parser.types import Quote, QuotedString

    return QuotedString(re.sub(r"(\\*)\$\{", r"\1\1\\${", text), Quote.single).with_quotes()
