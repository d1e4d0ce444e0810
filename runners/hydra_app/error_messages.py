"""Errors of Hydra and OmegaConf about the command line as messages of one line, with the nearest valid name."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from typing import Any, get_args, get_type_hints

from hydra import compose, initialize_config_dir
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import ConfigCompositionException, HydraException, MissingConfigException, OverrideParseException
from omegaconf.errors import OmegaConfBaseException, ValidationError
from yaml import YAMLError

from quarto.errors import FailureError, RequestError, how_to_install, nearest
from runners.arena.config_groups import CONF, flat, names, plain, settings_of
from runners.hosting.agent_limits import LIMITS

# Options of Hydra's groups that an extra of ours installs: the plugin's module, and the extra.
PLUGINS = {
    "hydra/launcher=joblib": ("hydra_plugins.hydra_joblib_launcher", "joblib"),
    "hydra/launcher=ray": ("hydra_plugins.hydra_ray_launcher", "ray"),
    "hydra/launcher=submitit_local": ("hydra_plugins.hydra_submitit_launcher", "slurm"),
    "hydra/launcher=submitit_slurm": ("hydra_plugins.hydra_submitit_launcher", "slurm"),
    "hydra/sweeper=optuna": ("hydra_plugins.hydra_optuna_sweeper", "optuna"),
}
KINDS = {int: "a whole number", float: "a number", bool: "true or false", str: "a text", list: "a list, […,…]"}


@contextmanager
def explained(config: str, overrides: Sequence[str]) -> Iterator[None]:
    """Raise ``RequestError`` with a message of one line for errors of Hydra and OmegaConf inside the context.

    ``config`` is the yaml in ``conf/`` that the overrides change. Raises ``FailureError`` for a file that cannot be
    written; other exceptions pass through.
    """
    try:
        yield
    except (HydraException, OmegaConfBaseException, YAMLError) as error:
        raise RequestError(_one_line(error, config, overrides)) from error
    except OSError as error:
        if error.filename is None:
            raise
        raise FailureError(f"cannot write {error.filename}: {error.strerror}") from error


def _one_line(error: Exception, config: str, overrides: Sequence[str]) -> str:
    """The message of a configuration error, with a suggestion if a name is unknown."""
    if isinstance(error, MissingConfigException) and error.missing_cfg_file:
        return _missing(error.missing_cfg_file, error.options or ())
    if isinstance(error, OverrideParseException):
        return f"{error.override!r} cannot be read: {_advice(error.override, _own_text(error))}"
    if isinstance(error, ConfigCompositionException):
        if isinstance(error.__cause__, ValidationError):
            return _does_not_fit(error.__cause__)
        with suppress(HydraException):  # a yaml that an override chooses is wrong
            if unknown := _unknown_key(config, overrides):
                return unknown
    return _own_text(error)


def _own_text(error: Exception) -> str:
    """The error's own text as one line, without what OmegaConf and Hydra add for developers."""
    text = " ".join(str(error).split())
    for addition in (" full_key:", " See https", " Available options"):
        text = text.partition(addition)[0]
    return text


def check_choices(overrides: Sequence[Override]) -> None:
    """Raises ``RequestError`` for a group that is given anything but a name, and for a plugin that is not installed."""
    for override in overrides:
        text = str(override.input_line)
        if text in PLUGINS and find_spec(PLUGINS[text][0]) is None:
            raise RequestError(f"{text} needs an extra: {how_to_install(PLUGINS[text][1])}")
        if "." not in override.key_or_group and not override.is_delete() and not override.is_sweep_override():
            value = override.value()
            options = [] if isinstance(value, str) else names(override.key_or_group)
            if options:
                raise RequestError(f"{text}: the group {override.key_or_group} takes one name{nearest('', options)}")


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


def _unknown_key(config: str, overrides: Sequence[str]) -> str | None:
    """The message about the first override whose key does not exist, given the groups that all of them choose."""
    parsed = OverridesParser.create().parse_overrides(list(overrides))
    with initialize_config_dir(str(CONF), version_base="1.3"):
        groups = compose(config, return_hydra_config=True).hydra.runtime.choices
        groups = [group for group in groups if not group.startswith("hydra/")]
        chosen = [each for each in parsed if each.get_key_element() in groups]
        cfg = compose(config, overrides=[f"{each.get_key_element()}={_one(each)}" for each in chosen])
    keys = [key for key, _ in flat(plain(cfg, resolve=False)) if not key.endswith("._target_")]
    known = [*dict.fromkeys(key.partition(".")[0] for key in keys), *groups]
    for each in parsed:
        key = each.get_key_element()
        node = key.partition(".")[0]
        exists = key in known or any(f"{have}.".startswith(f"{key}.") for have in keys)
        if exists or each.is_add() or each.is_force_add() or node == "hydra" or key.startswith("hydra/"):
            continue
        if key == "agent":
            return (
                f"{each.input_line}: name the agents one after the other, qarena run {_one(each)} OTHER, or agents=[…]"
            )
        if of_agent := _of_agent(each, parsed):
            return of_agent
        of_node = [have for have in keys if have.startswith(f"{node}.")] if "." in key else []
        return f"key {key!r} does not exist{nearest(key, of_node or known)}"
    return None


def _of_agent(override: Override, given: Sequence[Override]) -> str | None:
    """The message about a key that is a parameter of a named agent, not of the run."""
    labels: list[str] = []
    for each in given:
        if each.get_key_element() in ("agents", "agent@a", "agent@b") and not each.is_sweep_override():
            named = each.value()
            labels += [label for label in (named if isinstance(named, list) else [named]) if isinstance(label, str)]
    for seat, label in enumerate(labels):
        name, key, text = label.partition("(")[0], override.get_key_element(), override.input_line
        if key in (*settings_of("agent", name), *LIMITS):
            of_seat = f"{'ab'[seat]}.{text} or " if len(labels) == 2 else ""
            return f"{text} is a setting of the agent {name}: write {of_seat}'{name}({key}={_one(override)})'"
    return None


def _one(override: Override) -> str:
    return next(iter(override.sweep_string_iterator())) if override.is_discrete_sweep() else str(override.value())


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
