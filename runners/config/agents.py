"""The agents that a configuration names: by name, by label, or as a mapping of parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import PurePath
from typing import Any

from agents.base.agent import AgentLimits
from analytics import DEFAULT_ARCHIVE
from analytics.store import labels
from analytics.store.archive import ArchiveStore
from analytics.store.labels import parse_setting_value, split_label
from analytics.store.records import LABEL
from quarto.errors import RequestError, suggest_valid_names
from runners.arena.spec import AGENT_PARAMETERS, POLICY_PARAMETERS, AgentSpec, find_target, format_label, shorten_paths
from runners.config.yaml_options import (
    LIMIT_KEYS,
    NON_PARAMETER_KEYS,
    find_declared_files,
    load_option,
    select_parameters,
)


def load_agent(name: str) -> AgentSpec:
    """Build the agent that ``conf/agent/NAME.yaml`` describes."""
    return _agent_from_yaml(name, {}, DEFAULT_ARCHIVE, trusted=True)


def agent_from_label(label: str, root: PurePath = DEFAULT_ARCHIVE, trusted: bool = False) -> AgentSpec:
    """Build the agent that a label describes, such as ``rule_based(faithful=true)`` or ``rl_encoded(policy=NAME)``.

    Policies are read from the archive at ``root``. ``trusted`` says that the user typed the label. If it is false, an
    agent that would run third-party code is refused when it is built. Raises ``RequestError`` for an agent or a
    parameter that does not exist, and for a value that cannot be parsed.
    """
    return _agent_from_yaml(*parse_label(label, "agent"), root, trusted, (*LIMIT_KEYS, "name") if trusted else ())


def normalise_label(label: str) -> str:
    """Return ``label`` in the form in which archives store it, without parameters that have their default values.

    A text that is not the label of an agent with a yaml is returned unchanged.
    """
    with suppress(RequestError):  # a label of other code, or of a training
        name, settings = parse_label(label, "agent")
        yaml_settings = load_option("agent", name)
        defaults = select_parameters(yaml_settings)
        return format_label(
            name, shorten_paths({**defaults, **settings}, tuple(yaml_settings.get("paths") or ())), defaults
        )
    return label


def find_stored_label_or_same(root: PurePath, label: str | None) -> str | None:
    """Return ``label`` in the form in which the archive at ``root`` stores it, or None if it is None.

    The label may name parameters with their default values, as in ``mcts(iterations=200)``. If no stored agent matches,
    it is returned unchanged.
    """
    if label is None or "(" not in label:
        return label
    return labels.find_stored_label_or_keep_text(ArchiveStore.open(root).load_runs(), label)


def agent_from_entry(entry: Any, root: PurePath, key: str = "agents", trusted: bool = False) -> AgentSpec:
    """Build the agent that ``entry`` describes: a name, a label, or a mapping with ``agent`` and its parameters.

    Policies are read from the archive at ``root``. ``key`` is the entry's key in the configuration, for messages.
    ``agent_from_label`` explains ``trusted``.
    """
    if isinstance(entry, str):
        return agent_from_label(entry, root, trusted)
    if isinstance(entry, dict) and isinstance(entry.get("agent"), str):
        settings = {str(name): value for name, value in entry.items() if name != "agent"}
        # Untrusted data must not choose the class.
        extra_keys = [key for key in NON_PARAMETER_KEYS if trusted or key != "_target_"]
        return _agent_from_yaml(entry["agent"], settings, root, trusted, extra_keys)
    raise RequestError(f"{key}: {entry!r} is neither a name, name(parameter=value,…) nor {{agent: name, …}}")


def _agent_from_yaml(
    name: str, settings: Mapping[str, Any], root: PurePath, trusted: bool, extra_keys: Sequence[str] = ()
) -> AgentSpec:
    """Build the agent of ``conf/agent/NAME.yaml``, with the values in ``settings`` in place of those in the yaml.

    The keys of ``settings`` must be parameters of the agent or be among ``extra_keys``. ``agent_from_label`` explains
    ``root`` and ``trusted``.
    """
    yaml_settings = load_option("agent", name)
    valid = select_parameters(yaml_settings)
    for key in settings:
        if key not in (*valid, *extra_keys):
            raise RequestError(f"the yaml of agent '{name}' has no parameter {key!r}{suggest_valid_names(key, valid)}")
    return agent_from_settings(name, {**yaml_settings, **settings}, yaml_settings, root, trusted)


def agent_from_settings(
    name: str, settings: Mapping[str, Any], yaml_settings: Mapping[str, Any], root: PurePath, trusted: bool
) -> AgentSpec:
    """Build the agent of ``conf/agent/NAME.yaml`` from ``settings``, the keys of its yaml with the user's changes.

    ``yaml_settings`` are the same keys without the changes. They are needed because the label names only the
    parameters that differ. A policy is read from the archive at ``root``. ``agent_from_label`` explains ``trusted``.
    """
    target = find_target(f"agent '{name}'", settings)
    params, yaml_params = select_parameters(settings), select_parameters(yaml_settings)
    paths = tuple(yaml_settings.get("paths") or ())
    # The class is compared too, so that the label shows a class that is not the yaml's.
    label_params = shorten_paths(params, paths) | {"_target_": target}
    defaults = yaml_params | {"_target_": yaml_settings.get("_target_")}
    label = settings.get("name") or format_label(name, label_params, defaults)
    if not isinstance(label, str) or not LABEL.fullmatch(label):
        raise RequestError(f"agent '{name}': name={label!r} is not a printable text of at most 200 characters")
    described = {key: _expand_agent_parameter(key, value, root) for key, value in params.items()}
    limits = AgentLimits.from_mapping(f"agent '{name}'", settings)
    files = find_declared_files(name, settings)
    for key in AGENT_PARAMETERS:
        if isinstance(params.get(key), str):
            files |= agent_from_label(params[key], root).files
    spec = AgentSpec(label, target, described, limits=limits, files=files, paths=paths, trusted=trusted)
    if "policy" not in params and not ("reads" in yaml_settings and any(key in params for key in POLICY_PARAMETERS)):
        return spec
    from runners.config.agent_policies import attach_policy  # most runs need none

    return attach_policy(spec, yaml_settings, root)


def parse_label(text: str, setting_name: str) -> tuple[str, dict[str, Any]]:
    """Split ``name(parameter=value,…)`` into the name and the parameters.

    ``setting_name`` names the setting in messages. Raises ``RequestError`` for a text that is not a label.
    """
    name, parameters = split_label(text, setting_name)
    setting = f"{setting_name} {text!r}"
    return name, {key: _parse_parameter(setting, key, value) for key, value in parameters}


def _parse_parameter(setting_name: str, key: str, text: str) -> Any:
    """Parse the value of a parameter.

    The label of another agent remains text, which is parsed when that agent is built.
    """
    return (
        text if key in AGENT_PARAMETERS and text.endswith(")") else parse_setting_value(setting_name, f"{key}={text}")
    )


def _expand_agent_parameter(key: str, value: Any, root: PurePath) -> Any:
    """Return the value of a parameter or, if the value is the label of another agent, the record of that agent.

    The record replaces the label because everything in it affects the games.
    """
    if key not in AGENT_PARAMETERS or value is None:
        return value
    if not isinstance(value, str):  # a mapping could name a class that no yaml names
        raise RequestError(f"{key}={value!r} is not an agent's label, NAME or NAME(parameter=value,…)")
    return agent_from_label(value, root).to_record()
