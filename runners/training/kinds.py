"""Kinds of policies: making one from its yaml, and calling it, which may be a user's own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from analytics.policies.derived.dataset import Dataset, Derivation, Learned, LearningDerivation, dataset_of
from analytics.policies.derived.streamed import GameStream
from analytics.query.selection import Selection
from quarto.errors import ArenaError, FailureError
from runners.arena.spec import made_of
from runners.hosting.child_program import raised_at

T = TypeVar("T")


def derivation_of(kind: str, settings: Mapping[str, Any]) -> Derivation:
    """The derivation that settings describe. Raises ``RequestError`` for invalid parameters."""
    derivation: Derivation = made_of(f"kind '{kind}'", settings, Derivation)
    return derivation


def source_of(derivation: Derivation, selection: Selection, order: Sequence[str] = ()) -> Dataset | GameStream:
    """The games of a selection as a derivation takes them: in memory, or read as it learns.

    ``order`` is as for ``dataset_of``, which raises the same errors.
    """
    return (GameStream if isinstance(derivation, LearningDerivation) else dataset_of)(selection, order)


def learned_from(derivation: Derivation, dataset: Any, threads: int) -> Learned:
    """The policy of the games that ``source_of`` gives, and how it was learned. Raises what the derivation raises."""
    if isinstance(derivation, LearningDerivation):
        return derivation.learn(dataset, threads)
    return Learned(derivation.derive(dataset, threads))


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
        raise FailureError(f"{described(kind, settings)} raised {reason}, at {raised_at(error)}") from error
