"""Composing: the overrides of a request become a checked configuration, by Hydra, over our folder and the user's own.

The command line and Python's functions both enter here with ``CommandArguments``. Hydra parses the overrides. Only
those of a sweep, or of a request that Hydra refuses, are parsed here, because their values or their forms matter then.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from hydra import compose, initialize_config_dir
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from analytics.store.labels import format_quoting_advice
from quarto.errors import RequestError
from runners.config.arguments import CommandArguments, check_group_choices, explain_config_errors
from runners.config.schemas import check_keys_and_values
from runners.config.sweep_values import keep_first_values, parse_overrides
from runners.config.yaml_options import CONF_FOLDER, search_user_folders

HELP_KEYS = ("help", "hydra_help")  # of Hydra's own configuration: texts, which ``--cfg hydra`` leaves out


@contextmanager
def open_config_folders(arguments: CommandArguments, schema: type[Any], command: str) -> Iterator[None]:
    """Let the user's folders be found, and Hydra's errors be messages of one line, inside the context.

    ``schema`` and ``command`` are those of the command, for words that were taken for agents. Raises ``RequestError``
    for such a word, and for a folder that is none.
    """
    _check_agent_words(arguments.agents, schema, command)
    with search_user_folders(arguments.config_dirs), explain_config_errors(arguments.overrides):
        yield


@contextmanager
def initialize_hydra() -> Iterator[None]:
    """Let Hydra read the project's folder, inside the context.

    It is named by its path: as a package, a folder named conf in ``sys.path`` could hide it.
    """
    with initialize_config_dir(str(CONF_FOLDER), version_base="1.3"):
        yield


def _check_agent_words(labels: Sequence[str], schema: type[Any], command: str) -> None:
    """Check words that were taken for agents. Raises ``RequestError`` for a key, and where there are no agents."""
    keys = schema.__dataclass_fields__
    for word, following in zip(labels, [*labels[1:], "VALUE"], strict=False):
        if word in keys:
            raise RequestError(f"{word!r} is a key: write {word}={following}, without spaces")
        if "agents" not in keys:
            raise RequestError(f"{word!r} is not key=value: 'qarena {command} --help' lists the keys")


def compose_single_request(config: str, schema: type[Any], overrides: Sequence[str]) -> DictConfig:
    """Compose and check the configuration of a request that is no sweep, with Hydra's own under ``hydra``.

    Raises ``RequestError`` for a sweep, and for a key or a value that ``schema`` does not allow.
    """
    cfg, _ = compose_first_job(config, overrides, multirun=False)
    if cfg.hydra.mode == RunMode.MULTIRUN:
        raise RequestError("hydra.mode=MULTIRUN is a sweep of several jobs: call runners.sweep(…)")
    check_keys_and_values(cfg, schema)
    return cfg


def compose_first_job(config: str, overrides: Sequence[str], multirun: bool) -> tuple[DictConfig, list[Override]]:
    """Compose the configuration of a single request, or of a sweep's first job, with Hydra's own under ``hydra``.

    Each setting that varies has the first of its values. Whether it is a sweep is ``hydra.mode`` then, which a yaml may
    set too. The overrides of a sweep come parsed with it. Raises ``RequestError`` for several values that are no sweep.
    """
    cfg = None if multirun else _compose_single_values(config, overrides)
    if cfg is not None and cfg.hydra.mode != RunMode.MULTIRUN:
        cfg.hydra.mode = RunMode.RUN
        return cfg, []
    given = parse_overrides(overrides)
    check_group_choices(config, given)
    cfg = compose(config, overrides=keep_first_values(given), return_hydra_config=True)
    if multirun and cfg.hydra.mode == RunMode.RUN:
        raise RequestError("hydra.mode=RUN contradicts a sweep: leave it out, or use the command without -m")
    if not multirun and cfg.hydra.mode != RunMode.MULTIRUN:
        _refuse_several_values(given)
    if params := cfg.hydra.sweeper.get("params"):
        given = [*parse_overrides(f"{key}={value}" for key, value in params.items()), *given]
        cfg = compose(config, overrides=keep_first_values(given), return_hydra_config=True)
    cfg.hydra.mode = RunMode.MULTIRUN
    return cfg, given


def _compose_single_values(config: str, overrides: Sequence[str]) -> DictConfig | None:
    """Compose a configuration of single values, the last of each key; None if a setting has several.

    Raises what Hydra raises, or ``RequestError`` with a better message.
    """
    last = {override.partition("=")[0]: override for override in overrides}
    try:
        return compose(config, overrides=[*last.values()], return_hydra_config=True)
    except (HydraException, OmegaConfBaseException, ValueError):  # ValueError for an option that is no name
        given = parse_overrides(overrides)
        check_group_choices(config, given)
        if any(override.is_sweep_override() for override in given):
            return None
        raise


def _refuse_several_values(overrides: Sequence[Override]) -> None:
    """Raise ``RequestError`` for the first override with several values."""
    for override in overrides:
        if override.is_sweep_override():
            typed = str(override.input_line)
            text = f"; {format_quoting_advice(typed, in_shell=True)}" if " " in typed or "/" in typed else ""
            raise RequestError(f"{typed}: several values are a sweep, qarena sweep … or -m{text}")


def format_config(cfg: DictConfig, part: str) -> str:
    """Format a configuration as YAML: ``part`` is ``job``, ``hydra`` (Hydra's own), or ``all``."""
    if part == "hydra":
        keys = [str(key) for key in cfg.hydra if key not in HELP_KEYS]
        return OmegaConf.to_yaml(OmegaConf.create({"hydra": OmegaConf.masked_copy(cfg.hydra, keys)}))
    keys = [str(key) for key in cfg if part == "all" or key != "hydra"]
    return OmegaConf.to_yaml(OmegaConf.masked_copy(cfg, keys))
