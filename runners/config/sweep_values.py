"""The values that a sweep lists: the first job's configuration, and the values that the check tries for other jobs.

A configuration takes a tenth of a second to compose, so a sweep of thousands of jobs cannot compose all of them before
its first job. To check one value of a key, the first job's configuration with that value is enough.
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

MAX_CHECKED_TEXTS = 40  # values of a key, numbers excepted, to check before the first job: 10 ms each


def parse_overrides(texts: Iterable[str]) -> list[Override]:
    """Parse overrides. Once Hydra is initialised, they may refer to a group's options, as in ``rules=glob(*)``."""
    hydra = GlobalHydra.instance()
    return OverridesParser.create(hydra.config_loader() if hydra.is_initialized() else None).parse_overrides([*texts])


def keep_first_value(override: Override) -> str:
    """Return an override as a string in which only the first of its values remains.

    Raises ``RequestError`` if it has no value.
    """
    if not override.is_sweep_override():
        return str(override.input_line)
    value = override.value()
    first = value.start if isinstance(value, IntervalSweep) else next(_format_values(override), None)
    if first is None:
        raise RequestError(f"{override.input_line} stands for no value, so no job would run: write at least one")
    return f"{override.get_key_element()}={first}"


def keep_first_values(overrides: Sequence[Override]) -> list[str]:
    """Return each override as a string in which only the first of its values remains.

    If a key occurs twice, the last override is kept.
    """
    return list({override.get_key_element(): keep_first_value(override) for override in overrides}.values())


def split_sweep_override(override: Override) -> list[str]:
    """Return, as strings, an override for each value that ``override`` lists, in the order of the jobs."""
    if override.is_sweep_override():
        return [f"{override.get_key_element()}={text}" for text in _format_values(override)]
    return [f"{override.get_key_element()}={override.get_value_element_as_str()}"]


def _format_values(override: Override) -> Iterator[str]:
    """Yield the values of a sweep as strings.

    They are quoted where necessary, because names from ``glob`` may contain characters that Hydra does not accept.
    """
    return map(quote_non_ascii_words, override.sweep_string_iterator())


def compose_other_configs(
    config_name: str, first_config: DictConfig, overrides: Sequence[Override]
) -> Iterator[DictConfig]:
    """Yield the first job's configuration with one value changed, once for each other value that must be checked.

    Of a key's numbers only the smallest and the largest are checked, because a number can only be out of range. Of its
    strings only the first ``MAX_CHECKED_TEXTS`` are checked, unless they are the options of a group: these are all
    checked.
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
                other_overrides = [other for other in keep_first_values(overrides) if other != typed]
                yield compose(config_name, [*other_overrides, setting], return_hydra_config=True)


def _select_values_to_check(values: Iterable[Any], keep_all_texts: bool) -> list[str]:
    """Select a representative sample of the values to check, and return it as strings.

    The sample has the smallest and the largest integer, the smallest and the largest float, and the first
    ``MAX_CHECKED_TEXTS`` of the other values, or all of these with ``keep_all_texts``.
    """
    numbers: dict[type, list[float]] = {int: [], float: []}
    texts: dict[str, None] = {}
    for value in values:
        if type(value) in numbers and not isnan(value):
            numbers[type(value)].append(value)
        else:
            texts[quote_non_ascii_words(Transformer.str(value))] = None
    extremes = [
        extreme
        for values_of_type in numbers.values()
        if values_of_type
        for extreme in (min(values_of_type), max(values_of_type))
    ]
    return [*([*texts] if keep_all_texts else [*texts][:MAX_CHECKED_TEXTS]), *dict.fromkeys(map(str, extremes))]


def _replace_value(first_config: DictConfig, setting: str) -> DictConfig:
    """Return a copy of the first job's configuration, changed as Hydra would change it by the override ``setting``."""
    (override,) = parse_overrides([setting])
    cfg = copy.deepcopy(first_config)
    OmegaConf.update(cfg, override.key_or_group, override.value(), merge=True)
    return cfg
