"""The agents that there are, as a table: `qarena agents`."""

from __future__ import annotations

import textwrap
from typing import Any

from analytics.questions.columns import words
from quarto.errors import RequestError
from runners.config.options import comment_of, names, parameters_of, settings_of
from runners.terminal.console import show, tabulated

WIDTH, FRAME = 80, 7  # characters of the table, and of its frame


def show_agents(wide: bool) -> None:
    """Print the table of agents, each in one line unless ``wide``. Raises after it for a yaml that cannot be read."""
    agents, wrong = dict[str, dict[str, Any]](), list[RequestError]()
    for name in names("agent"):
        try:
            agents[name] = settings_of("agent", name)
        except RequestError as error:
            wrong.append(error)
    room = None if wide else max(20, WIDTH - FRAME - max(map(len, agents)))
    plays = (comment_of("agent", name) for name in agents)
    columns = [
        words("agent", agents),
        words("plays", (textwrap.shorten(text, room, placeholder=" …") if room else text for text in plays)),
    ]
    if wide:
        parameters = (parameters_of(own).items() for own in agents.values())
        columns.append(words("parameters", (", ".join(f"{key}={value}" for key, value in each) for each in parameters)))
        columns.append(words("class", (str(own.get("_target_")) for own in agents.values())))
    show([tabulated(columns)])
    if wrong:
        raise RequestError("\n".join(map(str, wrong)))
