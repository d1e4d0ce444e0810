"""Records of any format as plain JSON values, for the upgrade of an archive.

The classes of records describe the present format only.
"""

from __future__ import annotations

import json
from pathlib import PurePath
from typing import Any

from analytics.store.files.backend import Backend, explain_errors
from analytics.store.records import CHECKSUM, RESTORE_REMEDY, add_checksum
from quarto.errors import FailureError

RecordValues = dict[str, Any]  # of a record, without its checksum


def read_record_and_check_checksum(
    backend: Backend, path: PurePath, required_integer_key: str | None = None
) -> RecordValues:
    """Read the values of a record, and check its checksum.

    If ``required_integer_key`` is given, the record must have an integer under this key: the number of its format.
    Raises ``FailureError`` if the record is damaged, because a damaged record must not get a new checksum.
    """
    with explain_errors("read", path):
        content = backend.read(path)
    try:
        values: RecordValues = json.loads(content)
        checksum = values.pop(CHECKSUM)
        is_sound = checksum == add_checksum(values)[CHECKSUM]
        is_sound = is_sound and (required_integer_key is None or type(values[required_integer_key]) is int)
    except (ValueError, KeyError, AttributeError, RecursionError, TypeError):
        is_sound = False
    if not is_sound:
        raise FailureError(f"{path} is damaged: {RESTORE_REMEDY}")
    return values


def write_record_with_checksum(backend: Backend, path: PurePath, values: RecordValues) -> None:
    """Replace the record at ``path`` by a record with ``values`` and their checksum.

    Raises ``OSError`` if the record cannot be written.
    """
    backend.replace(path, (json.dumps(add_checksum(values), ensure_ascii=False, indent=1) + "\n").encode())
