"""Errors of object storage as ``OSError``, each with a reason of one line that says what to do."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import PurePath

from analytics.files.backend import ObjectUrl
from analytics.files.object_settings import StoreSettings
from quarto.errors import of_extra

with of_extra("s3", "an archive on object storage"):
    from obstore.exceptions import (
        AlreadyExistsError,
        BaseError,
        PermissionDeniedError,
        PreconditionError,
        UnauthenticatedError,
    )

_NO_BUCKET = ("NoSuchBucket", "ContainerNotFound", "The specified bucket does not exist")
_REFUSED = ("AccessDenied", "InvalidAccessKeyId", "SignatureDoesNotMatch", "InvalidToken", "ExpiredToken", "Forbidden")
_NO_CREDENTIALS = ("169.254.169.254", "metadata.google.internal", "metadata server", "must be specified")
VARIABLES = {
    "s3": "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
    "gs": "GOOGLE_APPLICATION_CREDENTIALS",
    "az": "AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY",
}
_STATUS = re.compile(r"status code: (\d{3}) ?([A-Za-z -]*)")
_IN_PASSING = re.compile(r"5\d\d|429|408")


@contextmanager
def explained(path: PurePath, settings: StoreSettings) -> Iterator[None]:
    """Turn the library's errors inside into ``OSError``.

    ``FileNotFoundError``: no such object. ``FileExistsError``: a condition was not met. ``PermissionError``: the
    credentials or their rights. ``ConnectionError``: no answer, or none in time, or one that may change.
    """
    try:
        yield
    except (BaseError, OSError, ValueError) as error:
        raise _error(path, settings, error) from error


def _error(path: PurePath, settings: StoreSettings, error: Exception) -> OSError:
    text, store = str(error), f"the store at {settings.endpoint}" if settings.endpoint else "the store"
    status = _STATUS.search(text)
    refused = next((code for code in _REFUSED if code in text), status[1] if status else "")
    if any(code in text for code in _NO_BUCKET):
        bucket = path.bucket if isinstance(path, ObjectUrl) else path
        return OSError(f"{store} has no bucket {bucket}: name another one, or make it first")
    if any(code in text for code in _NO_CREDENTIALS):
        scheme = path.scheme if isinstance(path, ObjectUrl) else ""
        return PermissionError(f"there are no credentials: set {VARIABLES.get(scheme, 'those of the store')}")
    if isinstance(error, PermissionDeniedError | UnauthenticatedError) or refused in _REFUSED:
        return PermissionError(f"{store} refuses it ({refused}): check the credentials and their rights")
    if isinstance(error, FileNotFoundError):
        return FileNotFoundError(f"{path} does not exist")
    if isinstance(error, AlreadyExistsError | PreconditionError):
        return FileExistsError(f"{path} was written by another writer")
    return _answer(text, status, store, settings)


def _answer(text: str, status: re.Match[str] | None, store: str, settings: StoreSettings) -> OSError:
    """The error for an answer that is none of the expected ones, or for none."""
    if status:
        what = f"{store} answers {status[1]} {status[2]}".strip()
        return ConnectionError(f"{what}: try again later") if _IN_PASSING.fullmatch(status[1]) else OSError(what)
    if re.search("timed out|kind: Timeout", text):
        return ConnectionError(f"{store} took more than {settings.timeout:g} s to answer: try again later")
    if re.search("sending request|[Cc]onnect|HTTP error", text):
        return ConnectionError(f"{store} does not answer: is the address right, and the server running?")
    return OSError(" ".join(text.partition("Debug source")[0].split())[:300])
