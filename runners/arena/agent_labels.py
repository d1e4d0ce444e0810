"""Agents of the configuration: by name, by label, or as a mapping of parameters."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any, NamedTuple

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException

from quarto.errors import RequestError, nearest
from runners.arena.agent_policies import with_policy
from runners.arena.config_groups import NOT_PARAMETERS, declared_files, parameters_of, settings_of
from runners.arena.spec import AGENT_PARAMETERS, LABEL, AgentSpec, label_of, target_of
from runners.arena.storage import ARCHIVE
from runners.hosting.agent_limits import limits_of


class ParsedLabel(NamedTuple):
    """The parts of ``name(parameter=value,…)``."""

    name: str
    parameters: dict[str, Any]


def load_agent(name: str) -> AgentSpec:
    """The agent of ``conf/agent/NAME.yaml``."""
    return _agent(name, {}, ARCHIVE)


def agent_named(text: str, root: PurePath = ARCHIVE) -> AgentSpec:
    """The agent that a label describes: ``random``, ``rule_based(faithful=true)``, ``rl_encoded(policy=NAME)``.

    Policies are those of the archive at ``root``. Raises ``RequestError`` for an agent or a parameter that does not
    exist, and for a value that cannot be read.
    """
    return _agent(*parse_label(text, "agent"), root)


def agent_of(entry: Any, root: PurePath, key: str = "agents") -> AgentSpec:
    """The agent that ``entry`` describes: a name, a label, or a mapping with ``agent`` and its parameters.

    Policies are those of the archive at ``root``; ``key`` is the entry's key in the configuration, for messages.
    """
    if isinstance(entry, str):
        return agent_named(entry, root)
    if isinstance(entry, dict) and isinstance(entry.get("agent"), str):
        settings = {str(name): value for name, value in entry.items() if name != "agent"}
        return _agent(entry["agent"], settings, root, NOT_PARAMETERS)
    raise RequestError(f"{key}: {entry!r} is neither a name, name(parameter=value,…) nor {{agent: name, …}}")


def _agent(name: str, settings: Mapping[str, Any], root: PurePath, others: Sequence[str] = ()) -> AgentSpec:
    """The agent of ``conf/agent/NAME.yaml`` with changed ``settings``: its parameters, and perhaps ``others``."""
    own = agent_settings(name)
    valid = parameters_of(own)
    for key in settings:
        if key not in (*valid, *others):
            raise RequestError(f"agent '{name}' has no parameter {key!r}{nearest(key, valid)}")
    return agent_from_settings(name, {**own, **settings}, own, root)


def agent_from_settings(name: str, settings: Mapping[str, Any], own: Mapping[str, Any], root: PurePath) -> AgentSpec:
    """The agent of ``conf/agent/NAME.yaml`` with changed ``settings``; ``own`` are those of the yaml itself.

    Its policy, if it has one, is read from the archive at ``root``.
    """
    target = target_of(f"agent '{name}'", settings)
    params, own_params = parameters_of(settings), parameters_of(own)
    # The class is compared too, so that a label shows if another one plays.
    shown, usual = params | {"_target_": target}, own_params | {"_target_": own.get("_target_")}
    label = settings.get("name") or label_of(name, shown, usual)
    if not isinstance(label, str) or not LABEL.fullmatch(label):
        raise RequestError(f"agent '{name}': name={label!r} is not a printable text of at most 200 characters")
    described = {key: _described(key, value, root) for key, value in params.items()}
    limits = limits_of(f"agent '{name}'", settings)
    files = declared_files(name, settings)
    for key in AGENT_PARAMETERS:
        if isinstance(params.get(key), str):
            files |= agent_named(params[key], root).files
    has_process = own.get("has_process") is True
    spec = AgentSpec(label, target, described, limits=limits, files=files, has_process=has_process)
    return with_policy(spec, own, root)


def agent_settings(name: str) -> dict[str, Any]:
    """All keys of ``conf/agent/NAME.yaml``, including those that only tests and tables read."""
    return settings_of("agent", name)


def parse_label(text: str, what: str) -> ParsedLabel:
    """Split ``name(parameter=value,…)`` into name and parameters; ``what`` names the setting in messages.

    Raises ``RequestError`` for a text that is not such a label.
    """
    found = re.fullmatch(r"\s*([\w.@/-]+)\s*(?:\((.*)\))?\s*", text)
    if not found:
        raise RequestError(f"{what} {text!r} is neither a name nor name(parameter=value,…)")
    parameters = {}
    for part in _split(found[2] or ""):
        key, equals, value = (each.strip() for each in part.partition("="))
        if not equals:
            raise RequestError(f"{what} {text!r}: {part!r} is not parameter=value")
        parameters[key] = _value(f"{what} {text!r}", f"{key}={value}")
    return ParsedLabel(found[1], parameters)


def _split(text: str) -> list[str]:
    """``a=1,b=[2,3]`` at the commas outside brackets."""
    return [part for part in re.split(r",(?![^\[({]*[\])}])", text) if part.strip()]


def _value(what: str, setting: str) -> Any:
    """The value of ``key=value`` in Hydra's grammar."""
    try:
        parsed = OverridesParser.create().parse_override(setting)
    except HydraException as error:
        reason = " ".join(str(error).split()).partition(" See https")[0]
        raise RequestError(f"{what}: {setting} cannot be read: {reason}") from error
    if parsed.is_sweep_override():
        raise RequestError(f"{what}: {setting} is more than one value")
    return parsed.value()


def _described(key: str, value: Any, root: PurePath) -> Any:
    """The value of a parameter. If it names an agent: everything that describes the agent, as it affects the games."""
    if key not in AGENT_PARAMETERS or value is None:
        return value
    if not isinstance(value, str):  # a mapping could name a class that no yaml names
        raise RequestError(f"{key}={value!r} is not an agent's label, NAME or NAME(parameter=value,…)")
    return agent_named(value, root).as_mapping()
