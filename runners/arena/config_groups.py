"""Options of configuration groups, such as ``conf/rules/square.yaml``, as plain values, and rules made of them.

numba is imported when rules are made and not before: a wrong name is refused without it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from omegaconf import DictConfig, OmegaConf

from quarto.errors import RequestError, nearest

if TYPE_CHECKING:
    from quarto.rules import Rules

CONF = Path(__file__).resolve().parents[2] / "conf"
NOT_PARAMETERS = ("_target_", "name", "tactical")  # keys of an agent's yaml that its constructor does not take


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
    path = f"{group}/{name}"
    with _hydra():
        sources = GlobalHydra.instance().config_loader().get_sources()
        found = next(source for source in sources if source.is_config(path)).load_config(path)
        if found.header.get("package") or "defaults" in found.config:
            return plain(compose(path)[group])
        return plain(OmegaConf.create({group: found.config})[group])  # the same, and 40 ms less than composing it


def plain(node: DictConfig) -> dict[str, Any]:
    """A mapping node as plain values, with its interpolations resolved."""
    return {str(key): value for key, value in dict(OmegaConf.to_container(node, resolve=True) or {}).items()}  # type: ignore[arg-type]


def flat(settings: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Nested settings as dotted keys and values."""
    for key, value in settings.items():
        if isinstance(value, Mapping):
            yield from flat(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def load_rules(name: str) -> Rules:
    """The rules of ``conf/rules/NAME.yaml``."""
    return rules_of(settings_of("rules", name))


def rules_of(mapping: Any) -> Rules:
    """Rules from the keys of a yaml in ``conf/rules``. Raises ``RequestError`` for a key or value that is not valid."""
    from quarto.rules import Rules

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
    from runners.arena.spec import label_of

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
