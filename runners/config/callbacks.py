"""Hydra's callbacks (``hydra.callbacks``), for jobs that run without ``hydra.main``."""

from __future__ import annotations

import warnings
from functools import partialmethod
from typing import Any

from hydra.utils import instantiate
from omegaconf import DictConfig


class Callbacks:
    """The callbacks that a yaml lists under ``hydra.callbacks``.

    As in Hydra, an exception in a callback becomes a warning.
    """

    def __init__(self, cfg: DictConfig) -> None:
        self._callbacks = [instantiate(node) for node in (cfg.hydra.callbacks or {}).values()]

    def notify(self, method_name: str, **arguments: Any) -> None:
        """Call the method ``method_name`` of every callback, in reverse order if its name ends with ``_end``."""
        for callback in reversed(self._callbacks) if method_name.endswith("_end") else self._callbacks:
            try:
                getattr(callback, method_name)(**arguments)
            except Exception as error:  # noqa: BLE001  (callbacks are third-party code)
                warnings.warn(
                    f"Callback {type(callback).__name__}.{method_name} raised {type(error).__name__}: {error}",
                    stacklevel=2,
                )

    on_job_start = partialmethod(notify, "on_job_start")
    on_job_end = partialmethod(notify, "on_job_end")
