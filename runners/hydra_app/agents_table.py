"""The agents of the configuration as a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Table

from runners.arena.config import agent_settings
from runners.arena.config_groups import names
from runners.arena.spec import NOT_PARAMETERS
from runners.terminal import console

if TYPE_CHECKING:
    pass


def agents_table() -> Table:
    """Every agent of the configuration with its parameters and their defaults."""
    settings = {name: agent_settings(name) for name in names("agent")}
    params = [
        ", ".join(f"{key}={value}" for key, value in own.items() if key not in NOT_PARAMETERS)
        for own in settings.values()
    ]
    targets = [str(own.get("_target_")) for own in settings.values()]
    headings = zip(("agent", "parameters", "class"), (list(settings), params, targets), strict=True)
    return console.tabulated([console.Column(heading, values, right=False) for heading, values in headings])
