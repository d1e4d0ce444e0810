"""The agents that there are, as a table: `qarena agents`."""

from __future__ import annotations

import textwrap
from typing import Any

from analytics.questions.columns import text_column
from quarto.errors import RequestError
from runners.config.yaml_options import list_options, load_option, read_option_comment, select_parameters
from runners.terminal.console import build_table, print_tables

WIDTH, FRAME = 80, 7  # characters of the table, and of its frame


def print_agents(wide: bool) -> None:
    """Print the table of agents, each in one line unless ``wide``. Raises after it for a yaml that cannot be read."""
    agents, wrong = dict[str, dict[str, Any]](), list[RequestError]()
    for name in list_options("agent"):
        try:
            agents[name] = load_option("agent", name)
        except RequestError as error:
            wrong.append(error)
    room = None if wide else max(20, WIDTH - FRAME - max(map(len, agents)))
    plays = (read_option_comment("agent", name) for name in agents)
    columns = [
        text_column("agent", agents),
        text_column("plays", (textwrap.shorten(text, room, placeholder=" …") if room else text for text in plays)),
    ]
    if wide:
        parameters = (select_parameters(own).items() for own in agents.values())
        columns.append(
            text_column("parameters", (", ".join(f"{key}={value}" for key, value in each) for each in parameters))
        )
        columns.append(text_column("class", (str(own.get("_target_")) for own in agents.values())))
    print_tables([build_table(columns)])
    if wrong:
        raise RequestError("\n".join(map(str, wrong)))
