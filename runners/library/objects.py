"""Agents that are objects of a program, such as an instance of a class that a notebook's cell defines.

Nothing outside the program can build such an agent again. So a run with one has an id of its own and a single writer,
and its record names no code for that agent.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from analytics.store.labels import quote_for_hydra
from analytics.store.records import LABEL, OBJECT_TARGET
from quarto.errors import RequestError
from runners.arena.executors.base import THREADS
from runners.arena.spec import AgentSpec
from runners.config.arguments import expand_and_quote_override
from runners.config.requests import OBJECT_KEY
from runners.config.yaml_options import list_options

if TYPE_CHECKING:
    from runners.arena.request import RunRequest


def format_agents_or_one_list(agents: Sequence[object]) -> list[str]:
    """Format agents as words of the command line.

    If some agents are objects, the only word is a list of all agents, in which a number stands for each object.
    """
    labels = [agent for agent in agents if isinstance(agent, str)]
    if len(labels) == len(agents):
        return labels
    objects = _list_objects(agents)
    entries = [
        quote_for_hydra(expand_and_quote_override(agent))
        if isinstance(agent, str)
        else f"{{{OBJECT_KEY}:{_find_index(objects, agent)}}}"
        for agent in agents
    ]
    return [f"agents=[{','.join(entries)}]"]


def format_python_call(agents: Sequence[object], words: Sequence[str]) -> str:
    """Format a call of ``run`` with objects for the run's record, because no command is equivalent to it.

    The first of ``words`` has the agents, and the other words are settings.
    """
    names = [repr(agent) if isinstance(agent, str) else f"<{type(agent).__name__}>" for agent in agents]
    return f"runners.run({', '.join([*names, *words[1:]])})"


def _list_objects(agents: Sequence[object]) -> list[object]:
    """List the agents that are objects and not labels; an object that occurs twice is listed once."""
    objects: list[object] = []
    for agent in agents:
        if not isinstance(agent, str) and _find_index(objects, agent) is None:
            objects.append(agent)
    return objects


def _find_index(objects: Sequence[object], agent: object) -> int | None:
    """Return the index of this very object in ``objects``, or None if it is not there."""
    return next((index for index, candidate in enumerate(objects) if candidate is agent), None)


def describe_objects(agents: Sequence[object]) -> list[AgentSpec]:
    """Describe each agent that is an object by a spec, whose label is the name of the object's class.

    An object that occurs twice has one spec. Raises ``RequestError`` for a class in place of an object, and for an
    object whose class has the name of an agent or a name that cannot be a label.
    """
    specs: list[AgentSpec] = []
    for agent in _list_objects(agents):
        if isinstance(agent, type):
            raise RequestError(f"{agent.__name__} is a class: pass an object of it, {agent.__name__}()")
        name = type(agent).__name__
        if not LABEL.fullmatch(name) or "(" in name or name in list_options("agent"):
            raise RequestError(f"the class {name!r} has the name of an agent, or one that cannot be shown: rename it")
        count = sum(spec.params["class"] == name for spec in specs)
        label = f"{name}-{count + 1}" if count else name
        specs.append(AgentSpec(label, OBJECT_TARGET, {"class": name}, agent_object=agent, trusted=True))
    return specs


def with_random_salt_and_note(request: RunRequest) -> RunRequest:
    """Return a request with a random salt, so that its run is new, and with a note on what this run cannot do.

    The request has agents that are objects. Raises ``RequestError`` for an executor other than threads, because the
    executor would have to copy the objects.
    """
    objects = [spec for spec in request.spec.agents if spec.is_object_of_program]
    if request.executor != THREADS:
        raise RequestError(f"{objects[0].label} is an object, which plays on threads only: leave executor out")
    name = str(objects[0].params["class"])
    note = (
        f"{name} is an object of this program, so the run cannot be extended or played again, and its record names no "
        f"code for it; an agent like any other is a class in a file {name.lower()}.py with a yaml "
        f"agent/{name.lower()}.yaml that says '_target_: {name.lower()}.{name}', and its folder as config_dir "
        "('qarena agents new' in a terminal writes both)"
    )
    spec = replace(request.spec, salt=secrets.token_hex(8))
    return replace(request, spec=spec, notes=(*request.notes, note))
