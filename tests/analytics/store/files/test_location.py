"""Names of archives, and the settings of object storage, without a store."""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import chain
from pathlib import Path

import pytest

from analytics.store.files.backend import (
    ALLOW_HTTP_VARIABLES,
    ENDPOINT_VARIABLES,
    ObjectUrl,
    StoreOptions,
    format_archive_option,
    parse_location,
)
from quarto.errors import MissingExtraError, RequestError


@pytest.mark.parametrize(
    "name", [b"plain", b"with space", "d\u00e9j\u00e0".encode(), b"**\xef", b"a'b\\c\n\x1b[31m$(x)\xff"]
)
def test_bash_reads_the_option_as_the_name_that_it_was(name: bytes) -> None:
    option = format_archive_option(Path(os.fsdecode(name)))
    assert option.isprintable()
    read = subprocess.run(
        ["bash", "-c", f"printf %s{option.removeprefix(' --archive')}"], capture_output=True, check=True
    )
    assert read.stdout == name


def test_a_folder_is_a_path_and_a_url_is_taken_apart_and_shown_as_it_was_typed() -> None:
    for text in ("data/archive", "/a/b", "s3", "a:b", "s3-archive", "C:/games", "."):
        assert parse_location(text) == Path(text)
        assert isinstance(parse_location(text), Path)
    for text, bucket, key in (
        ("s3://games/2026/archive", "games", "2026/archive"),
        ("s3://games", "games", ""),
        ("s3://games/", "games", ""),
        ("gs://my_games/a/", "my_games", "a"),
        ("az://games/run=1/a.b-c_d", "games", "run=1/a.b-c_d"),
    ):
        url = parse_location(text)
        assert isinstance(url, ObjectUrl)
        assert (url.scheme, url.bucket, url.key) == (text[:2], bucket, key)
        assert str(url) == text.rstrip("/")
        assert parse_location(str(url)) == parse_location(url) == parse_location(Path(text)) == url
        child = url / "runs" / "x.json"
        assert str(child) == f"{text.rstrip('/')}/runs/x.json"
        assert str(child.relative_to(url)) == child.relative_to(url).as_posix() == "runs/x.json"
        with pytest.raises(TypeError, match="not a file of this machine"):
            open(child)  # noqa: SIM115, PTH123


def test_a_home_folder_is_expanded_if_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ada")
    assert parse_location("~/games") == Path("/home/ada/games")
    assert parse_location(Path("~")) == Path("/home/ada")
    assert parse_location("~nobody_of_this_name/games") == Path("~nobody_of_this_name/games")
    assert parse_location("a/~/b") == Path("a/~/b")


def test_a_malformed_url_is_refused_in_one_line() -> None:
    for text, complaint in {
        "http://host/archive": "http:// is not a kind of archive: name a folder, or s3://, gs:// or az://",
        "s3a://games/a": "s3a:// is not a kind of archive",
        **dict.fromkeys(("s3://", "s3:///archive", "s3://ab/a", "s3://key:word@games/a"), "does not name a bucket"),
        "s3://Games/a": "'Games' does not have 3 to 223 of a-z",
        **dict.fromkeys(
            (f"s3://games/{key}" for key in ("a//b", "a*", "a b", "../b", "a?x=1")), "has a prefix that cannot be used"
        ),
    }.items():
        with pytest.raises(RequestError) as caught:
            parse_location(text)
        assert complaint in str(caught.value)
        assert "\n" not in str(caught.value)


@pytest.fixture
def settings(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name in (*chain(*ENDPOINT_VARIABLES.values()), *ALLOW_HTTP_VARIABLES.values()):
        monkeypatch.delenv(name, raising=False)
    return monkeypatch


def test_without_a_word_connections_are_encrypted(settings: pytest.MonkeyPatch) -> None:
    options = StoreOptions.from_environment_without_credentials("s3")
    assert (options.endpoint, options.allow_http) == ("", False)
    assert "allow_http" not in options.client_options()
    settings.setenv("AWS_ENDPOINT", "https://minio.example:9000")
    assert StoreOptions.from_environment_without_credentials("s3").polars_arguments()["storage_options"] == {
        "aws_endpoint_url": "https://minio.example:9000"
    }
    assert StoreOptions.from_environment_without_credentials("gs").endpoint == ""
    settings.setenv("GOOGLE_BASE_URL", "https://google.example")
    assert StoreOptions.from_environment_without_credentials("gs").endpoint == "https://google.example"
    assert (
        StoreOptions.from_environment_without_credentials("gs").polars_arguments()["storage_options"] == {}
    )  # Polars reads it by itself


def test_this_machine_may_be_reached_by_http_and_another_one_only_when_that_is_said(
    settings: pytest.MonkeyPatch,
) -> None:
    for host in ("localhost", "127.0.0.1", "[::1]"):
        settings.setenv("AWS_ENDPOINT_URL", f"http://{host}:9000")
        assert StoreOptions.from_environment_without_credentials("s3").client_options()["allow_http"]
        settings.setenv("GOOGLE_BASE_URL", f"http://{host}:4443")
        assert StoreOptions.from_environment_without_credentials("gs").client_options()["allow_http"]
    settings.setenv("AWS_ENDPOINT_URL", "http://me:word@minio.example:9000")
    with pytest.raises(
        RequestError, match=r"http://minio\.example:9000 is not encrypted.*AWS_ALLOW_HTTP=true"
    ) as caught:
        StoreOptions.from_environment_without_credentials("s3")
    assert "word" not in str(caught.value)
    settings.setenv("AWS_ALLOW_HTTP", "true")
    assert (
        StoreOptions.from_environment_without_credentials("s3").polars_arguments()["storage_options"]["aws_allow_http"]
        == "true"
    )
    assert "word" not in repr(StoreOptions.from_environment_without_credentials("s3"))

    settings.setenv("GOOGLE_BASE_URL", "http://google.example")
    with pytest.raises(RequestError, match=r"http://google\.example is not encrypted.*GOOGLE_ALLOW_HTTP=true"):
        StoreOptions.from_environment_without_credentials("gs")
    settings.setenv("GOOGLE_ALLOW_HTTP", "true")
    assert StoreOptions.from_environment_without_credentials("gs").client_options()["allow_http"]


def test_a_wrong_setting_is_refused(settings: pytest.MonkeyPatch) -> None:
    for name, value, complaint in (
        ("QARENA_STORE_PATIENCE", "-1", "QARENA_STORE_PATIENCE=-1 is not a time"),
        ("QARENA_STORE_TIMEOUT", "soon", "QARENA_STORE_TIMEOUT=soon is not a time"),
        ("AWS_ENDPOINT_URL", "minio:9000", "the endpoint minio:9000 is not a URL: write https://HOST:PORT"),
    ):
        settings.setenv(name, value)
        with pytest.raises(RequestError, match=complaint):
            StoreOptions.from_environment_without_credentials("s3")


def test_without_the_library_one_line_says_what_to_install(settings: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("analytics.store.files.object")]:
        settings.delitem(sys.modules, name)
    from analytics.store.files import local_files

    settings.setitem(sys.modules, "obstore", None)
    local_files._find_object_backend.cache_clear()
    settings.setenv("AWS_ENDPOINT_URL", "http://localhost:1")
    with pytest.raises(
        MissingExtraError, match=r"an archive on object storage needs obstore: install its extra: .*\[s3\]"
    ):
        local_files.find_backend(ObjectUrl("s3:", "games"))
