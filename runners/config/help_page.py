"""The help of commands that Hydra carries out, built like the reference page from the comments of the yamls.

Typer renders it: each key becomes an argument of a command that exists only to be shown.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from inspect import Parameter, Signature
from itertools import takewhile
from typing import Annotated, Any, NamedTuple, get_args, get_origin, get_type_hints

import typer
import yaml
from msgspec import Meta
from typer.core import TyperCommand

from runners.config.application import Application
from runners.config.arguments import CommandArguments, ConfigKey, parse_yaml_keys
from runners.config.schemas import ArchiveConfig
from runners.config.yaml_options import CONF_FOLDER, NON_PARAMETER_KEYS, list_options, read_option_text


class YamlHeader(NamedTuple):
    """The comment at the beginning of a yaml."""

    purpose: str
    examples: list[str]  # commands


ENVIRONMENT_DEFAULT = re.compile(r"\$\{oc\.env:\w+,(.*)\}")  # a value that an environment variable may replace
GROUP_EXAMPLES = {"agent@a": "mcts", "trainer": "trainer=q_table", "kind": "kind=gift"}  # by a group of the command
# Of ``AgentLimits``, whose import would take a second.
LIMIT_TYPES = {"turn_seconds": float, "game_seconds": float, "megabytes": int, "processes": int}
AGENTS_SENTENCE = "An agent is NAME or 'NAME(parameter=value,…)'; `qarena agents` lists them."
SWEEP_HEADER = YamlHeader(
    "A run for each combination of the values, KEY=VALUE,VALUE,…, and a table of all. Hydra calls a run here a job.",
    [
        "qarena sweep semi_random random opening_plies=0,2,4 rules=classic,square",
        "qarena sweep agent@a=mcts a.iterations=100,400 agent@b=rule_based games=1000",
        "qarena sweep hydra/launcher=joblib threads=1 semi_random random seed=1,2,3",
    ],
)


def parse_yaml_keys_with_types(yaml_text: str, schema: Any = None) -> Iterator[ConfigKey]:
    """Yield the keys of a yaml with their types and choices.

    The dataclass ``schema`` may declare them. The type of any other key is that of its default value.
    """
    for key in parse_yaml_keys(yaml_text):
        if key.is_group:
            yield key._replace(choices=[] if key.name == "agent@b" else list_options(key.name.partition("@")[0]))
        else:
            yield _add_type(key, schema) if key.default else key


def _add_type(key: ConfigKey, schema: Any) -> ConfigKey:
    """Return a copy of ``key`` with its type, range and choices.

    They come from the dataclass ``schema`` or, if this declares none, from the type of the key's default value.
    """
    hint: Any = schema
    for name in key.name.split("."):
        hint = get_type_hints(hint, include_extras=True).get(name) if isinstance(hint, type) else None
    constraints = get_args(hint)[1:] if get_origin(hint) is Annotated else ()
    types = (get_args(hint)[0], *get_args(get_args(hint)[0])) if constraints else (hint, *get_args(hint))
    if hint is None or hint is Any:
        types = (LIMIT_TYPES.get(key.name.removeprefix("a.")) or type(yaml.safe_load(key.default)),)
    choices = next((constraint for constraint in constraints if isinstance(constraint, tuple)), ())
    bounds = [] if choices else [constraint for constraint in constraints if isinstance(constraint, Meta)]
    ranges = [
        f"{bound.ge} to {bound.le}" if bound.le and bound.le < 1 << 32 else f"at least {bound.ge}" for bound in bounds
    ]
    kind = next((kind for kind in (bool, int, float) if kind in types), str)
    return key._replace(kind=kind, limits=", ".join(ranges), choices=choices)


def _read_optional_number_types(option_yaml: str) -> dict[str, type]:
    """Read the types of the numbers that the class under ``_target_`` takes, by parameter, without importing the class.

    A default of null says nothing about the type. The result is empty for a class that is not the project's own.
    """
    target = re.search(r"^_target_: (\S+)\.(\w+)", option_yaml, re.MULTILINE)
    path = CONF_FOLDER.parent / f"{target[1].replace('.', '/')}.py" if target else CONF_FOLDER
    nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if path.is_file() else ()
    classes = [node for node in nodes if isinstance(node, ast.ClassDef) and target and node.name == target[2]]
    return {
        argument.arg: kind
        for class_ in classes
        for method in class_.body
        if isinstance(method, ast.FunctionDef) and method.name == "__init__"
        for argument in method.args.args
        for kind in (int, float)
        if argument.annotation and ast.unparse(argument.annotation) == f"{kind.__name__} | None"
    }


def parse_yaml_header(yaml_text: str) -> YamlHeader:
    """Parse the comment at the beginning of a yaml into the purpose and the example commands."""
    lines = [line.strip("# ") for line in takewhile(lambda line: line.startswith("#"), yaml_text.splitlines())]
    examples = [line for line in lines if line.startswith("qarena ")]
    purpose = " ".join(line for line in lines if line not in examples and not line.startswith("@package"))
    return YamlHeader(purpose, examples)


def list_archive_keys() -> list[ConfigKey]:
    """List the keys of the configuration group ``archive``, with their types."""
    keys = parse_yaml_keys_with_types(read_option_text("archive", "default"), ArchiveConfig)
    return [key._replace(name=f"archive.{key.name}") for key in keys]


class _HelpPageCommand(TyperCommand):
    """A command that exists only to show a help page; its usage line does not list every key."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:  # noqa: ARG002
        return [self.options_metavar or ""]


