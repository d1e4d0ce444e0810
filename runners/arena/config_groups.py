"""The options of Hydra's configuration groups as plain values: those of the project and of a user's own folder."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hydra import compose, initialize_config_dir
from hydra.core.config_loader import ConfigLoader
from hydra.core.global_hydra import GlobalHydra
from omegaconf import Container, OmegaConf

from quarto.errors import RequestError, nearest

CONF = Path(__file__).resolve().parents[2] / "conf"


def names(group: str) -> list[str]:
    """The options of a configuration group, searched wherever Hydra searches."""
    with _config_loader() as loader:
        return list(loader.get_group_options(group))


def settings_of(group: str, name: str) -> dict[str, Any]:
    """One option of a configuration group. Raises ``RequestError`` if it does not exist."""
    valid = names(group)
    if name not in valid:
        raise RequestError(f"{group} {name!r} does not exist{nearest(name, valid)}")
    with _config_loader():
        return plain(compose(f"{group}/{name}")[group])


def as_written(group: str) -> dict[str, dict[str, Any]]:
    """Every option of a configuration group as its yaml has it: not composed, which takes a hundred times as long."""
    found = {}
    with _config_loader() as loader:
        sources = loader.get_sources()
        for name in loader.get_group_options(group):
            path = f"{group}/{name}"
            source = next(source for source in sources if source.is_config(path))
            found[name] = plain(source.load_config(path).config, resolve=False)
    return found


@contextmanager
def _config_loader() -> Iterator[ConfigLoader]:
    """Hydra as the running application set it up or, in a notebook or test, over the project's own ``conf``."""
    if GlobalHydra.instance().is_initialized():
        yield GlobalHydra.instance().config_loader()
    else:
        with initialize_config_dir(str(CONF), version_base="1.3"):
            yield GlobalHydra.instance().config_loader()


def plain(node: Container, resolve: bool = True) -> dict[str, Any]:
    """A node as plain values; with ``resolve`` its interpolations are replaced by what they stand for."""
    return {str(key): value for key, value in dict(OmegaConf.to_container(node, resolve=resolve) or {}).items()}  # type: ignore[arg-type]
