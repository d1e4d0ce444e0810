"""Everything that plays, learns, computes or serves: ``run`` and others for Python, ``qarena`` for the command line.

Names are loaded when they are asked for, so importing this package costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from runners.library.archives import annotate, index, name_run, serve
    from runners.library.leagues import check_league, create_league, play_league, publish_league, rank_league
    from runners.library.learning import build_policy, judge, rebuild_policy, train
    from runners.library.options import list_options
    from runners.library.playing import run, sprt, sweep

    __version__: str

__all__ = [
    "__version__",
    "annotate",
    "build_policy",
    "check_league",
    "create_league",
    "index",
    "judge",
    "list_options",
    "name_run",
    "play_league",
    "publish_league",
    "rank_league",
    "rebuild_policy",
    "run",
    "serve",
    "sprt",
    "sweep",
    "train",
]

_FUNCTIONS = {  # by the module of ``runners.library`` that defines them
    "archives": ("annotate", "index", "name_run", "serve"),
    "leagues": ("check_league", "create_league", "play_league", "publish_league", "rank_league"),
    "learning": ("build_policy", "judge", "rebuild_policy", "train"),
    "options": ("list_options",),
    "playing": ("run", "sprt", "sweep"),
}


def __getattr__(name: str) -> object:
    """Return a public name of this package, which is imported only when it is asked for."""
    if name == "__version__":
        from importlib.metadata import version

        return version("quarto-arena")
    for module, functions in _FUNCTIONS.items():
        if name in functions:
            from importlib import import_module

            from analytics.shadowing import check_own_packages_not_hidden

            check_own_packages_not_hidden()
            return getattr(import_module(f"runners.library.{module}"), name)
    raise AttributeError(f"module 'runners' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
