"""Parameters as people type them, and checks of them.

Each check returns the value, or raises an error that says what is wrong in one line.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from math import inf, isfinite
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from msgspec import Meta

Probability = Annotated[float, Meta(ge=0, le=1)]


def format_parameter(value: Any) -> str:
    """Format a value as users type it on the command line: ``null``, ``true``, ``[1,2]``."""
    if value is None or isinstance(value, bool | list | dict):
        return json.dumps(value, separators=(",", ":"))
    return str(value)


def check_flag(name: str, value: bool) -> bool:
    """Return ``value``, or raise ``ValueError`` if it is neither true nor false.

    ``name`` names the value in the message.
    """
    if not isinstance(value, bool):
        raise ValueError(f"{name}={value!r} is neither true nor false")
    return value


def check_number(name: str, value: float) -> float:
    """Return ``value`` as a float, or raise ``ValueError`` if it is not a finite number.

    ``name`` names the value in the message.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not isfinite(value):
        raise ValueError(f"{name}={value!r} is not a finite number")
    return float(value)


def check_probability(name: str, value: float) -> float:
    """Return ``value`` as a float, or raise ``ValueError`` if it is not a number from 0 to 1.

    ``name`` names the value in the message.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 1:
        raise ValueError(f"{name}={value!r} is not a probability from 0 to 1")
    return float(value)


def check_integer(name: str, value: int, least: int, most: int) -> int:
    """Return ``value``, or raise ``ValueError`` if it is not a whole number from ``least`` to ``most``.

    ``name`` names the value in the message.
    """
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise ValueError(f"{name}={value!r} is not a whole number from {least} to {most}")
    return value


def check_one_of(name: str, value: str, valid: Sequence[str]) -> str:
    """Return ``value``, or raise ``ValueError`` if it is not one of ``valid``.

    ``name`` names the value in the message.
    """
    if value not in valid:
        raise ValueError(f"{name}={value!r} is not one of {', '.join(valid)}")
    return value


def check_version(version: str, faithful: bool, valid: Sequence[str]) -> str:
    """Return ``version`` after checking that it exists and that a player with this ``faithful`` may have it.

    ``valid`` lists the versions of a study's program, the newest first. Only a player with ``faithful`` follows the
    program, so an older version has no meaning without ``faithful``. Raises ``ValueError`` if ``version`` is not in
    ``valid``, or if it is an older version and ``faithful`` is False.
    """
    if version != valid[0] and version in valid and not faithful:
        raise ValueError(f"version={version!r} is a version of the study's code: it needs faithful=true")
    return check_one_of("version", version, valid)


def check_fields(record: Any) -> None:
    """Check the fields of a dataclass against their types, which declare the valid values.

    A ``bool`` must be true or false, a ``float`` a finite number. ``Annotated[int, Meta(ge=1, le=16)]`` declares a
    range and ``Annotated[float, Meta(ge=0)]`` a minimum. ``Probability`` is a number from 0 to 1, and ``Annotated[str,
    WORDS]`` one of the words in ``WORDS``. None is valid if the type includes it. Raises ``ValueError`` for an invalid
    field.
    """
    for name, hint in get_type_hints(type(record), include_extras=True).items():
        type_, declared = get_args(hint) if get_origin(hint) is Annotated else (hint, None)
        value, types = getattr(record, name), get_args(type_) or (type_,)
        if value is None and type(None) in types:
            continue
        if bool in types:
            check_flag(name, value)
        elif hint is Probability:
            check_probability(name, value)
        elif float in types and check_number(name, value) < (declared.ge if declared else -inf):
            raise ValueError(f"{name}={value} is below {declared.ge}")
        elif int in types and declared:
            check_integer(name, value, declared.ge, declared.le)
        elif str in types and declared:
            check_one_of(name, value, declared)
