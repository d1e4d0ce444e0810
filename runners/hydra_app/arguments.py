"""The arguments of a command that Hydra carries out: agents, settings and flags, in any order."""

from __future__ import annotations

import argparse
import difflib
import re
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from hydra.core.override_parser.types import Quote, QuotedString

from quarto.errors import RequestError
from runners.arena.config_groups import split

# Flags by their names. What Hydra shows with --cfg is all that is done.
FLAGS: dict[tuple[str, ...], dict[str, Any]] = {
    ("--help", "-h"): {"action": "store_true", "help": "Show this."},
    ("--archive",): {"metavar": "DIR", "help": "The archive's folder or URL; default: $QARENA_ARCHIVE, data/archive."},
    ("--config-dir", "-cd"): {
        "metavar": "DIR",
        "type": Path,
        "action": "append",
        "default": [],
        "help": "A folder with agents, rules or experiments of your own.",
    },
    ("--keep-going",): {"action": "store_true", "help": "Play on although an agent forfeits all its games."},
    ("--multirun", "-m"): {"action": "store_true", "help": "A sweep: one job for each combination of the values."},
    ("--cfg", "-c"): {"choices": ("job", "hydra", "all"), "help": "Show the composed configuration, and do nothing."},
}
FLAG_NAMES = frozenset(name for names in FLAGS for name in names)

LABEL = re.compile(r"[\w.@/-]+(\(.*\))?", re.DOTALL)  # an agent: NAME or NAME(parameter=value,…)
PLAIN = re.compile(r"[A-Za-z_]\w*")
TEXTS = ("root", "dir", "name", "policy", "where")  # keys whose values are never numbers
# A number with an exponent, such as 1e6 or 2.5e3, as a whole value or a part of a list.
SCIENTIFIC = re.compile(r"(?:(?<=^)|(?<=[,\[({:=]))(\d+(?:\.\d+)?[eE]\+?\d{1,2})(?=$|[,\])}])")


class Arguments(NamedTuple):
    """The arguments of a command, told apart."""

    overrides: list[str]  # as Hydra takes them; agents and the archive are among them
    agents: list[str]  # labels
    config_dirs: list[Path]
    multirun: bool
    help: bool
    cfg: str | None  # the part of the configuration that Hydra shows; nothing is to be done then


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise RequestError(message.removeprefix("argument "))


def parsed(words: Sequence[str]) -> Arguments:
    """The arguments in ``words``. Raises ``RequestError`` for an unknown flag and one without its value."""
    parser = _Parser(add_help=False, allow_abbrev=False)
    parser.add_argument("words", nargs="*")
    for names, options in FLAGS.items():
        parser.add_argument(*names, **options)
    found, unknown = parser.parse_known_intermixed_args(words)
    for flag in unknown:
        raise RequestError(_unknown(flag))
    if found.archive == "":
        raise RequestError("--archive needs a value: --archive DIR")
    labels = [word for word in found.words if LABEL.fullmatch(word)]
    overrides = [in_full(word) for word in found.words if word not in labels]
    if labels:
        overrides[:0] = _players(labels, overrides)
    if found.archive is not None:
        overrides.append(f"archive.root={quoted(found.archive)}")
    if found.keep_going:
        overrides.append("keep_going=true")
    return Arguments(overrides, labels, found.config_dir, found.multirun, found.help, found.cfg)


def _unknown(word: str) -> str:
    """The message about a flag that does not exist."""
    flag, _, value = word.partition("=")
    close = difflib.get_close_matches(flag, FLAG_NAMES, n=1, cutoff=0.8)
    hint = f"did you mean {close[0]}?" if close else f"settings have no dashes, {flag.lstrip('-')}={value or 'VALUE'}"
    return f"{flag} is not an option of this command: {hint}"


def _players(labels: Sequence[str], overrides: Sequence[str]) -> list[str]:
    """The overrides that choose the agents of these labels: a list, or ``a`` and ``b`` where others set keys of these.

    Raises ``RequestError`` for such a key where there are not two agents.
    """
    own = [override for override in overrides if override.startswith(("a.", "b."))]
    if own and len(labels) != 2:
        key, _, value = own[0][2:].partition("=")
        name = labels[0].partition("(")[0]
        raise RequestError(f"{own[0]}: a and b are two agents; of one, or of many, write '{name}({key}={value})'")
    if not own:
        return [f"agents=[{','.join(map(_entry, labels))}]"]
    chosen = []
    for seat, label in zip("ab", labels, strict=True):
        name, _, parameters = label.partition("(")
        chosen.append(f"agent@{seat}={name}")
        chosen += [f"{seat}.{in_full(part)}" for part in split(parameters.removesuffix(")"))]
    return chosen


def _entry(label: str) -> str:
    """A label as an entry of ``agents=[…]``."""
    return label if PLAIN.fullmatch(label) else quoted(in_full(label))


def in_full(override: str) -> str:
    """An override with whole numbers written out: ``games=1e6`` becomes ``games=1000000``. Texts in quotes stay."""
    key, equals, value = override.partition("=")
    if "'" in value or '"' in value or key.rpartition(".")[2] in TEXTS:
        return override
    return key + equals + SCIENTIFIC.sub(_written_out, value)


def _written_out(found: re.Match[str]) -> str:
    number = Decimal(found[1])
    return str(int(number)) if number == int(number) else found[1]


def quoted(text: str) -> str:
    """A text as a value of Hydra's overrides: its quotes, commas and ``${`` mean nothing to Hydra and OmegaConf."""
    return QuotedString(re.sub(r"(\\*)\$\{", r"\1\1\\${", text), Quote.single).with_quotes()
