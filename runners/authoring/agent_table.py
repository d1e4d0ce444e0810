"""The table of agents that `qarena agents` prints."""

from __future__ import annotations

import textwrap

from analytics.questions.columns import text_column
from quarto.errors import RequestError
from runners.authoring.option_list import describe_options, format_defaults
from runners.terminal.console import build_escaped_table, print_tables

WIDTH, FRAME = 80, 7  # characters of the table, and of its frame


def print_agents(wide: bool) -> None:
    """Print the table of agents; then raise ``RequestError`` if the yaml of any agent could not be read.

    Unless ``wide``, each agent takes one line, and parameters and classes are left out.
    """
    agents, errors = describe_options("agent")
    room = None if wide else max(20, WIDTH - FRAME - max(len(agent.name) for agent in agents))
    plays = (textwrap.shorten(agent.text, room, placeholder=" …") if room else agent.text for agent in agents)
    columns = [text_column("agent", [agent.name for agent in agents]), text_column("plays", plays)]
    if wide:
        columns.append(text_column("parameters", map(format_defaults, agents)))
        columns.append(text_column("class", [agent.target for agent in agents]))
    print_tables([build_escaped_table(columns)])
    if errors:
        raise RequestError("\n".join(map(str, errors)))
