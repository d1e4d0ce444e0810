"""The help of commands that Hydra carries out, made from the comments of the yamls, as the reference page is."""

from __future__ import annotations

import itertools
import re
import shutil
import textwrap
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, NamedTuple, get_args, get_origin, get_type_hints

import yaml
from msgspec import Meta

from runners.arena.config_groups import CONF, NOT_PARAMETERS, names, text_of
from runners.arena.schemas import ArchiveConfig
from runners.hydra_app.application import Application
from runners.hydra_app.arguments import FLAGS, Arguments
from runners.hydra_app.error_messages import KINDS

# A line of a yaml: its indentation, a dash, a key, its value, a comment.
LINE = re.compile(r"""( *)(- )?(?:override )?/?([\w@]+): *("[^"]*"|\[.*?\]|\{.*?\}|[^#]*?) *(?:# ?(.*))?""")
EXAMPLE = "qarena "
ENVIRONMENT = re.compile(r"\$\{oc\.env:\w+,(.*)\}")  # a value that an environment variable may replace
WIDEST = 110


class Key(NamedTuple):
    """A key of a configuration or of an option of a group, as its yaml explains it."""

    name: str  # dotted
    default: str  # "" for a mapping, whose keys follow
    meaning: str
    kind: str = ""  # its type and its range
    is_group: bool = False
    choices: Sequence[str] = ()


def introduction(text: str) -> tuple[str, list[str]]:
    """What a yaml is for, and the commands of its examples, from its first comment."""
    lines = [line.strip("# ") for line in itertools.takewhile(lambda line: line.startswith("#"), text.splitlines())]
    examples = [line for line in lines if line.startswith(EXAMPLE)]
    return " ".join(line for line in lines if line not in examples and not line.startswith("@package")), examples


def keys_in(text: str, schema: Any = None) -> Iterator[Key]:
    """The keys of a yaml in their order; those of its defaults list are groups. ``schema`` declares types, if any."""
    path: list[tuple[int, str]] = []
    for found in filter(None, map(LINE.fullmatch, text.splitlines())):
        indent, dash, key, value, meaning = len(found[1]), found[2], found[3], found[4], found[5] or ""
        path = [each for each in path if each[0] < indent]
        name = ".".join([*(each for _, each in path), key])
        if dash:
            yield Key(
                key, value, meaning, is_group=True, choices=[] if key == "agent@b" else names(key.partition("@")[0])
            )
        elif not value and name != "defaults":
            path.append((indent, key))
            yield Key(name, "", meaning)
        elif value and key not in ("defaults", "_target_"):
            yield _typed(Key(name, value, meaning), schema)


def _typed(key: Key, schema: Any) -> Key:
    """The key with its type and choices, as the schema declares them or as its default is."""
    hint: Any = None
    for part in key.name.split(".") if schema else ():
        hint = get_type_hints(schema, include_extras=True).get(part) if isinstance(schema, type) else None
        schema = hint
    if hint is None or hint is Any:
        value = yaml.safe_load(key.default)
        return key._replace(kind="" if isinstance(value, str | list) else KINDS.get(type(value), ""))
    declared = get_args(hint)[1:] if get_origin(hint) is Annotated else ()
    choices = next((each for each in declared if isinstance(each, tuple)), ())
    ranges = "".join(_range(each) for each in declared if isinstance(each, Meta))
    return key._replace(kind="" if choices else f"{_described(hint)}{ranges}", choices=choices)


def _described(hint: Any) -> str:
    """A type in words; nothing for a text."""
    if get_origin(hint) is Annotated:
        return _described(get_args(hint)[0])
    if str in (hint, *get_args(hint)):
        return ""
    kinds = [KINDS[origin] for each in (hint, *get_args(hint)) if (origin := get_origin(each) or each) in KINDS]
    return " or ".join([*kinds[:1], *(["null"] if type(None) in get_args(hint) else [])])


def _range(declared: Meta) -> str:
    if declared.ge is not None and declared.le is not None and declared.le < 1 << 32:
        return f", {declared.ge} to {declared.le}"
    return f", at least {declared.ge}" if declared.ge is not None else ""


