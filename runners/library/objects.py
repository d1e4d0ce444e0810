"""Agents that are objects of a program, such as an instance of a class that a notebook's cell defines.

Nothing outside the program can build such an agent again. So a run with one has an id of its own and a single writer,
and its record has no code for that agent but a hash of it, which tells a class from a later class of the same name.
"""

from __future__ import annotations

import inspect
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import isfinite
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from agents.base.parameters import format_parameter
from analytics.store.archive import ArchiveStore
from analytics.store.labels import quote_for_hydra
from analytics.store.records import LABEL, OBJECT_TARGET
from quarto.errors import RequestError, describe_value
from runners.arena.executors.base import THREADS
from runners.arena.spec import AgentSpec, format_label
from runners.config.arguments import expand_and_quote_override
from runners.config.requests import OBJECT_KEY
from runners.config.yaml_options import list_options
from runners.library.class_code import compute_class_code_hash

if TYPE_CHECKING:
    from runners.arena.request import RunRequest

PLAIN_TYPES = (bool, int, float, str, type(None))  # of parameters that a label can show
NOT_PLAIN = object()  # stands for the value of a parameter that no label can show
NOT_AGENT_TYPES = (*PLAIN_TYPES, bytes, list, tuple, set)
CODE_KEY = "class_code"  # the parameter in a record that is the hash of an object's class


class ObjectEntry(NamedTuple):
    """An agent that is an object, and the name that the user gave it, if any."""

    agent: object
    name: str | None = None


class DescribedObjects(NamedTuple):
    """The specs of the agents of a call that are objects, and notes on their labels."""

    specs: list[AgentSpec]
    notes: list[str]


def has_only_labels(agents: Sequence[object]) -> bool:
    """Return whether all agents are labels, so that the command line can name them."""
    return all(isinstance(agent, str) for agent in agents)


def format_agents_or_one_list(agents: Sequence[object]) -> list[str]:
    """Format agents as words of the command line.

    If all agents are labels, each is a word. Otherwise the result is a single word: a list of all agents, with a number
    in place of each object.

    Raises ``RequestError`` for a value that is neither a label, an object nor a mapping with ``agent``.
    """
    if has_only_labels(agents):
        return [str(agent) for agent in agents]
    objects = _list_objects(agents)
    return [f"agents=[{','.join(_format_entry(agent, objects) for agent in agents)}]"]


def check_no_settings_of_seats(agents: Sequence[object], words: Sequence[str]) -> None:
    """Raise ``RequestError`` for a setting of ``a`` or ``b`` among the words of a call whose agents are a list."""
    for word in () if has_only_labels(agents) else words:
        if word.startswith(("a.", "b.")):
            key, _, value = word[2:].partition("=")
            raise RequestError(
                f"{word} has no effect beside an object: write it with the agent, {{'agent': …, {key!r}: {value!r}}}"
            )


def _format_entry(agent: object, objects: Sequence[ObjectEntry]) -> str:
    """Format an agent as an entry of the key ``agents``."""
    parsed = _parse_agent(agent)
    if isinstance(parsed, str):
        return quote_for_hydra(expand_and_quote_override(parsed))
    if isinstance(parsed, ObjectEntry):
        return f"{{{OBJECT_KEY}:{_find_index(objects, parsed)}}}"
    return f"{{{','.join(f'{key}:{_format_value(value)}' for key, value in parsed.items())}}}"


def _format_value(value: object) -> str:
    return quote_for_hydra(value) if isinstance(value, str) else format_parameter(value)


def _parse_agent(agent: object) -> str | Mapping[str, object] | ObjectEntry:
    """Return an agent of a call as a label, as a mapping of an agent's name and its settings, or as an object.

    Raises ``RequestError`` for a value that cannot be an agent.
    """
    if isinstance(agent, str):
        return agent
    if isinstance(agent, NOT_AGENT_TYPES):
        raise RequestError(
            f"{describe_value(agent)} is no agent: agents are labels, such as 'mcts', or objects; a setting has a "
            f"name, games={describe_value(agent)}"
        )
    if not isinstance(agent, Mapping):
        return ObjectEntry(agent)
    if "agent" not in agent:
        raise RequestError(
            f"{describe_value(agent)} names no agent: write {{'agent': 'mcts', 'iterations': 50, 'name': 'fast'}}"
        )
    if isinstance(agent["agent"], str):
        return agent
    for key in agent:
        if key not in ("agent", "name"):
            raise RequestError(f"{key!r}: an object has its parameters already: write {{'agent': object, 'name': …}}")
    return ObjectEntry(agent["agent"], agent.get("name"))


