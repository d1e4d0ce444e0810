"""Whether a command is a single run or a sweep: ``-m``, or ``hydra.mode`` on the command line or in a yaml."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from hydra._internal.hydra import Hydra

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


@contextmanager
def composed_once(arguments: Sequence[str]) -> Iterator[None]:
    """Let Hydra compose a configuration once instead of twice, inside the context, where that changes nothing.

    Hydra composes all of it first only to look at ``hydra.mode``, which takes a third of the time of a small command.
    It has no setting for that, so the question is answered here: None, nobody set it.
    """
    if not only_flag_decides(arguments):
        yield
        return
    asked, Hydra.get_mode = Hydra.get_mode, _not_set  # type: ignore[method-assign]
    try:
        yield
    finally:
        Hydra.get_mode = asked  # type: ignore[method-assign]


def _not_set(*_args: Any, **_kwargs: Any) -> None:
    return None
