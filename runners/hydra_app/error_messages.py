"""Errors of Hydra and OmegaConf about the command line as messages of one line, with the nearest valid name."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any, get_args, get_type_hints

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import IntervalSweep, Override
from hydra.errors import HydraException, MissingConfigException, OverrideParseException
from omegaconf.errors import ConfigAttributeError, ConfigKeyError, OmegaConfBaseException, ValidationError
from yaml import YAMLError

from quarto.errors import FailureError, RequestError, how_to_install, nearest
from runners.arena.config_groups import CONF, LIMITS, names, settings_of
from runners.hydra_app.yaml_keys import keys_in

# Options of Hydra's groups that an extra of ours installs: the plugin's module, and the extra.
PLUGINS = {
    "hydra/launcher=joblib": ("hydra_plugins.hydra_joblib_launcher", "joblib"),
    "hydra/launcher=ray": ("hydra_plugins.hydra_ray_launcher", "ray"),
    "hydra/launcher=submitit_local": ("hydra_plugins.hydra_submitit_launcher", "slurm"),
    "hydra/launcher=submitit_slurm": ("hydra_plugins.hydra_submitit_launcher", "slurm"),
    "hydra/sweeper=optuna": ("hydra_plugins.hydra_optuna_sweeper", "optuna"),
}
THOUSANDS = re.compile(r"games=\d{1,3}(,\d{3})+")
KINDS = {int: "a whole number", float: "a number", bool: "true or false", str: "a text", list: "a list, […,…]"}


@contextmanager
def explained(overrides: Sequence[str]) -> Iterator[None]:
    """Raise ``RequestError`` with a message of one line for errors of Hydra and OmegaConf inside the context.

    Raises ``FailureError`` for a file that cannot be written; other exceptions pass through.
    """
    try:
        yield
    except (HydraException, OmegaConfBaseException, YAMLError) as error:
        raise RequestError(_one_line(error, overrides)) from error
    except OSError as error:
        if error.filename is None:
            raise
        raise FailureError(f"cannot write {error.filename}: {error.strerror}") from error


def _one_line(error: Exception, overrides: Sequence[str]) -> str:
    """The message of a configuration error, with a suggestion if a name is unknown."""
    cause = error.__cause__
    if isinstance(error, MissingConfigException) and error.missing_cfg_file:
        return _missing(error.missing_cfg_file, error.options or ())
    if isinstance(error, OverrideParseException):
        return f"{error.override!r} cannot be read: {_advice(error.override, _own_text(error))}"
    if isinstance(cause, ValidationError):
        return _does_not_fit(cause)
    if isinstance(cause, ConfigAttributeError | ConfigKeyError):
        return _unknown_key(cause, OverridesParser.create().parse_overrides(list(overrides)))
    return _own_text(error)


def _own_text(error: Exception) -> str:
    """The error's own text as one line, without what OmegaConf and Hydra add for developers."""
    text = " ".join(str(error).split())
    for addition in (" full_key:", " See https", " Available options"):
        text = text.partition(addition)[0]
    return text


def check_choices(config: str, overrides: Sequence[Override]) -> None:
    """Check the overrides that choose an option of a group, given the yaml of the command.

    Raises ``RequestError`` for a group that the command does not have or that is given anything but a name, for a
    plugin that is not installed, and for a number of games with commas.
    """
    groups = [key.name for key in keys_in((CONF / f"{config}.yaml").read_text(encoding="utf-8")) if key.is_group]
    for override in overrides:
        text, key = str(override.input_line), override.get_key_element()
        if text in PLUGINS and find_spec(PLUGINS[text][0]) is None:
            raise RequestError(f"{text} needs an extra: {how_to_install(PLUGINS[text][1])}")
        if THOUSANDS.fullmatch(text):
            plain = text.replace(",", "")
            raise RequestError(f"{text} is several values: write {plain}, or {plain[:-3]}_{plain[-3:]}")
        options = [] if "." in key or "/" in key or override.is_add() else names(override.key_or_group)
        if key == "agent":
            one = first_value(override).partition("=")[2]
            raise RequestError(f"{text}: name the agents one after the other, qarena run {one} OTHER, or agents=[…]")
        if options and key not in groups and not override.is_delete():
            raise RequestError(f"key {key!r} does not exist{nearest(key, groups)}")
        if options and not (override.is_delete() or override.is_sweep_override() or isinstance(override.value(), str)):
            raise RequestError(f"{text}: the group {override.key_or_group} takes one name{nearest('', options)}")