def help_text(application: Application[Any], command: str, asked: Arguments) -> str:
    """The help of a command; the keys of the options that its arguments choose are explained too."""
    text = (CONF / f"{application.config}.yaml").read_text(encoding="utf-8")
    said, examples = introduction(text)
    if command == "sweep":
        said = "Hydra's multirun: one job for each combination of the given values, and a table of all jobs."
        examples = [*SWEEPS]
    keys = list(keys_in(text, application.schema))
    has_agents = any(key.name == "agents" for key in keys)
    groups = [key for key in keys if key.is_group]
    return "\n".join(
        [
            f"Usage: qarena {command} {'[AGENT]… ' if has_agents else ''}[KEY=VALUE]… [GROUP=NAME]… [OPTIONS]",
            "",
            *textwrap.wrap(said, _width()),
            *([AGENTS] if has_agents else []),
            *("", "Examples:", *(f"  {each}" for each in examples)),
            *_chosen(groups, asked),
            *("", "Groups (GROUP=NAME):", *_rows(groups)),
            *("", "Keys (KEY=VALUE):", *_rows([key for key in keys if not key.is_group and key.default])),
            *_rows([key._replace(name=f"archive.{key.name}") for key in archive_keys()]),
            *("", "Options:", *_flag_rows()),
        ]
    )


AGENTS = "An agent is NAME or 'NAME(parameter=value,…)'; `qarena agents` lists them."
SWEEPS = (
    "qarena sweep semi_random random opening_plies=0,2,4 rules=classic,square games=20000",
    "qarena sweep agent@a=mcts a.iterations=100,200,400 agent@b=rule_based games=1000",
    "qarena sweep hydra/launcher=joblib threads=1 semi_random random seed=1,2,3,4 games=20000",
)


def archive_keys() -> list[Key]:
    """The keys of the group ``archive``."""
    return list(keys_in(text_of("archive", "default"), ArchiveConfig))


def _chosen(groups: Sequence[Key], asked: Arguments) -> Iterator[str]:
    """The keys of the agents and of the other options that the arguments name."""
    chosen = [("agent", label.partition("(")[0], "") for label in asked.agents]
    for override in asked.overrides:
        group, _, value = override.partition("=")
        if any(key.name == group for key in groups):
            chosen.append((group.partition("@")[0], value, f"{group.partition('@')[2] or group}."))
    if not chosen and groups:
        yield from ("", "The keys of an option: name it before --help, as in " + EXAMPLES_OF_OPTIONS)
    for group, name, prefix in dict.fromkeys(chosen):
        text = text_of(group, name)
        keys = [key for key in keys_in(text) if key.name not in NOT_PARAMETERS and key.default]
        how = f"{prefix}KEY=VALUE" if prefix else f"'{name}(KEY=VALUE,…)'"
        yield from ("", *textwrap.wrap(f"{group} {name}: {introduction(text)[0]}", _width()))
        yield from (f"Its keys, {how}:", *_rows(keys)) if keys else ("It has no keys.",)


EXAMPLES_OF_OPTIONS = "qarena run mcts --help, qarena train trainer=q_table --help"


def _flag_rows() -> Iterator[str]:
    for flags, options in FLAGS.items():
        value = options.get("metavar") or "|".join(options.get("choices", ()))
        yield from _row(" ".join([*[", ".join(flags)], *([value] if value else [])]), str(options["help"]))


def _rows(keys: Sequence[Key]) -> Iterator[str]:
    for key in keys:
        details = [", ".join(key.choices), key.kind]
        default = ENVIRONMENT.sub(r"\1", key.default)
        name = f"{key.name}.KEY" if default.startswith("{") else f"{key.name}={default}"
        yield from _row(name, _joined([key.meaning, *details]))


def _joined(parts: Sequence[str]) -> str:
    said, *details = parts
    shown = "; ".join(each for each in details if each)
    return f"{said} ({shown})" if said and shown else said or shown


def _row(name: str, text: str) -> Iterator[str]:
    """A name and its text, which begins in a column of its own."""
    margin = 28
    lines = textwrap.wrap(text, _width() - margin, break_on_hyphens=False) or [""]
    if len(name) > margin - 4:
        yield f"  {name}"
    else:
        yield f"  {name:<{margin - 2}}{lines.pop(0)}".rstrip()
    yield from (" " * margin + line for line in lines)


def _width() -> int:
    return min(WIDEST, shutil.get_terminal_size().columns)
