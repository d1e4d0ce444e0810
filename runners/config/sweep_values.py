"""The values that a sweep lists: the first job's configuration, and those that stand for all other jobs in the check.

A configuration takes a tenth of a second to compose, so a sweep of thousands of jobs cannot compose all of them before
its first job. A value of a key only needs the first job's configuration with that value in it.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Sequence
from math import isnan
from typing import Any

from hydra import compose
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import IntervalSweep, Override, OverrideType, Transformer
from omegaconf import DictConfig, OmegaConf

from analytics.store.labels import quote_non_ascii_words
from quarto.errors import RequestError

MAX_CHECKED_TEXTS = 40  # values of a key, numbers excepted, that are checked before the first job: 10 ms each


def parse_overrides(texts: Iterable[str]) -> list[Override]:
    """Parse overrides; inside Hydra's context they can list the options of a group, ``rules=glob(*)``."""
    hydra = GlobalHydra.instance()
    return OverridesParser.create(hydra.config_loader() if hydra.is_initialized() else None).parse_overrides([*texts])


def keep_first_value(override: Override) -> str:
    """An override that is no sweep, with the first of its values. Raises ``RequestError`` if it has none."""
    if not override.is_sweep_override():
        return str(override.input_line)
    value = override.value()
    first = value.start if isinstance(value, IntervalSweep) else next(_format_values(override), None)
    if first is None:
        raise RequestError(f"{override.input_line} stands for no value, so no job would run: write at least one")
    return f"{override.get_key_element()}={first}"


def keep_first_values(overrides: Sequence[Override]) -> list[str]:
    """Overrides that are no sweeps, with the first of their values; of the same key the last."""
    return list({override.get_key_element(): keep_first_value(override) for override in overrides}.values())


def split_sweep_override(override: Override) -> list[str]:
    """List the texts of an override's values, in the order of its jobs."""
    if override.is_sweep_override():
        return [f"{override.get_key_element()}={text}" for text in _format_values(override)]
    return [f"{override.get_key_element()}={override.get_value_element_as_str()}"]


def _format_values(override: Override) -> Iterator[str]:
    """The values of a sweep as texts; names of options from ``glob`` may have letters that Hydra's grammar lacks."""
    return map(quote_non_ascii_words, override.sweep_string_iterator())


def compose_other_configs(
    config_name: str, first_config: DictConfig, overrides: Sequence[Override]
) -> Iterator[DictConfig]:
    """Yield the first job's configuration with each other value that needs a check, one value at a time.

    Of numbers these are the least and the greatest, because what is refused of numbers are ranges. Of texts they are
    the first ``MAX_CHECKED_TEXTS``, of a group all options.
    """
    for override in {override.get_key_element(): override for override in overrides}.values():
        if not override.is_discrete_sweep():
            continue
        choices = first_config.hydra.runtime.choices
        is_group = override.package is not None or override.key_or_group in choices
        is_simple = override.type is OverrideType.CHANGE and not (is_group or override.is_hydra_override())
        typed = keep_first_value(override)
        for text in _select_values_to_check(override.sweep_iterator(), is_group):
            setting = f"{override.get_key_element()}={text}"
            if setting == typed:
                continue
            if is_simple:
                yield _replace_value(first_config, setting)
            else:
                others = [other for other in keep_first_values(overrides) if other != typed]
                yield compose(config_name, [*others, setting], return_hydra_config=True)


def _select_values_to_check(values: Iterable[Any], keep_all_texts: bool) -> list[str]:
    """The texts of the values that stand for all; ``keep_all_texts``: all of them."""
    numbers: dict[type, list[float]] = {int: [], float: []}
    others: dict[str, None] = {}
    for value in values:
        if type(value) in numbers and not isnan(value):
            numbers[type(value)].append(value)
        else:
            others[quote_non_ascii_words(Transformer.str(value))] = None
    extremes = [extreme for some in numbers.values() if some for extreme in (min(some), max(some))]
    return [*([*others] if keep_all_texts else [*others][:MAX_CHECKED_TEXTS]), *dict.fromkeys(map(str, extremes))]


def _replace_value(first_config: DictConfig, setting: str) -> DictConfig:
    """The first job's configuration with another value of a key, set as Hydra sets it."""
    (override,) = parse_overrides([setting])
    cfg = copy.deepcopy(first_config)
    OmegaConf.update(cfg, override.key_or_group, override.value(), merge=True)
    return cfg