def first_value(override: Override) -> str:
    """An override that is no sweep, with the first of its values."""
    if not override.is_sweep_override():
        return str(override.input_line)
    value = override.value()
    first = value.start if isinstance(value, IntervalSweep) else next(iter(override.sweep_string_iterator()))
    return f"{override.get_key_element()}={first}"


def _missing(file: str, options: Sequence[str]) -> str:
    """The message that an option of a group does not exist."""
    group, _, name = file.removesuffix(".yaml").rpartition("/")
    if group.partition("/")[0] == "archive":
        folder = f"{group}/{name}".partition("/")[2]
        return f"archive={folder}: name the archive's folder by --archive {folder}"
    own = "; for one of your own name its folder, --config-dir DIR" if group == "agent" else ""
    return f"{group or 'config'} {name!r} does not exist{nearest(name, options)}{own}"


def _does_not_fit(error: ValidationError) -> str:
    """The message that a value is not of its key's type."""
    value = json.dumps(error.value) if error.value is None or isinstance(error.value, bool) else str(error.value)
    hint: Any = get_type_hints(error.object_type).get(error.key) if isinstance(error.object_type, type) else None
    kinds = [KINDS.get(getattr(each, "__origin__", each)) for each in (get_args(hint) or [hint])]
    wanted = " or ".join(kind for kind in kinds if kind) or _own_text(error)
    return f"{error.full_key}={value}: {value!r} is not {wanted}"


def _unknown_key(error: ConfigAttributeError | ConfigKeyError, given: Sequence[Override]) -> str:
    """The message about a key that does not exist; if it is a parameter of a named agent, how to type it."""
    name = str(error.full_key)
    labels = [label for each in given for label in _labels(each)]
    for typed in (each for each in given if each.get_key_element() == name):
        for seat, label in enumerate(labels):
            agent = label.partition("(")[0]
            if name in (*settings_of("agent", agent), *LIMITS):
                of_seat = f"{'ab'[seat]}.{typed.input_line} or " if len(labels) == 2 else ""
                how = f"{of_seat}'{agent}({first_value(typed)})'"
                return f"{typed.input_line} is a setting of the agent {agent}: write {how}"
    prefix = name.removesuffix(str(error.key))
    valid = [f"{prefix}{key}" for key in error.parent_node or () if key not in ("hydra", "_target_")]
    return f"key {name!r} does not exist{nearest(name, valid)}"


def _labels(override: Override) -> list[str]:
    """The labels of the agents that an override chooses."""
    if override.get_key_element() not in ("agents", "agent@a", "agent@b") or override.is_sweep_override():
        return []
    named = override.value()
    return [label for label in (named if isinstance(named, list) else [named]) if isinstance(label, str)]


def _advice(override: str, text: str) -> str:
    """Advice on an override that Hydra's grammar rejects."""
    if "=" not in override:
        return "it is neither key=value nor an agent, NAME or 'NAME(parameter=value,…)'"
    if override.startswith("agents=") and "(" in override:
        return "name agents with parameters before the settings, qarena run random 'rule_based(faithful=true)'"
    if override.startswith("where="):
        return f'give a condition as an option, --where "{override.removeprefix("where=")}"'
    if override.count("(") > override.count(")"):
        return "a closing bracket is missing, and the shell needs quotes around brackets: 'mcts(iterations=5)'"
    if "=~" in override:
        return "the shell does not expand '~' there; write $HOME"
    return f"{text}; quote brackets and spaces for the shell"
