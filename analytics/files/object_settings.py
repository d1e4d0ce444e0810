"""The settings of object storage: all come from the environment, and none is ever stored, logged or shown."""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

from quarto.errors import RequestError

# By scheme: the variables that may name an endpoint, and the one that allows HTTP to another machine.
ENDPOINTS = {"s3": ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"), "gs": ("GOOGLE_BASE_URL",)}
ALLOW_HTTP = {"s3": "AWS_ALLOW_HTTP", "gs": "GOOGLE_ALLOW_HTTP"}
TIMEOUT = "QARENA_STORE_TIMEOUT"  # seconds of one request
PATIENCE = "QARENA_STORE_PATIENCE"  # seconds in which a request is repeated
FIRST_SECONDS = 5.0  # the same for a store that has not answered yet
RETRIES = 10
LOCAL_HOSTS = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True)
class StoreSettings:
    """The settings with which a store is reached; credentials are read from the environment by the libraries alone."""

    scheme: str
    endpoint: str  # nothing: the provider's own
    allow_http: bool
    timeout: float  # seconds
    patience: float  # seconds

    @staticmethod
    def of_environment(scheme: str) -> StoreSettings:
        """Raises ``RequestError`` for a value that is no number, and for an endpoint that is not encrypted."""
        endpoint = next((os.environ[name] for name in ENDPOINTS.get(scheme, ()) if os.environ.get(name)), "")
        parts, allow = urlsplit(endpoint), ALLOW_HTTP.get(scheme, "")
        said = os.environ.get(allow, "").lower() in ("1", "true", "yes")
        if endpoint and (parts.scheme not in ("http", "https") or not parts.hostname):
            raise RequestError(f"the endpoint {_shown(endpoint)} is not a URL: write https://HOST:PORT")
        local = parts.hostname in LOCAL_HOSTS
        if parts.scheme == "http" and not (local or said):
            raise RequestError(
                f"the endpoint {_shown(endpoint)} is not encrypted: write https://, or allow it with {allow}=true"
            )
        times = _seconds(TIMEOUT, 60.0), _seconds(PATIENCE, 120.0)
        return StoreSettings(scheme, _shown(endpoint), parts.scheme == "http", *times)

    def client_options(self) -> dict[str, Any]:
        """The options of obstore's connections."""
        options: dict[str, Any] = {"timeout": timedelta(seconds=self.timeout)}
        options["connect_timeout"] = timedelta(seconds=min(5.0, self.timeout))
        return options | ({"allow_http": True} if self.allow_http else {})

    def retries(self) -> dict[str, Any]:
        """The repeats of what fails in passing (429, 5xx, lost connections): after random, ever longer pauses."""
        return {"max_retries": RETRIES, "retry_timeout": timedelta(seconds=self.patience)}

    def first_retries(self) -> dict[str, Any]:
        """The same for the first request."""
        return {"max_retries": RETRIES, "retry_timeout": timedelta(seconds=min(FIRST_SECONDS, self.patience))}

    def polars_options(self) -> dict[str, Any]:
        """The arguments that Polars' own reader needs; it reads the rest from the environment.

        Without ``credential_provider=None`` Polars asks Google's and Amazon's libraries for credentials where these are
        installed. They read other variables than obstore, which writes the archive.
        """
        options: dict[str, str] = {}
        if self.scheme == "s3":
            options |= {"aws_endpoint_url": self.endpoint} if self.endpoint else {}
            options |= {"aws_allow_http": "true"} if self.allow_http else {}
        return {"storage_options": options, "credential_provider": None}


def _seconds(name: str, default: float) -> float:
    text = os.environ.get(name)
    if not text:
        return default
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise RequestError(f"{name}={text} is not a time: write a number of seconds above 0")
    return seconds


def _shown(endpoint: str) -> str:
    """An endpoint without the user and password that it may hold."""
    parts = urlsplit(endpoint)
    return endpoint.replace(parts.netloc, parts.netloc.rpartition("@")[2], 1) if "@" in parts.netloc else endpoint
