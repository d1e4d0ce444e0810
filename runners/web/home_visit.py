"""One visit of the home page, from the start of the server to its end, which `qarena bench --growth` measures."""

from __future__ import annotations

import threading
import time
import urllib.request
from pathlib import Path

import uvicorn

from quarto.errors import FailureError
from runners.web.application import build_application
from runners.web.server import listen
from runners.web.site import ServerOptions

HOST = "127.0.0.1"
RELOAD_SECONDS, PATIENCE_SECONDS = 0.05, 600.0
ARCHIVE_HEADING = b"Latest runs"  # the page has it once the archive is open


def visit_home_page(archive: str) -> None:
    """Serve the archive in this folder, load the home page until it shows the archive, and stop the server.

    Raises ``FailureError`` if the archive is not open after ten minutes.
    """
    with listen(HOST, 0) as listening:
        port = listening.getsockname()[1]
        options = ServerOptions(
            archive=Path(archive),
            host=HOST,
            port=port,
            name="visitor",
            config_dir=None,
            trust_agents=False,
            command="qarena bench",
        )
        server = uvicorn.Server(uvicorn.Config(build_application(options), log_level="error", ws="none"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            _load_until_archive_is_shown(f"http://{HOST}:{port}/")
        finally:
            server.should_exit = True
            thread.join()


def _load_until_archive_is_shown(url: str) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        with urllib.request.urlopen(url) as response:  # noqa: S310  (our own server)
            if ARCHIVE_HEADING in response.read():
                return
        time.sleep(RELOAD_SECONDS)
    raise FailureError(f"the home page does not show the archive after {PATIENCE_SECONDS:.0f} s: see 'qarena serve'")