def print_help(application: Application, context: typer.Context, arguments: CommandArguments) -> None:
    """Print the help of a command. The keys of agents and options that the arguments name come first."""
    command = context.command_path.partition(" ")[2]
    text = (CONF_FOLDER / f"{application.config_name}.yaml").read_text(encoding="utf-8")
    keys = [key for key in parse_yaml_keys_with_types(text, application.schema) if key.default]
    groups = [key.name for key in keys if key.is_group]
    header = parse_yaml_header(text) if command != "sweep" else SWEEP_HEADER
    agents = "[AGENT]… " if "agent@a" in groups else ""
    paragraphs = [header.purpose, *([AGENTS_SENTENCE] if agents else [])]
    panel_keys = list[tuple[str, ConfigKey]]()
    for option in _list_chosen_options(groups, arguments):
        option_text = read_option_text(option.group, option.name)
        paragraphs.append(f"`{option.name}`: {parse_yaml_header(option_text).purpose}")
        title = f"Keys of {option.group} {option.name}: {option.key_form}"
        hints = _read_optional_number_types(option_text)
        option_keys = [
            key._replace(kind=hints.get(key.name, key.kind)) for key in parse_yaml_keys_with_types(option_text)
        ]
        panel_keys += [(title, key) for key in option_keys if key.name not in NON_PARAMETER_KEYS and key.default]
    if not panel_keys:
        commands = (f"`qarena {command} {GROUP_EXAMPLES[group]} --help`" for group in groups if group in GROUP_EXAMPLES)
        paragraphs.append(f"A name before `--help` adds its keys: {', '.join(commands)}.")
    sorted_keys = sorted([*keys, *list_archive_keys()], key=lambda key: ("." in key.name, key.is_group))
    panel_keys += [(_format_panel_title(key), key) for key in sorted_keys]
    help_page = _HelpPageCommand(
        command,
        params=[
            *_build_help_arguments(panel_keys),
            *(param for param in context.command.params if param.param_type_name == "option"),
        ],
        options_metavar=f"{agents}[KEY=VALUE]… [GROUP=NAME]… [OPTIONS]",
        help="\n\n".join([*paragraphs, "Examples:", "\n".join(f"    {example}" for example in header.examples)]),
        rich_markup_mode="markdown",
        add_help_option=False,
    )
    typer.echo(help_page.get_help(context))


def _format_panel_title(key: ConfigKey) -> str:
    """Return the title of the panel that shows a key of the command."""
    prefix, dot, _ = key.name.partition(".")
    return "Groups: GROUP=NAME" if key.is_group else f"Keys of {prefix}" if dot else "Keys: KEY=VALUE"


class _ChosenOption(NamedTuple):
    """An option of a configuration group that the arguments of a command choose."""

    group: str
    name: str
    key_form: str  # how a user sets one of its keys


def _list_chosen_options(groups: Sequence[str], arguments: CommandArguments) -> Iterator[_ChosenOption]:
    """Yield the options of ``groups`` that the arguments choose, the agents first."""
    for label in arguments.agents:
        name = label.partition("(")[0]
        yield _ChosenOption("agent", name, f"'{name}(KEY=VALUE,…)'")
    for group, _, name in (override.partition("=") for override in arguments.overrides):
        if group in groups:
            yield _ChosenOption(group.partition("@")[0], name, f"{group.partition('@')[2] or group}.KEY=VALUE")


def _build_help_arguments(panel_keys: Sequence[tuple[str, ConfigKey]]) -> list[Any]:
    """Build a Typer argument for each key. Typer shows the argument in the panel with the given title."""

    def command() -> None:
        """Do nothing, because Typer only reads the signature."""

    parameters = []
    for number, (panel, key) in enumerate(panel_keys):
        unmentioned_choices = key.choices if any(choice not in key.meaning for choice in key.choices) else ()
        text = "; ".join(filter(None, (key.meaning, ", ".join(unmentioned_choices), key.limits)))
        default = None if key.default.startswith("{") else ENVIRONMENT_DEFAULT.sub(r"\1", key.default)
        argument = typer.Argument(default, metavar=key.name, help=text, rich_help_panel=panel)
        parameters.append(Parameter(f"key_{number}", Parameter.KEYWORD_ONLY, default=argument, annotation=key.kind))
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    command.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    app = typer.Typer(add_completion=False)
    app.command()(command)
    return list(typer.main.get_command(app).params)
