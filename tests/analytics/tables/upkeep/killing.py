"""Kills an upgrade of an archive before a write or a removal."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import PurePath

import pytest

from analytics.store.files.local_files import find_backend


class KilledError(Exception):
    """The program was killed."""


def kill_before(root: PurePath, number: int, do: Callable[[], object]) -> None:
    """Call ``do`` and kill it before write or removal ``number``, from 0; fails if it comes to an end before that."""
    backend, remaining = type(find_backend(root)), number

    def until_killed(change: Callable[..., None]) -> Callable[..., None]:
        def carry_out(*arguments: object) -> None:
            nonlocal remaining
            if remaining == 0:
                raise KilledError
            remaining -= 1
            change(*arguments)

        return carry_out

    with pytest.MonkeyPatch.context() as patch:
        for name in ("replace", "remove"):
            patch.setattr(backend, name, until_killed(getattr(backend, name)))
        with pytest.raises(KilledError):
            do()
