"""The arguments of a command that Hydra carries out, the keys that its yaml explains, and messages about wrong ones.

Arguments are agents and settings, in any order. Yamls are read as text, because completion must be quick.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from decimal import Decimal
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple, get_args, get_type_hints

from hydra.core.override_parser.types import Override
from hydra.errors import HydraException, MissingConfigException, OverrideParseException
from omegaconf.errors import ConfigAttributeError, ConfigKeyError, OmegaConfBaseException, ValidationError
from yaml import YAMLError

from agents.base.parameters import format_parameter
from analytics.store.files.backend import expand_home_if_known
from analytics.store.labels import (
    AGENT_NAME,
    MAX_OVERRIDE_CHARACTERS,
    check_length_and_depth,
    format_quoting_advice,
    quote_for_hydra,
    quote_non_ascii_words,
    split_parameters,
)
from quarto.errors import Advice, FailureError, RequestError, describe_extra_installation, suggest_valid_names
from runners.config.sweep_values import keep_first_value, parse_overrides
from runners.config.yaml_options import (
    CONF_FOLDER,
    LIMIT_KEYS,
    advise_on_own_agents,
    flatten_settings,
    list_options,
    load_option,
)

LABEL_PATTERN = re.compile(rf"{AGENT_NAME.pattern}(\(.*\))?", re.DOTALL)  # an agent: NAME or NAME(parameter=value,…)
HYDRA_FUNCTION = re.compile(r"(bool|choice|float|glob|int|interval|range|shuffle|sort|str|tag)\(")  # of Hydra's grammar
PLAIN_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
TEXT_KEYS = ("root", "dir", "name", "note", "policy", "value", "where")  # keys whose values are never numbers
# A number with an exponent, such as 1e6 or 2.5e3, as a whole value or a part of a list.
EXPONENT_NUMBER = re.compile(r"(?:(?<=^)|(?<=[,\[({:=]))(\d+(?:\.\d+)?[eE]\+?\d{1,2})(?=$|[,\])}])")
# Options of Hydra's groups that an extra of ours installs: the plugin's module, and the extra.
PLUGINS = {
    "hydra/launcher=joblib": ("hydra_plugins.hydra_joblib_launcher", "joblib"),
    "hydra/launcher=ray": ("hydra_plugins.hydra_ray_launcher", "ray"),
    "hydra/launcher=submitit_local": ("hydra_plugins.hydra_submitit_launcher", "slurm"),
    "hydra/launcher=submitit_slurm": ("hydra_plugins.hydra_submitit_launcher", "slurm"),
    "hydra/sweeper=optuna": ("hydra_plugins.hydra_optuna_sweeper", "optuna"),
}
GAMES_WITH_COMMAS = re.compile(r"games=\d{1,3}(,\d{3})+")
TYPE_DESCRIPTIONS = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "a text",
    list: "a list, […,…]",
}
# A line of a yaml: its indentation, a dash, a key, its value with a comment.
YAML_LINE = re.compile(r"( *)(- )?(?:override )?/?([\w@]+):(.*)")
CLOSING_CHARACTERS = {'"': '"', "[": "]", "{": "}"}


class CommandArguments(NamedTuple):
    """The agents and the settings among the arguments of a command."""

    overrides: list[str]  # for Hydra; they include the agents and the archive
    agents: list[str]  # labels
    config_dirs: Sequence[Path]
    typed: str = ""  # the words that repeat the request, without the program's name


def parse_arguments(
    words: Sequence[str],
    archive_root: str | None = None,
    keep_going: bool = False,
    config_dirs: Sequence[Path] = (),
    typed: str = "",
    name: str | None = None,
    note: str | None = None,
) -> CommandArguments:
    """Separate the arguments of a command into agents and settings, and add the settings that its flags stand for.

    ``words`` are the arguments, and ``archive_root``, ``keep_going``, ``name`` and ``note`` are the values of flags.
    ``typed`` is the whole command, which the records of runs quote.

    Raises ``RequestError`` if agents and settings contradict each other.
    """
    for word in words:
        check_length_and_depth("the argument", word, MAX_OVERRIDE_CHARACTERS)
    labels = [word for word in words if LABEL_PATTERN.fullmatch(word)]
    overrides = [expand_and_quote_override(word) for word in words if word not in labels]
    if labels:
        overrides[:0] = _build_agent_overrides(labels, overrides)
    if archive_root is not None:
        overrides.append(f"archive.root={quote_for_hydra(archive_root)}")
    if keep_going:
        overrides.append("keep_going=true")
    for key, text in (("name", name), ("note", note)):
        if text is not None:
            overrides.append(f"{key}={quote_for_hydra(text)}")
    return CommandArguments(overrides, labels, config_dirs, typed)


def _build_agent_overrides(labels: Sequence[str], overrides: Sequence[str]) -> list[str]:
    """Build the overrides that choose the agents with these labels.

    They set the list ``agents``. If ``overrides`` include keys such as ``a.depth`` or ``b.depth``, they set the groups
    ``agent@a`` and ``agent@b`` instead.

    Raises ``RequestError`` for such a key unless there are exactly two agents.
    """
    seat_overrides = [override for override in overrides if override.startswith(("a.", "b."))]
    if seat_overrides and len(labels) != 2:
        key, _, value = seat_overrides[0][2:].partition("=")
        name = labels[0].partition("(")[0]
        raise RequestError(
            f"{seat_overrides[0]}: a and b are two agents; of one, or of many, write '{name}({key}={value})'"
        )
    if not seat_overrides:
        entries = (
            label if PLAIN_NAME.fullmatch(label) else quote_for_hydra(expand_and_quote_override(label))
            for label in labels
        )
        return [f"agents=[{','.join(entries)}]"]
    agent_overrides = []
    for seat, label in zip("ab", labels, strict=True):
        name, _, parameters = label.partition("(")
        agent_overrides.append(f"agent@{seat}={quote_non_ascii_words(name)}")
        agent_overrides += [
            f"{seat}.{expand_and_quote_override(parameter)}"
            for parameter in split_parameters(parameters.removesuffix(")"))
        ]
    return agent_overrides


def expand_and_quote_override(override: str) -> str:
    """Prepare an override for Hydra: write numbers such as ``games=1e6`` in full, and quote labels and paths.

    A path that begins with ``~`` is expanded first. Quoted text remains unchanged.
    """
    key, equals, value = override.partition("=")
    if value.startswith("~") and "," not in value:
        return key + equals + quote_for_hydra(str(expand_home_if_known(value)))
    if "'" in value or '"' in value or key.rpartition(".")[2] in TEXT_KEYS:
        return key + equals + quote_non_ascii_words(value)
    value = EXPONENT_NUMBER.sub(_expand_exponent, value)
    is_label = value.endswith(")") and LABEL_PATTERN.fullmatch(value) and not HYDRA_FUNCTION.match(value)
    return key + equals + (quote_for_hydra(value) if is_label else quote_non_ascii_words(value))


def _expand_exponent(match: re.Match[str]) -> str:
    number = Decimal(match[1])
    return str(int(number)) if number == int(number) else match[1]


class ConfigKey(NamedTuple):
    """A key of a configuration or of an option in a group, with what its yaml says about it."""

    name: str  # dotted
    default: str  # "" for a mapping, whose keys follow
    meaning: str
    is_group: bool = False  # the key is in the defaults list
    kind: type = str
    limits: str = ""  # the range of a number
    choices: Sequence[str] = ()


def parse_yaml_keys(yaml_text: str) -> Iterator[ConfigKey]:
    """Yield the keys of a yaml in their order, with their default values and meanings.

    Their types, limits and choices are not yet known.
    """
    path: list[tuple[int, str]] = []
    for match in filter(None, map(YAML_LINE.fullmatch, yaml_text.splitlines())):
        indent, dash, key = len(match[1]), match[2], match[3]
        value, meaning = _split_comment(match[4].strip(" "))
        path = [(depth, parent) for depth, parent in path if depth < indent]
        name = ".".join([*(parent for _, parent in path), key])
        if dash:
            yield ConfigKey(key, value, meaning, is_group=True)
        elif key not in ("defaults", "_target_"):
            path += [] if value else [(indent, key)]
            yield ConfigKey(f"{name}.KEY" if value.startswith("{") else name, value, meaning)


def _split_comment(text: str) -> tuple[str, str]:
    """Split the text that follows a key in a yaml into the value and the comment, which may be empty."""
    start = max(0, text.find(CLOSING_CHARACTERS[text[0]], 1)) if text[:1] in CLOSING_CHARACTERS else 0
    value, _, comment = text[start:].partition("#")
    return (text[:start] + value).rstrip(" "), comment.removeprefix(" ")


def check_groups_plugins_and_games(config_name: str, overrides: Sequence[Override]) -> None:
    """Check the overrides for wrong groups, options, plugins and numbers of games.

    ``config_name`` is the name of the command's yaml, which lists its groups. Raises ``RequestError`` for a group that
    the command does not have, for a group whose chosen option is not a name, for a plugin that is not installed, and
    for a number of games written with commas.
    """
    groups = [
        key.name
        for key in parse_yaml_keys((CONF_FOLDER / f"{config_name}.yaml").read_text(encoding="utf-8"))
        if key.is_group
    ]
    for override in overrides:
        text, key = str(override.input_line), override.get_key_element()
        if text in PLUGINS and find_spec(PLUGINS[text][0]) is None:
            raise RequestError(f"{text} needs an extra: {describe_extra_installation(PLUGINS[text][1])}")
        if GAMES_WITH_COMMAS.fullmatch(text):
            plain = text.replace(",", "")
            raise RequestError(f"{text} is several values: write {plain}, or {plain[:-3]}_{plain[-3:]}")
        options = [] if "." in key or "/" in key else list_options(override.key_or_group)
        if key == "agent":
            name = keep_first_value(override).partition("=")[2]
            advice = "name the agents one after the other"
            raise RequestError(
                Advice(text, f"{advice}, qarena run {name} OTHER, or agents=[…]", f"{advice}, run({name!r}, 'OTHER')")
            )
        if options and key not in groups and not (override.is_delete() or override.is_add()):
            raise RequestError(f"key {key!r} does not exist{suggest_valid_names(key, groups)}")
        if options and not (override.is_delete() or override.is_sweep_override() or isinstance(override.value(), str)):
            raise RequestError(
                f"{text}: the group {override.key_or_group} takes one name{suggest_valid_names('', options)}"
            )


@contextmanager
def explain_config_errors(overrides: Sequence[str]) -> Iterator[None]:
    """Inside the context, convert errors of Hydra and OmegaConf to ``RequestError`` with a one-line message.

    The error for a file that cannot be written becomes a ``FailureError``. Any other exception passes through.
    """
    try:
        yield
    except (HydraException, OmegaConfBaseException, YAMLError) as error:
        raise RequestError(format_config_error(error, overrides)) from error
    except OSError as error:
        if error.filename is None:
            raise
        raise FailureError(f"cannot write {error.filename}: {error.strerror}") from error


def format_config_error(error: Exception, overrides: Sequence[str]) -> str:
    """Format a configuration error as one line. If a name is unknown, the line suggests similar names."""
    cause = error.__cause__
    if isinstance(error, MissingConfigException) and error.missing_cfg_file:
        return _describe_missing_option(error.missing_cfg_file, error.options or ())
    if isinstance(error, OverrideParseException):
        remedy = _describe_syntax_remedy(error.override, _strip_developer_hints(error))
        return f"{error.override!r} cannot be read: {remedy}"
    if isinstance(mismatch := cause or error, ValidationError):
        return _describe_type_mismatch(mismatch)
    if isinstance(cause, ConfigAttributeError | ConfigKeyError):
        return _describe_unknown_key(cause, parse_overrides(overrides))
    return _strip_developer_hints(error)


def _strip_developer_hints(error: Exception) -> str:
    """Return the message of an error as one line, without the hints for developers that OmegaConf and Hydra add."""
    text = " ".join(str(error).split())
    for addition in (" full_key:", " See https", " Available options"):
        text = text.partition(addition)[0]
    return text


def _describe_missing_option(file: str, options: Sequence[str]) -> str:
    """Describe the error that a configuration group does not have the chosen option.

    ``file`` is the option's missing yaml, and ``options`` are the valid options.
    """
    group, _, name = file.removesuffix(".yaml").rpartition("/")
    if group.partition("/")[0] == "archive":
        folder = f"{group}/{name}".partition("/")[2]
        name = "name the archive's folder"
        return Advice(f"archive={folder}", f"{name} by --archive {folder}", f"{name}, archive={folder!r}")
    text = f"{group or 'config'} {name!r} does not exist{suggest_valid_names(name, options)}"
    return advise_on_own_agents(text) if group == "agent" else text


def _describe_type_mismatch(error: ValidationError) -> str:
    """Describe the error that a value does not have the type that its key requires."""
    value = format_parameter(error.value)
    hint: Any = get_type_hints(error.object_type).get(error.key) if isinstance(error.object_type, type) else None
    kinds = [TYPE_DESCRIPTIONS.get(getattr(option, "__origin__", option)) for option in (get_args(hint) or [hint])]
    expected = " or ".join(kind for kind in kinds if kind) or _strip_developer_hints(error)
    return f"{error.full_key}={value}: {value!r} is not {expected}"


def _describe_unknown_key(error: ConfigAttributeError | ConfigKeyError, overrides: Sequence[Override]) -> str:
    """Describe the error that a key does not exist. If the key is a parameter of a chosen agent, say how to set it."""
    name = str(error.full_key)
    labels = [label for override in overrides for label in _list_agent_labels(override)]
    for typed in (override for override in overrides if override.get_key_element() == name):
        for seat, label in enumerate(labels):
            agent = label.partition("(")[0]
            if name in (*load_option("agent", agent), *LIMIT_KEYS):
                text = f"{typed.input_line} is a setting of the agent {agent}"
                full_label = f"{agent}({keep_first_value(typed)})"
                of_seat = f"{'ab'[seat]}.{typed.input_line}" if len(labels) == 2 else ""
                forms = [f'overrides=["{of_seat}"]'] if of_seat else []
                forms += [] if typed.is_sweep_override() and forms else [f"the label {full_label!r}"]
                return Advice(
                    text, f"write {of_seat and f'{of_seat} or '}'{full_label}'", f"write {' or '.join(forms)}"
                )
        if advice := _advise_on_key_of_option(typed, overrides):
            return advice
    prefix = name.removesuffix(str(error.key))
    valid = [f"{prefix}{key}" for key in error.parent_node or () if key not in ("hydra", "_target_")]
    return f"key {name!r} does not exist{suggest_valid_names(name, valid)}"


def _advise_on_key_of_option(typed: Override, overrides: Sequence[Override]) -> Advice | None:
    """Say how to set a key of the chosen trainer or kind of policies, if ``typed`` has such a key, or return None."""
    for override in overrides:
        group = override.get_key_element()
        if group not in ("trainer", "kind") or not isinstance(option := override.value(), str):
            continue
        for key, _ in flatten_settings(load_option(group, option)):
            if key.rpartition(".")[2] == typed.get_key_element():
                setting = f"{group}.{key}={str(typed.input_line).partition('=')[2]}"
                text = f"{typed.input_line} is a setting of the {group} {option}"
                return Advice(text, f"write {setting}", f"write overrides=[{setting!r}]")
    return None


def _list_agent_labels(override: Override) -> list[str]:
    """List the labels of the agents that an override chooses."""
    if override.get_key_element() not in ("agents", "agent@a", "agent@b") or override.is_sweep_override():
        return []
    value = override.value()
    return [label for label in (value if isinstance(value, list) else [value]) if isinstance(label, str)]


def _describe_syntax_remedy(override: str, message: str) -> str:
    """Return advice on how to correct an override that Hydra cannot parse; ``message`` is Hydra's error message."""
    if "=" not in override:
        return "it is neither key=value nor an agent, NAME or 'NAME(parameter=value,…)'"
    if override.startswith("agents=") and "(" in override:
        return "name agents with parameters before the settings, qarena run random 'rule_based(faithful=true)'"
    if override.startswith("where="):
        return f'give a condition as an option, --where "{override.removeprefix("where=")}"'
    if override.count("(") > override.count(")"):
        return "a closing bracket is missing, and the shell needs quotes around brackets: 'mcts(iterations=5)'"
    if "=~" in override:
        return "'~' begins a path here only if it is the whole value; write $HOME in a list"
    if "=" in override.partition("=")[2]:
        return f"{message}; {format_quoting_advice(override, in_shell=True)}"
    return f"{message}; quote brackets and spaces for the shell"
