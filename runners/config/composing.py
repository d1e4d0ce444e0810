"""Composing: Hydra turns the overrides of a request into a checked configuration, from our folder and the user's own.

Both the command line and Python's functions call this module with ``CommandArguments``. Hydra parses the overrides.
Only the overrides of a sweep, or of a request that Hydra refuses, are parsed here too, because their values matter.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from hydra import compose, initialize_config_dir
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from analytics.store.labels import format_quoting_advice
from quarto.errors import Advice, RequestError
from runners.config.arguments import CommandArguments, check_groups_plugins_and_games, explain_config_errors
from runners.config.schemas import check_keys_and_values
from runners.config.sweep_values import keep_first_values, parse_overrides
from runners.config.yaml_options import CONF_FOLDER, search_user_folders

HELP_KEYS = ("help", "hydra_help")  # of Hydra's own configuration: texts, which ``--cfg hydra`` leaves out


@contextmanager
def open_config_folders(arguments: CommandArguments, schema: type[Any], command: str) -> Iterator[None]:
    """Inside the context, let Hydra find the user's folders, and convert Hydra's errors to one-line messages.

    ``schema`` and ``command`` belong to the command that runs; they help to explain arguments that look like agents but
    are not. Raises ``RequestError`` for such an argument, and for a path that is not a folder.
    """
    _refuse_keys_typed_as_agents(arguments.agents, schema, command)
    with search_user_folders(arguments.config_dirs), explain_config_errors(arguments.overrides):
        yield


@contextmanager
def initialize_hydra() -> Iterator[None]:
    """Inside the context, let Hydra read the project's configuration folder.

    The folder is given as a path, because another package named ``conf`` on ``sys.path`` could hide it.
    """
    with initialize_config_dir(str(CONF_FOLDER), version_base="1.3"):
        yield


def _refuse_keys_typed_as_agents(labels: Sequence[str], schema: type[Any], command: str) -> None:
    """Raise ``RequestError`` for an argument that looks like an agent but is not one.

    Either it is a key of the configuration, typed with spaces around ``=``, or the command does not accept agents.
    """
    keys = schema.__dataclass_fields__
    for word, following in zip(labels, [*labels[1:], "VALUE"], strict=False):
        if word in keys:
            raise RequestError(f"{word!r} is a key: write {word}={following}, without spaces")
        if "agents" not in keys:
            listing = "lists the keys"
            raise RequestError(
                Advice(
                    f"{word!r} is not key=value",
                    f"'qarena {command} --help' {listing}",
                    f"'qarena {command} --help' in a terminal {listing}",
                )
            )


def compose_single_request(config: str, schema: type[Any], overrides: Sequence[str]) -> DictConfig:
    """Compose and check the configuration of a single request. Hydra's own settings are under ``hydra``.

    Raises ``RequestError`` for a sweep, and for a key or a value that ``schema`` does not allow.
    """
    cfg = compose_first_job(config, overrides, multirun=False).config
    if cfg.hydra.mode == RunMode.MULTIRUN:
        raise RequestError("hydra.mode=MULTIRUN is a sweep of several jobs: call runners.sweep(…)")
    check_keys_and_values(cfg, schema)
    return cfg


class FirstJob(NamedTuple):
    """The configuration of a single request, or of the first job of a sweep."""

    config: DictConfig  # with Hydra's own settings under ``hydra``; ``hydra.mode`` says whether this is a sweep
    overrides: list[Override]  # all overrides of a sweep; empty for a single request


def compose_first_job(config: str, overrides: Sequence[str], multirun: bool) -> FirstJob:
    """Compose the configuration of a single request, or of the first job of a sweep.

    A setting with several values gets the first of them. ``multirun`` says that the command is a sweep. The command is
    also a sweep if a yaml sets ``hydra.mode`` to MULTIRUN. Raises ``RequestError`` if a setting has several values
    although the command is not a sweep.
    """
    cfg = None if multirun else _compose_single_values(config, overrides)
    if cfg is not None and cfg.hydra.mode != RunMode.MULTIRUN:
        cfg.hydra.mode = RunMode.RUN
        return FirstJob(cfg, [])
    parsed_overrides = parse_overrides(overrides)
    check_groups_plugins_and_games(config, parsed_overrides)
    cfg = compose(config, overrides=keep_first_values(parsed_overrides), return_hydra_config=True)
    if multirun and cfg.hydra.mode == RunMode.RUN:
        raise RequestError("hydra.mode=RUN contradicts a sweep: leave it out, or use the command without -m")
    if not multirun and cfg.hydra.mode != RunMode.MULTIRUN:
        _refuse_several_values(parsed_overrides)
    if params := cfg.hydra.sweeper.get("params"):
        parsed_overrides = [*parse_overrides(f"{key}={value}" for key, value in params.items()), *parsed_overrides]
        cfg = compose(config, overrides=keep_first_values(parsed_overrides), return_hydra_config=True)
    cfg.hydra.mode = RunMode.MULTIRUN
    return FirstJob(cfg, parsed_overrides)


def _compose_single_values(config: str, overrides: Sequence[str]) -> DictConfig | None:
    """Compose a configuration in which every key has one value, or return None if a setting has several values.

    If a key is given twice, the last override wins. Raises Hydra's errors, or ``RequestError`` where a better message
    is possible.
    """
    last_overrides = {override.partition("=")[0]: override for override in overrides}
    try:
        return compose(config, overrides=[*last_overrides.values()], return_hydra_config=True)
    except (HydraException, OmegaConfBaseException, ValueError):  # ValueError for an option that is no name
        parsed_overrides = parse_overrides(overrides)
        check_groups_plugins_and_games(config, parsed_overrides)
        if any(override.is_sweep_override() for override in parsed_overrides):
            return None
        raise


def _refuse_several_values(overrides: Sequence[Override]) -> None:
    """Raise ``RequestError`` for the first override that has several values."""
    for override in overrides:
        if override.is_sweep_override():
            typed = str(override.input_line)
            advice = f"; {format_quoting_advice(typed, in_shell=True)}" if " " in typed or "/" in typed else ""
            text = f"{typed}: several values are a sweep"
            raise RequestError(Advice(text, f"qarena sweep … or -m{advice}", "runners.sweep(…) plays it", ", "))


def format_config(cfg: DictConfig, part: str) -> str:
    """Format a configuration as YAML; ``part`` is ``job``, ``hydra`` (Hydra's own settings), or ``all``."""
    if part == "hydra":
        keys = [str(key) for key in cfg.hydra if key not in HELP_KEYS]
        return OmegaConf.to_yaml(OmegaConf.create({"hydra": OmegaConf.masked_copy(cfg.hydra, keys)}))
    keys = [str(key) for key in cfg if part == "all" or key != "hydra"]
    return OmegaConf.to_yaml(OmegaConf.masked_copy(cfg, keys))
