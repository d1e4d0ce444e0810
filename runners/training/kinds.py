"""Kinds of policies: making one from its yaml, and calling it, which may be a user's own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from analytics.policies.derived.dataset import Derivation
from quarto.errors import ArenaError, FailureError
from runners.arena.spec import made_of
from runners.contestants.places import place_of

T = TypeVar("T")


def derivation_of(kind: str, settings: Mapping[str, Any]) -> Derivation:
    """The derivation that settings describe. Raises ``RequestError`` for invalid parameters."""
    derivation: Derivation = made_of(f"kind '{kind}'", settings, Derivation)
    return derivation


def described(kind: str, settings: Mapping[str, Any]) -> str:
    """The kind and its class, for messages."""
    return f"kind '{kind}' ({settings['_target_']})"


def guarded(kind: str, settings: Mapping[str, Any], call: Callable[[], T]) -> T:
    """The result of a call of a kind. Raises ``FailureError`` for whatever it raises but ``ArenaError``."""
    try:
        return call()
    except ArenaError:
        raise
    except Exception as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise FailureError(f"{described(kind, settings)} raised {reason}, at {place_of(error)}") from error
