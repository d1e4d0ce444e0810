"""The help of commands that Hydra carries out, made from the comments of the yamls, as the reference page is.

Typer shows it: each key is an argument of a command that exists only for that.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from inspect import Parameter, Signature
from itertools import takewhile
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import typer
import yaml
from msgspec import Meta
from typer.core import TyperCommand

from runners.config.application import Application
from runners.config.arguments import CommandArguments, ConfigKey, parse_yaml_keys
from runners.config.schemas import ArchiveConfig
from runners.config.yaml_options import CONF_FOLDER, NON_PARAMETER_KEYS, list_options, read_option_text

ENVIRONMENT_DEFAULT = re.compile(r"\$\{oc\.env:\w+,(.*)\}")  # a value that an environment variable may replace
GROUP_EXAMPLES = {"agent@a": "mcts", "trainer": "trainer=q_table", "kind": "kind=gift"}  # by a group of the command
AGENTS_SENTENCE = "An agent is NAME or 'NAME(parameter=value,…)'; `qarena agents` lists them."
SWEEP_INTRODUCTION = (
    "A run for each combination of the values, KEY=VALUE,VALUE,…, and a table of all. Hydra calls a run here a job.",
    [
        "qarena sweep semi_random random opening_plies=0,2,4 rules=classic,square",
        "qarena sweep agent@a=mcts a.iterations=100,400 agent@b=rule_based games=1000",
        "qarena sweep hydra/launcher=joblib threads=1 semi_random random seed=1,2,3",
    ],
)


def parse_yaml_keys_with_types(yaml_text: str, schema: Any = None) -> Iterator[ConfigKey]:
    """The keys of a yaml with their types and choices. ``schema`` declares types, if any."""
    for key in parse_yaml_keys(yaml_text):
        if key.is_group:
            yield key._replace(choices=[] if key.name == "agent@b" else list_options(key.name.partition("@")[0]))
        else:
            yield _add_type(key, schema) if key.default else key


def _add_type(key: ConfigKey, schema: Any) -> ConfigKey:
    """The key with its type, range and choices, as the schema declares them or as its default is."""
    hint: Any = schema
    for part in key.name.split("."):
        hint = get_type_hints(hint, include_extras=True).get(part) if isinstance(hint, type) else None
    declared = get_args(hint)[1:] if get_origin(hint) is Annotated else ()
    types = (get_args(hint)[0], *get_args(get_args(hint)[0])) if declared else (hint, *get_args(hint))
    if hint is None or hint is Any:
        types = (type(yaml.safe_load(key.default)),)
    choices = next((each for each in declared if isinstance(each, tuple)), ())
    ranges = (
        []
        if choices
        else [
            f"{each.ge} to {each.le}" if each.le and each.le < 1 << 32 else f"at least {each.ge}"
            for each in declared
            if isinstance(each, Meta)
        ]
    )
    kind = next((kind for kind in (bool, int, float) if kind in types), str)
    return key._replace(kind=kind, limits=", ".join(ranges), choices=choices)


def parse_purpose_and_examples(yaml_text: str) -> tuple[str, list[str]]:
    """The purpose of a yaml and the commands of its examples, from its first comment."""
    lines = [line.strip("# ") for line in takewhile(lambda line: line.startswith("#"), yaml_text.splitlines())]
    examples = [line for line in lines if line.startswith("qarena ")]
    return " ".join(line for line in lines if line not in examples and not line.startswith("@package")), examples


def list_archive_keys() -> list[ConfigKey]:
    """The keys of the group ``archive``."""
    keys = parse_yaml_keys_with_types(read_option_text("archive", "default"), ArchiveConfig)
    return [key._replace(name=f"archive.{key.name}") for key in keys]


class _HelpPageCommand(TyperCommand):
    """A command that is only shown. Its usage does not name each key."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:  # noqa: ARG002
        return [self.options_metavar or ""]


