"""Groups of commands. Each of their commands takes the archive in every spelling: --archive DIR, archive=DIR."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from typer.core import TyperGroup, TyperOption

OPTION = "--archive"
_SETTING = re.compile(r"archive(?:\.root)?=(.*)", re.DOTALL)


class Group(TyperGroup):
    """A group of commands."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The name of the command that ``args`` begin with, the command, and its arguments."""
        name, command, rest = super().resolve_command(ctx, args)
        return name, command, rest if command is None else with_option(command.params, rest)


def with_option(params: Sequence[Any], arguments: Sequence[str]) -> list[str]:
    """Arguments with ``archive=DIR`` and ``archive.root=DIR`` as the option, if the command has it.

    Commands that Hydra carries out do not have it: they read ``--archive`` as ``archive=`` (``flags_first``).
    """
    options = [param for param in params if isinstance(param, TyperOption) and not param.is_flag]
    taking = {name for option in options for name in option.opts}  # the word after one of these is its value
    if OPTION not in taking:
        return list(arguments)
    found: list[str] = []
    for place, word in enumerate(arguments):
        setting = _SETTING.fullmatch(word)
        is_value = place > 0 and arguments[place - 1] in taking
        found += [OPTION, setting[1]] if setting and not is_value and "--" not in arguments[:place] else [word]
    return found
