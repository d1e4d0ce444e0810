"""The table of agents that `qarena agents` prints."""

from __future__ import annotations

import textwrap
from typing import Any

from analytics.questions.columns import text_column
from quarto.errors import RequestError
from runners.config.yaml_options import list_options, load_option, read_option_comment, select_parameters
from runners.terminal.console import build_escaped_table, print_tables

WIDTH, FRAME = 80, 7  # characters of the table, and of its frame


def print_agents(wide: bool) -> None:
    """Print the table of agents; then raise ``RequestError`` if the yaml of any agent could not be read.

    Unless ``wide``, each agent takes one line, and parameters and classes are left out.
    """
    agents, errors = dict[str, dict[str, Any]](), list[RequestError]()
    for name in list_options("agent"):
        try:
            agents[name] = load_option("agent", name)
        except RequestError as error:
            errors.append(error)
    room = None if wide else max(20, WIDTH - FRAME - max(map(len, agents)))
    plays = (read_option_comment("agent", name) for name in agents)
    columns = [
        text_column("agent", agents),
        text_column("plays", (textwrap.shorten(text, room, placeholder=" …") if room else text for text in plays)),
    ]
    if wide:
        items = (select_parameters(settings).items() for settings in agents.values())
        texts = (", ".join(f"{key}={value}" for key, value in parameters) for parameters in items)
        columns.append(text_column("parameters", texts))
        columns.append(text_column("class", (str(settings.get("_target_")) for settings in agents.values())))
    print_tables([build_escaped_table(columns)])
    if errors:
        raise RequestError("\n".join(map(str, errors)))
