"""The options of a configuration group, such as all agents, with their descriptions, keys and defaults."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from agents.base.parameters import format_parameter
from quarto.errors import RequestError
from runners.config.arguments import parse_yaml_keys
from runners.config.yaml_options import (
    flatten_settings,
    list_options,
    load_option,
    read_option_comment,
    read_option_text,
    select_parameters,
)


class OptionDescription(NamedTuple):
    """An option of a configuration group, as its yaml describes it."""

    name: str
    text: str  # the first line of the comment at the beginning of the yaml
    parameters: Mapping[str, Any]  # with their defaults; a parameter may be a mapping of parameters
    target: str  # the identity of the class; "" for an option without one, such as rules

    @property
    def defaults(self) -> dict[str, Any]:
        """The defaults by dotted key, without the classes of objects inside the option."""
        keys = flatten_settings(self.parameters)
        return {key: value for key, value in keys if key.rpartition(".")[2] != "_target_"}


class OptionList(NamedTuple):
    """The options of a group, and the errors of those whose yaml could not be read."""

    options: list[OptionDescription]
    errors: list[RequestError]


def describe_options(group: str) -> OptionList:
    """Describe the options of a configuration group in all folders that Hydra searches, sorted by name."""
    options, errors = list[OptionDescription](), list[RequestError]()
    for name in list_options(group):
        try:
            settings, text = load_option(group, name), read_option_comment(group, name)
        except RequestError as error:
            errors.append(error)
        else:
            parameters = select_parameters(settings) if group == "agent" else dict(settings)
            target = str(parameters.pop("_target_", settings.get("_target_", "")))
            options.append(OptionDescription(name, text, parameters, target))
    return OptionList(options, errors)


def format_defaults(option: OptionDescription) -> str:
    """Format the parameters of an option with their defaults, as labels and overrides write them."""
    return ", ".join(f"{key}={format_parameter(value)}" for key, value in option.defaults.items())


def read_key_meanings(group: str, name: str) -> dict[str, str]:
    """Return what the comments of an option's yaml say about its keys, by dotted key."""
    return {key.name: key.meaning for key in parse_yaml_keys(read_option_text(group, name))}
