"""A policy in memory: a table or parameters learned from games, in the form that all its players read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

GENOME = "genome"  # the kind without a table: its parameters are those of a player


@dataclass(frozen=True)
class Policy:
    """A learned policy, ready to be stored: the same knowledge is the same bytes, however it was learned.

    ``table`` has columns of one length, of signed integers or float64. The order of its rows depends on their contents
    alone. Values are in its only column of float64 or, if there is none, in the column ``count``.
    """

    kind: str  # decides what columns and parameters mean, and so which players can read it
    parameters: Mapping[str, float] = field(default_factory=dict)
    table: Mapping[str, NDArray[Any]] = field(default_factory=dict)


def checked_columns(policy: Policy, kind: str, player: str, names: Mapping[str, type[Any]]) -> list[NDArray[Any]]:
    """The named columns of a policy of this kind, each as int64 or float64 as ``names`` says, in their order.

    Raises ``ValueError`` if the policy is of another kind. It also does if a column is missing, has another type or
    length than it should have, or is not finite.
    """
    if not isinstance(policy, Policy):
        raise ValueError(f"policy={policy!r} is not a policy; {player} reads one of kind '{kind}'")
    if policy.kind != kind:
        raise ValueError(f"policy of kind '{policy.kind}' is for other players; {player} reads '{kind}'")
    return [_checked_column(policy, name, type_, next(iter(names))) for name, type_ in names.items()]


def _checked_column(policy: Policy, name: str, type_: type[Any], first: str) -> NDArray[Any]:
    """One column, as long as the first, as [rows] int64 or float64."""
    if name not in policy.table:
        columns = ", ".join(policy.table) or "none"
        raise ValueError(f"policy of kind '{policy.kind}' has no column '{name}'; its columns: {columns}")
    column, length = np.asarray(policy.table[name]), len(policy.table[first])
    if column.dtype.kind != ("i" if type_ is np.int64 else "f") or column.ndim != 1:
        numbers = "integers" if type_ is np.int64 else "floats"
        raise ValueError(f"column '{name}' of a policy is {column.dtype} {column.shape}, not one row of {numbers}")
    if len(column) != length:
        raise ValueError(f"column '{name}' of a policy has {len(column)} rows, and '{first}' has {length}")
    if type_ is np.float64 and not np.isfinite(column).all():
        row = int(np.argmin(np.isfinite(column)))
        raise ValueError(f"column '{name}' of a policy is {column[row]} in row {row}, where a finite number belongs")
    return np.ascontiguousarray(column, type_)
