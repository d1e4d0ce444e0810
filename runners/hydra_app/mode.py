"""Whether a command is a single run or a sweep: ``-m``, or ``hydra.mode`` on the command line or in a yaml."""

from __future__ import annotations

import re
from collections.abc import Sequence

from quarto.errors import RequestError

MODE = re.compile(r"\+*hydra\.mode=(.*)")
# What may set it: itself, and yamls that are chosen for Hydra's node or lie elsewhere. Other keys of Hydra's do not.
MAY_SET_IT = re.compile(r"-|.*\bhydra(?!\.(?!mode\b|searchpath\b))")


def check_mode(arguments: Sequence[str]) -> None:
    """Raises ``RequestError`` if the arguments of a sweep ask for a single run."""
    for argument in arguments:
        if (given := MODE.fullmatch(argument)) and given[1] != "MULTIRUN":
            raise RequestError(f"{argument} contradicts a sweep: leave it out, or use the command without -m")


def only_flag_decides(arguments: Sequence[str]) -> bool:
    """Whether no argument sets ``hydra.mode`` or chooses a yaml that may: those of the project's ``conf`` do not."""
    return not any(map(MAY_SET_IT.match, arguments))