def print_help(application: Application, context: typer.Context, arguments: CommandArguments) -> None:
    """Print the help of a command; the keys of the agents and options that its arguments name come first."""
    command = context.command_path.partition(" ")[2]
    text = (CONF_FOLDER / f"{application.config_name}.yaml").read_text(encoding="utf-8")
    keys = [key for key in parse_yaml_keys_with_types(text, application.schema) if key.default]
    groups = [key.name for key in keys if key.is_group]
    said, examples = parse_purpose_and_examples(text) if command != "sweep" else SWEEP_INTRODUCTION
    agents = "[AGENT]… " if "agent@a" in groups else ""
    paragraphs = [said, *([AGENTS_SENTENCE] if agents else [])]
    shown = list[tuple[str, ConfigKey]]()
    for group, name, how in _list_chosen_options(groups, arguments):
        own = read_option_text(group, name)
        paragraphs.append(f"`{name}`: {parse_purpose_and_examples(own)[0]}")
        found = (key for key in parse_yaml_keys_with_types(own) if key.name not in NON_PARAMETER_KEYS and key.default)
        shown += [(f"Keys of {group} {name}: {how}", key) for key in found]
    if not shown:
        named = (f"`qarena {command} {GROUP_EXAMPLES[group]} --help`" for group in groups if group in GROUP_EXAMPLES)
        paragraphs.append(f"A name before `--help` adds its keys: {', '.join(named)}.")
    in_order = sorted([*keys, *list_archive_keys()], key=lambda key: ("." in key.name, key.is_group))
    shown += [(_format_panel_title(key), key) for key in in_order]
    help_page = _HelpPageCommand(
        command,
        params=[
            *_build_help_arguments(shown),
            *(each for each in context.command.params if each.param_type_name == "option"),
        ],
        options_metavar=f"{agents}[KEY=VALUE]… [GROUP=NAME]… [OPTIONS]",
        help="\n\n".join([*paragraphs, "Examples:", "\n".join(f"    {each}" for each in examples)]),
        rich_markup_mode="markdown",
        add_help_option=False,
    )
    typer.echo(help_page.get_help(context))


def _format_panel_title(key: ConfigKey) -> str:
    """The title of the panel of a key of the command."""
    prefix, dot, _ = key.name.partition(".")
    return "Groups: GROUP=NAME" if key.is_group else f"Keys of {prefix}" if dot else "Keys: KEY=VALUE"


def _list_chosen_options(groups: Sequence[str], arguments: CommandArguments) -> Iterator[tuple[str, str, str]]:
    """The options of groups that the arguments choose: the group, the name, and the way to write its keys."""
    for label in arguments.agents:
        name = label.partition("(")[0]
        yield "agent", name, f"'{name}(KEY=VALUE,…)'"
    for group, _, name in (override.partition("=") for override in arguments.overrides):
        if group in groups:
            yield group.partition("@")[0], name, f"{group.partition('@')[2] or group}.KEY=VALUE"


def _build_help_arguments(panel_keys: Sequence[tuple[str, ConfigKey]]) -> list[Any]:
    """Keys as arguments, which Typer shows in panels with these titles."""

    def command() -> None:
        """Do nothing: Typer reads the signature."""

    parameters = []
    for at, (panel, key) in enumerate(panel_keys):
        unsaid = key.choices if any(choice not in key.meaning for choice in key.choices) else ()
        text = "; ".join(filter(None, (key.meaning, ", ".join(unsaid), key.limits)))
        default = None if key.default.startswith("{") else ENVIRONMENT_DEFAULT.sub(r"\1", key.default)
        shown_as = typer.Argument(default, metavar=key.name, help=text, rich_help_panel=panel)
        parameters.append(Parameter(f"key_{at}", Parameter.KEYWORD_ONLY, default=shown_as, annotation=key.kind))
    command.__annotations__ = {each.name: each.annotation for each in parameters}
    command.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    app = typer.Typer(add_completion=False)
    app.command()(command)
    return list(typer.main.get_command(app).params)