def format_python_call(agents: Sequence[object], settings: Mapping[str, object], overrides: Sequence[str]) -> str:
    """Format a call of ``run`` as the text ``runners.run(…)``, in which ``<Greedy(depth=2)>`` stands for an object.

    No command line is equivalent to a call with objects, so the run's record gets this text instead.
    """
    words = [_format_agent_of_call(agent) for agent in agents]
    words += [f"{key}={value!r}" for key, value in settings.items()]
    words += [f"overrides={[*overrides]!r}"] if overrides else []
    return f"runners.run({', '.join(words)})"


def _format_agent_of_call(agent: object) -> str:
    if isinstance(agent, Mapping):
        return f"{{{', '.join(f'{key!r}: {_format_agent_of_call(value)}' for key, value in agent.items())}}}"
    if isinstance(agent, PLAIN_TYPES):
        return repr(agent)
    arguments = ", ".join(f"{key}={value!r}" for key, value in read_parameters(agent).items())
    return f"<{type(agent).__name__}({arguments})>" if arguments else f"<{type(agent).__name__}>"


def _list_objects(agents: Sequence[object]) -> list[ObjectEntry]:
    """List the agents that are objects and not labels; an object that occurs twice is listed once."""
    objects: list[ObjectEntry] = []
    for agent in map(_parse_agent, agents):
        if isinstance(agent, ObjectEntry) and _find_index(objects, agent) is None:
            objects.append(agent)
    return objects


def _find_index(objects: Sequence[ObjectEntry], entry: ObjectEntry) -> int | None:
    """Return the index at which ``objects`` has the same object (by identity) under the same name, or None."""
    return next(
        (index for index, other in enumerate(objects) if other.agent is entry.agent and other.name == entry.name), None
    )


def describe_objects(agents: Sequence[object], root: PurePath) -> DescribedObjects:
    """Build an ``AgentSpec`` for each agent that is an object.

    Its label is the given name or, without one, the name of the object's class and its parameters. Parameters are the
    arguments of the constructor that the object keeps as attributes of the same name, if they are plain values. If the
    archive at ``root`` has games of another class under the name, a hash of the class's code is added to the name, so
    that ratings do not mix the two. An object that occurs twice has one spec.

    Raises ``RequestError`` if a class is passed instead of an object, and for an object whose class has the name of an
    agent or a name that cannot be a label.
    """
    objects = _list_objects(agents)
    specs, notes = list[AgentSpec](), list[str]()
    stored = _load_object_records(root) if objects else []
    for agent, given_name in objects:
        if isinstance(agent, type):
            raise RequestError(f"{agent.__name__} is a class: pass an object of it, {agent.__name__}()")
        class_name, code = type(agent).__name__, compute_class_code_hash(type(agent))
        name = class_name if given_name is None else given_name
        _check_name(name, class_name)
        if _is_name_of_other_code(name, code, [*stored, *(spec.to_record() for spec in specs)]):
            notes.append(f"{name} is other code in runs of this archive, so this class is called {name}-{code}")
            name = f"{name}-{code}"
        parameters = read_parameters(agent)
        if given_name is None and (
            unread := sorted(_read_constructor_defaults(type(agent)).keys() - parameters.keys())
        ):
            notes.append(
                f"{class_name} keeps no plain value of {', '.join(unread)} as an attribute of that name, so its label "
                "does not tell such objects apart: give them names, {'agent': object, 'name': …}"
            )
        shown = {} if given_name is not None else parameters
        label = _find_free_label(name, type(agent), shown, [spec.label for spec in specs])
        params = {"class": class_name, CODE_KEY: code, **parameters}
        specs.append(AgentSpec(label, OBJECT_TARGET, params, agent_object=agent, trusted=True))
    return DescribedObjects(specs, [*dict.fromkeys(notes)])


