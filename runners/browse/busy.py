"""The error of a server that answers others first."""

from __future__ import annotations

from quarto.errors import FailureError


class BusyError(FailureError):
    """Others are served first: the same request may succeed in a moment."""
