"""Options of configuration groups, such as ``conf/rules/square.yaml``, as plain values, and rules made of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from omegaconf import DictConfig, OmegaConf

from quarto.errors import RequestError, nearest
from quarto.rules import Rules
from runners.arena.spec import label_of

CONF = Path(__file__).resolve().parents[2] / "conf"


def names(group: str) -> list[str]:
    """The options of a configuration group, in all folders that Hydra searches."""
    with _hydra():
        return list(GlobalHydra.instance().config_loader().get_group_options(group))


def settings_of(group: str, name: str, called: str | None = None) -> dict[str, Any]:
    """One option of a configuration group as plain values; messages name the group ``called``.

    Raises ``RequestError`` if the option does not exist.
    """
    valid = names(group)
    if name not in valid:
        raise RequestError(f"{called or group} {name!r} does not exist{nearest(name, valid)}")
    with _hydra():
        return plain(compose(f"{group}/{name}")[group])


def plain(node: DictConfig) -> dict[str, Any]:
    """A mapping node as plain values, with its interpolations resolved."""
    return {str(key): value for key, value in dict(OmegaConf.to_container(node, resolve=True) or {}).items()}  # type: ignore[arg-type]


def load_rules(name: str) -> Rules:
    """The rules of ``conf/rules/NAME.yaml``."""
    return rules_of(settings_of("rules", name))


def rules_of(mapping: Any) -> Rules:
    """Rules from the keys of a yaml in ``conf/rules``. Raises ``RequestError`` for a key or value that is not valid."""
    known = [each.name for each in fields(Rules)]
    for key in mapping:
        if key not in known:
            raise RequestError(f"rules have no key {key!r}{nearest(str(key), known)}")
    for key, kind, meaning in (("name", str, "a text"), ("rows_and_columns", bool, "true or false")):
        if not isinstance(mapping.get(key, kind()), kind):
            raise RequestError(f"rules.{key}={mapping[key]!r} is not {meaning}")
    try:
        return Rules(**mapping)
    except (TypeError, ValueError) as error:
        raise RequestError(str(error)) from error


def named_rules(rules: Rules, preset: str) -> Rules:
    """The rules, named after ``preset`` and the keys that differ from it, unless they have a name of their own."""
    chosen, own = asdict(rules), asdict(load_rules(preset))
    return replace(rules, name=label_of(rules.name, chosen, own)) if rules.name == own["name"] else rules


@contextmanager
def _hydra() -> Iterator[None]:
    """Hydra as the running application set it up; if none did, as in a notebook, over the project's ``conf``."""
    if GlobalHydra.instance().is_initialized():
        yield
    else:
        with initialize_config_dir(str(CONF), version_base="1.3"):
            yield