def read_parameters(agent: object) -> dict[str, Any]:
    """Read the arguments of an object's constructor that it keeps as attributes of the same name, if they are plain."""
    values = {name: _to_plain(getattr(agent, name, NOT_PLAIN)) for name in _read_constructor_defaults(type(agent))}
    return {name: value for name, value in values.items() if value is not NOT_PLAIN}


def _read_constructor_defaults(agent_class: type[Any]) -> dict[str, Any]:
    """Return the public arguments of a constructor with their defaults, or ``NOT_PLAIN`` for what is not plain.

    A class whose constructor cannot be inspected, such as one of an extension in C, has no arguments.
    """
    try:
        parameters = inspect.signature(agent_class).parameters.values()
    except (TypeError, ValueError):
        return {}
    named = [item for item in parameters if item.kind not in (item.VAR_POSITIONAL, item.VAR_KEYWORD)]
    return {item.name: _to_plain(item.default) for item in named if not item.name.startswith("_")}


def _to_plain(value: Any) -> Any:
    """Return a value as records and labels hold it, or ``NOT_PLAIN`` if they cannot."""
    if isinstance(value, np.generic):
        return _to_plain(value.item())
    if isinstance(value, list | tuple):
        items = [*map(_to_plain, value)]
        return NOT_PLAIN if NOT_PLAIN in items else items
    is_plain = type(value) in PLAIN_TYPES and (not isinstance(value, float) or isfinite(value))
    return value if is_plain else NOT_PLAIN


def _find_free_label(name: str, agent_class: type[Any], shown: Mapping[str, Any], labels: Sequence[str]) -> str:
    """Return the label of an object, with a number after its name if an object of the call has that label.

    ``shown`` are the parameters that the label names if they differ from their defaults. Raises ``RequestError`` for a
    label that is too long or cannot be shown.
    """
    defaults, number, label = _read_constructor_defaults(agent_class), 1, ""
    while not label or label in labels:
        label = format_label(name if number == 1 else f"{name}-{number}", shown, defaults)
        number += 1
    if not LABEL.fullmatch(label):
        raise RequestError(
            f"the label {label!a:.80} is longer than 200 characters or cannot be shown: pass "
            f"{{'agent': {agent_class.__name__}(…), 'name': 'short'}}"
        )
    return label


def _load_object_records(root: PurePath) -> list[dict[str, Any]]:
    """Load the records of the agents that were objects in all runs of the archive at ``root``, if there is one."""
    try:
        runs = ArchiveStore.open(root).load_runs()
    except RequestError:  # no archive is there yet, or playing will say what is wrong with it
        return []
    return [agent for run in runs for agent in run.spec.get("agents", ()) if agent.get("target") == OBJECT_TARGET]


def _is_name_of_other_code(name: str, code: str, records: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether ``records`` has agents of this name, but none of a class whose code has the hash ``code``."""
    codes = {record["params"].get(CODE_KEY) for record in records if str(record["label"]).partition("(")[0] == name}
    return bool(codes) and code not in codes


def _check_name(name: object, class_name: str) -> None:
    """Raise ``RequestError`` for a name that cannot begin a label, or that is an agent's."""
    if not isinstance(name, str) or not LABEL.fullmatch(name) or "(" in name or name in list_options("agent"):
        raise RequestError(
            f"the name {name!r} is that of an agent, or one that cannot be shown: rename the class, or pass "
            f"{{'agent': {class_name}(…), 'name': 'another'}}"
        )


def with_random_salt_and_note(request: RunRequest) -> RunRequest:
    """Return a copy of a request whose agents include objects, with a random salt and a note.

    The salt makes the run a new one. The note says that the run can be neither extended nor repeated. Raises
    ``RequestError`` for an executor other than threads, because the executor would have to copy the objects.
    """
    objects = [spec for spec in request.spec.agents if spec.is_object_of_program]
    if request.executor != THREADS:
        raise RequestError(f"{objects[0].label} is an object, which plays on threads only: leave executor out")
    note = (
        f"{objects[0].params['class']} is an object of this program, so the run cannot be extended or played again; "
        f"seed={request.spec.seed} repeats its openings only. A class in a file with a yaml can be repeated (see "
        "docs/agents.md)"
    )
    spec = replace(request.spec, salt=secrets.token_hex(8))
    return replace(request, spec=spec, notes=(*request.notes, note))
