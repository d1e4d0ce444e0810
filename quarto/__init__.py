"""The game of Quarto: rules, positions, symmetries, notation, exact solver. NumPy and numba only, no I/O.

``Quarto``, ``Player`` and ``Piece`` come from ``quarto.objects``. They are the interface of a package of the
Politecnico di Torino that is also called ``quarto``. Players written for that package import them from here. They are
loaded when they are asked for, so nothing else waits for them. Neither they nor this file need numba
or NumPy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from quarto.objects import Piece, Player, Quarto, abstractmethod, copy, np

__all__ = ["Piece", "Player", "Quarto", "abstractmethod", "copy", "np"]


def __getattr__(name: str) -> object:
    """A name of ``quarto.objects``, or that module: ``import quarto`` alone offers both."""
    if name in (*__all__, "objects"):
        from importlib import import_module

        objects = import_module("quarto.objects")
        return objects if name == "objects" else getattr(objects, name)
    raise AttributeError(f"module 'quarto' has no attribute {name!r}")
