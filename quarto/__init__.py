"""The game of Quarto: rules, positions, symmetries, notation, exact solver. NumPy and numba only, no I/O.

Public names: ``Position`` (a position), ``Game``, ``Rules``, ``CLASSIC``, ``solve``, and ``Solver``,
``Solution`` and ``SolvedTurn``. ``__init__.pyi`` has their types.

``Quarto``, ``Player`` and ``Piece`` come from ``quarto.objects``. They are the interface of a package of the
Politecnico di Torino that is also called ``quarto``. Players written for that package import them from here, also by
``from quarto import *``, so ``__all__`` names them alone.

All are loaded when they are asked for, so nothing else waits for them. Neither this file nor ``quarto.objects`` needs
numba.
"""

from __future__ import annotations

__all__ = ["Piece", "Player", "Quarto", "abstractmethod", "copy", "np"]

# As texts, because an agent's code fingerprint covers all that the packages around it import.
_MODULES = {
    "CLASSIC": "quarto.rules",
    "Game": "quarto.game",
    "Position": "quarto.views",
    "Rules": "quarto.rules",
    "Solution": "quarto.solver.solution",
    "SolvedTurn": "quarto.solver.solution",
    "Solver": "quarto.solver.solver",
    "solve": "quarto.solver.solver",
}


def __getattr__(name: str) -> object:
    """Import and return the object with the public name ``name``, or the module ``quarto.objects``.

    Every public name is thus available after ``import quarto``, but its module is loaded only when it is needed. Raises
    ``AttributeError`` for any other name.
    """
    from importlib import import_module

    if name == "__version__":
        from importlib.metadata import version

        return version("quarto-arena")
    if name in _MODULES:
        return getattr(import_module(_MODULES[name]), name)
    if name in {*__all__, "objects"}:
        objects = import_module("quarto.objects")
        return objects if name == "objects" else getattr(objects, name)
    raise AttributeError(f"module 'quarto' has no attribute {name!r}")


def __dir__() -> list[str]:
    names_of_others = {"abstractmethod", "copy", "np"}  # players of the Politecnico import them from here
    return sorted({"__version__", *__all__, *_MODULES} - names_of_others)
