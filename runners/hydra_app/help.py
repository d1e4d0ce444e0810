"""The help of commands that Hydra carries out, made from the comments of the yamls, as the reference page is."""

from __future__ import annotations

import re
import shutil
import textwrap
from collections.abc import Iterator, Sequence
from itertools import takewhile
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import yaml

from runners.arena.config_groups import CONF, NOT_PARAMETERS, ArchiveConfig, names, text_of
from runners.hydra_app.application import Application
from runners.hydra_app.arguments import FLAGS, KINDS, Arguments, Key, keys_in

ENVIRONMENT = re.compile(r"\$\{oc\.env:\w+,(.*)\}")  # a value that an environment variable may replace
WIDEST = 110


def explained_keys(text: str, schema: Any = None) -> Iterator[Key]:
    """The keys of a yaml with their types and choices. ``schema`` declares types, if any."""
    for key in keys_in(text):
        if key.is_group:
            yield key._replace(choices=[] if key.name == "agent@b" else names(key.name.partition("@")[0]))
        else:
            yield _typed(key, schema) if key.default else key


def _typed(key: Key, schema: Any) -> Key:
    """The key with its type and choices, as the schema declares them or as its default is."""
    hint: Any = schema
    for part in key.name.split("."):
        hint = get_type_hints(hint, include_extras=True).get(part) if isinstance(hint, type) else None
    if hint is None or hint is Any:
        value = yaml.safe_load(key.default)
        return key._replace(kind="" if isinstance(value, str | list) else KINDS.get(type(value), ""))
    declared = get_args(hint)[1:] if get_origin(hint) is Annotated else ()
    choices = next((each for each in declared if isinstance(each, tuple)), ())
    return key._replace(kind="" if choices else _described(hint, declared), choices=choices)


def _described(hint: Any, declared: Sequence[Any]) -> str:
    """A type and its range in words; nothing for a text."""
    types = get_args(get_args(hint)[0]) or get_args(hint)[:1] if declared else get_args(hint) or (hint,)
    kinds = [KINDS[origin] for each in types if (origin := get_origin(each) or each) in KINDS and origin is not str]
    kind = " or ".join([*kinds[:1], *(["null"] if kinds and type(None) in types else [])])
    ranges = (
        f"{each.ge} to {each.le}" if each.le and each.le < 1 << 32 else f"at least {each.ge}" for each in declared
    )
    return ", ".join([kind, *ranges])


def introduction(text: str) -> tuple[str, list[str]]:
    """The purpose of a yaml and the commands of its examples, from its first comment."""
    lines = [line.strip("# ") for line in takewhile(lambda line: line.startswith("#"), text.splitlines())]
    examples = [line for line in lines if line.startswith("qarena ")]
    return " ".join(line for line in lines if line not in examples and not line.startswith("@package")), examples


def help_text(application: Application, command: str, asked: Arguments) -> str:
    """The help of a command; the keys of the options that its arguments choose are explained too."""
    text = (CONF / f"{application.config}.yaml").read_text(encoding="utf-8")
    keys = list(explained_keys(text, application.schema))
    groups = [key for key in keys if key.is_group]
    own = [key for key in keys if not key.is_group and key.default]
    lines = (
        *_about(command, text, any(key.name == "agents" for key in own)),
        *_chosen(command, groups, asked),
        *("", "Keys (KEY=VALUE):", *_rows([*own, *archive_keys()])),
        *("", "Groups (GROUP=NAME):", *_rows(groups)),
        *("", "Options:", *_flag_rows(own)),
    )
    return "\n".join(lines)


def _about(command: str, text: str, has_agents: bool) -> Iterator[str]:
    """The usage of a command, what it is for, and examples."""
    said, examples = introduction(text) if command != "sweep" else SWEEP
    yield from (f"Usage: qarena {command} {'[AGENT]… ' if has_agents else ''}[KEY=VALUE]… [GROUP=NAME]… [OPTIONS]", "")
    yield from textwrap.wrap(said, _width())
    yield from [AGENTS] if has_agents else []
    yield from ("", "Examples:", *(f"  {each}" for each in examples))


TO_CHOOSE = "To see the keys of an agent or of another option, name it: "
EXAMPLES = {"agent@a": "mcts", "trainer": "trainer=q_table", "kind": "kind=gift"}  # by a group of the command
AGENTS = "An agent is NAME or 'NAME(parameter=value,…)'; `qarena agents` lists them."
SWEEP = (
    "A run for each combination of the values, KEY=VALUE,VALUE,…, and a table of all. Hydra calls a run here a job.",
    [
        "qarena sweep semi_random random opening_plies=0,2,4 rules=classic,square games=20000",
        "qarena sweep agent@a=mcts a.iterations=100,200,400 agent@b=rule_based games=1000",
        "qarena sweep hydra/launcher=joblib threads=1 semi_random random seed=1,2,3,4 games=20000",
    ],
)


def archive_keys() -> list[Key]:
    """The keys of the group ``archive``."""
    keys = explained_keys(text_of("archive", "default"), ArchiveConfig)
    return [key._replace(name=f"archive.{key.name}") for key in keys]


def _chosen(command: str, groups: Sequence[Key], asked: Arguments) -> Iterator[str]:
    """The keys of the agents and of the other options that the arguments name; if they name none, how to."""
    chosen = [("agent", label.partition("(")[0], "") for label in asked.agents]
    for override in asked.overrides:
        group, _, value = override.partition("=")
        if any(key.name == group for key in groups):
            chosen.append((group.partition("@")[0], value, f"{group.partition('@')[2] or group}."))
    if not chosen:
        named = [f"qarena {command} {EXAMPLES[key.name]} --help" for key in groups if key.name in EXAMPLES]
        yield from ("", *textwrap.wrap(TO_CHOOSE + ", ".join(named), _width()))
    for group, name, prefix in dict.fromkeys(chosen):
        text = text_of(group, name)
        keys = [key for key in explained_keys(text) if key.name not in NOT_PARAMETERS and key.default]
        how = f"{prefix}KEY=VALUE" if prefix else f"'{name}(KEY=VALUE,…)'"
        yield from ("", *textwrap.wrap(f"{group} {name}: {introduction(text)[0]}", _width()))
        yield from (f"Its keys, {how}:", *_rows(keys)) if keys else ("It has no keys.",)


def _flag_rows(own: Sequence[Key]) -> Iterator[str]:
    """The flags of a command with these keys."""
    keys = {key.name for key in own}
    for flags, options in FLAGS.items():
        if "--keep-going" in flags and "keep_going" not in keys:
            continue
        value = options.get("metavar") or "|".join(options.get("choices", ()))
        yield from _row(" ".join([*[", ".join(flags)], *([value] if value else [])]), str(options["help"]))


def _rows(keys: Sequence[Key]) -> Iterator[str]:
    for key in keys:
        details = "; ".join(each for each in (", ".join(key.choices), key.kind) if each)
        default = ENVIRONMENT.sub(r"\1", key.default)
        name = f"{key.name}.KEY" if default.startswith("{") else f"{key.name}={default}"
        yield from _row(name, f"{key.meaning} ({details})" if key.meaning and details else key.meaning or details)


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
