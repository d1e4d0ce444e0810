"""An archive in Azure Blob Storage, as its emulator Azurite speaks it: a program of npm, which no lock file has.

``make test-extras`` installs it beside the virtual environment's libraries, where npm is there. Without it nothing is
tested here.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from email.utils import formatdate
from pathlib import Path, PurePath

import pytest

from analytics.store.files.backend import ObjectUrl
from tests.analytics.shared_archive import assert_writers_readers_and_upkeep_share_an_archive
from tests.object_storage import HOST, find_free_port

PLACES = os.pathsep.join((f"{sys.prefix}/azurite/node_modules/.bin", os.environ.get("PATH", os.defpath)))
AZURITE = shutil.which("azurite-blob", path=PLACES)
ACCOUNT = "devstoreaccount1"  # of every Azurite, with the key that its documentation prints
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="

pytestmark = [
    pytest.mark.extras,
    pytest.mark.skipif(AZURITE is None, reason="Azurite is not installed (make azurite, which needs npm)"),
]


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PurePath]:
    port = find_free_port()
    command = [str(AZURITE), "--silent", "--location", str(tmp_path), "--blobPort", str(port), "--skipApiVersionCheck"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            wait_for(port)
            make_container(port, "games")
            monkeypatch.setenv("AZURE_STORAGE_USE_EMULATOR", "true")
            monkeypatch.setenv("AZURITE_BLOB_STORAGE_URL", f"http://{HOST}:{port}")
            yield ObjectUrl("az:", "games") / "archive"
        finally:
            process.kill()


def wait_for(port: int) -> None:
    for _ in range(1200):
        with socket.socket() as probe:
            if probe.connect_ex((HOST, port)) == 0:
                return
        time.sleep(0.1)


def make_container(port: int, name: str) -> None:
    """Make a container. Source: Azure's documentation, Authorize with Shared Key."""
    headers = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": "2021-08-06"}
    signed = "".join(f"{key}:{value}\n" for key, value in headers.items())
    text = "PUT" + 12 * "\n" + signed + f"/{ACCOUNT}/{ACCOUNT}/{name}\nrestype:container"
    signature = base64.b64encode(hmac.new(base64.b64decode(KEY), text.encode(), hashlib.sha256).digest()).decode()
    headers |= {"Authorization": f"SharedKey {ACCOUNT}:{signature}", "Content-Length": "0"}
    url = f"http://{HOST}:{port}/{ACCOUNT}/{name}?restype=container"
    urllib.request.urlopen(urllib.request.Request(url, method="PUT", headers=headers)).close()


def test_writers_readers_and_upkeep_share_an_archive_in_azure(root: PurePath) -> None:
    assert_writers_readers_and_upkeep_share_an_archive(root)
