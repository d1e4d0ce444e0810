"""What plays, learns, computes or serves; ``run`` … are for Python, ``qarena`` for the command line.

Names are loaded when they are asked for, so importing this package costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from runners.library import annotate, build_policy, index, judge, rebuild_policy, run, serve, sprt, train

    __version__: str

__all__ = [
    "__version__",
    "annotate",
    "build_policy",
    "index",
    "judge",
    "rebuild_policy",
    "run",
    "serve",
    "sprt",
    "train",
]


def __getattr__(name: str) -> object:
    """A public name of this package, loaded when it is asked for."""
    if name == "__version__":
        from importlib.metadata import version

        return version("quarto-arena")
    if name in __all__:
        from importlib import import_module

        return getattr(import_module("runners.library"), name)
    raise AttributeError(f"module 'runners' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
