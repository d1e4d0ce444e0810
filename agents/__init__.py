"""Players, and what authors of players need. A player is a file here, a yaml in ``conf/agent``, and a test.

An agent is a class with ``choose(position, rng)``, a ``BatchAgent`` with ``play``, or a ``KernelAgent`` with a jitted
``turn``. ``__init__.pyi`` has the types of the public names, which are loaded when they are asked for.
"""

from __future__ import annotations

# As texts, because an agent's code fingerprint covers all that the packages around it import.
_MODULES = {
    "BatchAgent": "agents.base.agent",
    "BatchView": "quarto.views",
    "GameAgent": "agents.base.agent",
    "KernelAgent": "agents.base.agent",
    "Knowledge": "agents.base.agent",
    "Position": "quarto.views",
    "turn": "agents.base.agent",
}

__all__ = [
    "BatchAgent",
    "BatchView",
    "GameAgent",
    "KernelAgent",
    "Knowledge",
    "Position",
    "__version__",
    "turn",
]


def __getattr__(name: str) -> object:
    """Import and return a public name of this package when it is first asked for."""
    from importlib import import_module

    if name == "__version__":
        from importlib.metadata import version

        return version("quarto-arena")
    if name in _MODULES:
        return getattr(import_module(_MODULES[name]), name)
    raise AttributeError(f"module 'agents' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
