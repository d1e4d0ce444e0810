"""An archive in Azure Blob Storage, as its emulator Azurite speaks it: a program of npm, which no lock file has.

Without it on PATH nothing is tested here: ``npm install -g azurite``.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import shutil
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from email.utils import formatdate
from pathlib import Path, PurePath

import pytest

from analytics.files.backend import ObjectUrl
from tests.analytics.shared_archive import assert_writers_readers_and_upkeep_share_an_archive
from tests.object_storage import HOST, free_port

AZURITE = "azurite-blob"
ACCOUNT = "devstoreaccount1"  # of every Azurite, with the key that its documentation prints
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="

pytestmark = [
    pytest.mark.extras,
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which(AZURITE) is None, reason=f"{AZURITE} is not on PATH: npm install -g azurite"),
]


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PurePath]:
    port = free_port()
    command = [AZURITE, "--silent", "--location", str(tmp_path), "--blobPort", str(port), "--skipApiVersionCheck"]
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
    """Source: Azure's documentation, Authorize with Shared Key."""
    headers = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": "2021-08-06"}
    signed = "".join(f"{key}:{value}\n" for key, value in headers.items())
    text = "PUT" + 12 * "\n" + signed + f"/{ACCOUNT}/{ACCOUNT}/{name}\nrestype:container"
    signature = base64.b64encode(hmac.new(base64.b64decode(KEY), text.encode(), hashlib.sha256).digest()).decode()
    headers |= {"Authorization": f"SharedKey {ACCOUNT}:{signature}", "Content-Length": "0"}
    url = f"http://{HOST}:{port}/{ACCOUNT}/{name}?restype=container"
    urllib.request.urlopen(urllib.request.Request(url, method="PUT", headers=headers)).close()


def test_writers_readers_and_upkeep_share_an_archive_in_azure(root: PurePath) -> None:
    assert_writers_readers_and_upkeep_share_an_archive(root)
