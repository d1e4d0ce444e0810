"""The agents of the configuration as a table."""

from __future__ import annotations

from runners.arena.config_groups import NOT_PARAMETERS, names, settings_of
from runners.terminal import console
from runners.terminal.console import Table


def agents_table() -> Table:
    """Every agent of the configuration with its parameters and their defaults."""
    settings = {name: settings_of("agent", name) for name in names("agent")}
    params = [
        ", ".join(f"{key}={value}" for key, value in own.items() if key not in NOT_PARAMETERS)
        for own in settings.values()
    ]
    targets = [str(own.get("_target_")) for own in settings.values()]
    headings = zip(("agent", "parameters", "class"), (list(settings), params, targets), strict=True)
    return console.tabulated([console.Column(heading, values, right=False) for heading, values in headings])
