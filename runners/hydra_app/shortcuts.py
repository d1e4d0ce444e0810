"""Shortcuts past work that Hydra repeats: a third of the time of a small command, nine tenths of that of ``--help``."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from hydra._internal.config_repository import ConfigRepository
from hydra._internal.hydra import Hydra

from runners.hydra_app.mode import only_flag_decides


@contextmanager
def composed_once(arguments: Sequence[str]) -> Iterator[None]:
    """Let Hydra compose a configuration once instead of twice, inside the context, where that changes nothing.

    Hydra composes all of it first only to look at ``hydra.mode``. It has no setting for that, so the question is
    answered here: None, nobody set it.
    """
    if not only_flag_decides(arguments):
        yield
        return
    asked, Hydra.get_mode = Hydra.get_mode, _not_set  # type: ignore[method-assign]
    try:
        yield
    finally:
        Hydra.get_mode = asked  # type: ignore[method-assign]


@contextmanager
def sources_shared() -> Iterator[None]:
    """Let Hydra share the sources of configuration, inside the context, where it copies all their contents.

    It copies them for each composition and for each group whose options it lists, 10 ms each time, lest the list of
    sources that one of them sets is seen by the others. A list is set and never changed, so a shallow copy will do.
    """
    ConfigRepository.__deepcopy__ = _shallow_copy  # type: ignore[attr-defined]
    try:
        yield
    finally:
        del ConfigRepository.__deepcopy__  # type: ignore[attr-defined]


def _not_set(*_args: Any, **_kwargs: Any) -> None:
    return None


def _shallow_copy(repository: ConfigRepository, _memo: dict[int, Any]) -> ConfigRepository:
    return copy.copy(repository)
