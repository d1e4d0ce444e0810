"""Hydra's flags and values on a command line."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence
from decimal import Decimal
from itertools import chain, pairwise
from pathlib import Path

from quarto.errors import RequestError
from runners.arena.config_groups import CONF

CONFIG_DIR = ("--config-dir", "-cd")
CFG = ("--cfg", "-c")
CFG_TOPICS = ("job", "hydra", "all")
FLAGS_WITH_VALUES = (
    *CFG,
    *CONFIG_DIR,
    *("--config-name", "-cn", "--config-path", "-cp"),
    *("--package", "-p", "--experimental-rerun"),
)
MULTIRUN = ("--multirun", "-m")
INFO = ("--info", "-i")
INFO_TOPICS = ("all", "config", "defaults", "defaults-tree", "plugins", "searchpath")  # the value may be left out
OTHER_FLAGS = ("--help", "-h", "--hydra-help", "--version", "--resolve", "--run", "-r", "--shell-completion", "-sc")
ARCHIVE = "--archive"  # not Hydra's: archive=DIR as the other commands take it
FLAGS = (*FLAGS_WITH_VALUES, ARCHIVE, *MULTIRUN, *INFO, *OTHER_FLAGS)
SETTINGS = {"--agent": "agent@a=NAME", "--where": "where=CONDITION"}  # not flags

TEXTS = ("root", "dir", "name", "policy", "where")  # keys whose values are never numbers
# A number with an exponent, such as 1e6 or 2.5e3, as a whole value or a part of a list.
_SCIENTIFIC = re.compile(r"(?:(?<=^)|(?<=[,\[({:=]))(\d+(?:\.\d+)?[eE]\+?\d{1,2})(?=$|[,\])}])")


def flags_first(arguments: Sequence[str]) -> tuple[bool, list[str], list[str]]:
    """Split a command line: whether it asks for a multirun, the other flags with their values, and all else.

    Hydra does not accept flags after overrides. The archive may be named as ``archive=DIR``, ``archive.root=DIR`` or
    ``--archive DIR``. Raises ``RequestError`` for an unknown flag and one without its value.
    """
    arguments = _with_root(arguments)
    flags: list[str] = []
    rest: list[str] = []
    waiting = False
    for argument in arguments:
        topic = bool(flags) and flags[-1] in INFO and argument in INFO_TOPICS
        if waiting or topic or argument.startswith("-"):
            if not (waiting or topic):
                _check(argument)
            if waiting and flags[-1] in CFG and argument not in CFG_TOPICS:
                raise RequestError(f"{flags[-1]} {argument} shows nothing: choose {', '.join(CFG_TOPICS)}")
            flags.append(argument)
            waiting = not waiting and argument in FLAGS_WITH_VALUES
        else:
            rest.append(argument)
    if waiting:
        raise RequestError(f"{flags[-1]} needs a value: {flags[-1]} VALUE")
    flags += ["all"] if flags and flags[-1] in INFO else []
    alone = [flag for flag in flags if flag not in MULTIRUN]
    return alone != flags, alone, rest


def config_dirs(arguments: Sequence[str]) -> Iterator[Path]:
    """The folders that arguments name with ``--config-dir``."""
    for flag, value in pairwise(chain(*(argument.split("=", 1) for argument in arguments))):
        if flag in CONFIG_DIR:
            yield Path(value)


def _with_root(arguments: Sequence[str]) -> list[str]:
    """Arguments with the folder of the archive as ``archive.root``, as Hydra knows it.

    ``archive=NAME`` still chooses an option of the group ``archive``, if there is one of that name.
    """
    found: list[str] = []
    words = iter(arguments)
    for word in words:
        key, equals, value = word.partition("=")
        if key == ARCHIVE:
            folder = value if equals else next(words, None)
            if not folder:
                raise RequestError(f"{ARCHIVE} needs a value: {ARCHIVE} DIR")
            found.append(f"archive.root={quoted(folder)}")
        elif key == "archive" and equals and not _is_option(value, arguments):
            found.append(f"archive.root={value}")
        else:
            found.append(word)
    return found


def _is_option(name: str, arguments: Sequence[str]) -> bool:
    """Whether it is an option of the group ``archive``, of the project or of the user's ``--config-dir``."""
    places = (CONF, *config_dirs(arguments))
    return "/" not in name and any((folder / "archive" / f"{name}.yaml").is_file() for folder in places)


def _check(argument: str) -> None:
    """Raises ``RequestError`` for what begins like a flag and is none of Hydra's, which would take a part of one."""
    flag, equals, value = argument.partition("=")
    if flag in FLAGS:
        return
    if flag in SETTINGS:
        setting = SETTINGS[flag] if not equals else f"{SETTINGS[flag].partition('=')[0]}={value}"
        raise RequestError(f"{flag} is not an option of this command: write {setting}, without dashes")
    close = difflib.get_close_matches(flag, FLAGS, n=1, cutoff=0.8)
    hint = f"did you mean {close[0]}?" if close else f"settings have no dashes, {flag.lstrip('-')}={value or 'VALUE'}"
    raise RequestError(f"{flag} is not an option of this command: {hint}")


def in_full(override: str) -> str:
    """An override with whole numbers written out: ``games=1e6`` becomes ``games=1000000``. Texts in quotes stay."""
    key, equals, value = override.partition("=")
    if "'" in value or '"' in value or key.rpartition(".")[2] in TEXTS:
        return override
    return key + equals + _SCIENTIFIC.sub(_written_out, value)


def _written_out(found: re.Match[str]) -> str:
    number = Decimal(found[1])
    return str(int(number)) if number == int(number) else found[1]


def quoted(text: str) -> str:
    """A text as a value of Hydra's overrides: its quotes, commas and ``${`` mean nothing to Hydra and OmegaConf."""
    from hydra.core.override_parser.types import Quote, QuotedString

    return QuotedString(re.sub(r"(\\*)\$\{", r"\1\1\\${", text), Quote.single).with_quotes()
