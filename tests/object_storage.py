"""A server that speaks S3, and a proxy in front of it that loses, delays and refuses what it is told to."""

from __future__ import annotations

import http.client
import os
import socket
import subprocess
import sys
import time
import urllib.request
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path, PurePath
from threading import Lock, Thread
from typing import Any, NamedTuple

import pytest

from analytics.store.files.backend import ObjectUrl

HOST = "127.0.0.1"
SECRET = "do-not-show-this"  # noqa: S105  (of nobody)
# The parameter of a test that is to pass with both backends.
BOTH = pytest.mark.parametrize("archive", ["local", pytest.param("s3", marks=pytest.mark.extras)], indirect=True)


def find_root(request: pytest.FixtureRequest, tmp_path: Path) -> PurePath:
    """Return an archive's root for a fixture of which ``BOTH`` is the parameter: in a folder, or in a bucket."""
    if getattr(request, "param", "local") == "local":
        return tmp_path / "archive"
    bucket: PurePath = request.getfixturevalue("bucket")
    return bucket / "archive"


def build_s3_environment(port: int) -> dict[str, str]:
    """Return the variables by which a client finds the server, or the proxy, at a port."""
    return {
        "AWS_ACCESS_KEY_ID": "tester",
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": f"http://{HOST}:{port}",
    }


def find_free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


@contextmanager
def start_server() -> Iterator[int]:
    """Start the server, and yield its port."""
    port = find_free_port()
    command = [sys.executable, "-m", "moto.server", "-H", HOST, "-p", str(port)]
    own = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    with subprocess.Popen(command, env=own, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            for _ in range(600):
                with socket.socket() as probe:
                    if probe.connect_ex((HOST, port)) == 0:
                        break
                time.sleep(0.05)
            yield port
        finally:
            process.kill()


def create_bucket(port: int) -> ObjectUrl:
    """Create an empty bucket."""
    name = f"games-{uuid.uuid4().hex[:12]}"
    urllib.request.urlopen(urllib.request.Request(f"http://{HOST}:{port}/{name}", method="PUT")).close()
    return ObjectUrl("s3:", name)


def remove_bucket(port: int, bucket: ObjectUrl) -> None:
    """Remove an empty bucket."""
    urllib.request.urlopen(urllib.request.Request(f"http://{HOST}:{port}/{bucket.bucket}", method="DELETE")).close()


Fault = Callable[[str, str], str | None]  # of a method and a path: what goes wrong, or nothing
Headers = dict[str, str]  # names in small letters


class Answer(NamedTuple):
    status: int
    headers: Headers
    content: bytes


Ask = Callable[[str, str, Headers, bytes], Answer]  # a method, a path, headers and a body


def connect_to_server(port: int) -> Ask:
    """Return a function that asks the server at a port."""

    def ask(method: str, path: str, headers: Headers, body: bytes) -> Answer:
        connection = http.client.HTTPConnection(HOST, port, timeout=60)
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        content = answer.read()
        connection.close()
        return Answer(answer.status, {name.lower(): value for name, value in answer.getheaders()}, content)

    return ask


@dataclass
class Proxy:
    """Passes requests on to the server, unless something goes wrong with them.

    ``fault`` says what goes wrong with a request: ``drop`` (it never arrives), ``lose`` (it is carried out, and its
    answer lost), ``slow`` (the answer takes ``delay`` seconds), ``cut`` (half of the answer arrives), ``unconditional``
    (its conditions are ignored), or a status such as ``503``, with which it is answered.
    """

    port: int
    fault: Fault = lambda method, path: None
    delay: float = 1.0
    requests: list[str] = field(default_factory=list)  # methods and paths
    faults: Counter[str] = field(default_factory=Counter)


@contextmanager
def start_proxy(ask: Ask) -> Iterator[Proxy]:
    """Run a proxy in front of the server that ``ask`` asks."""
    lock = Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True  # an answer's headers and content are two packets

        def log_message(self, format: str, *arguments: Any) -> None:  # noqa: A002
            """Say nothing."""

        def handle_one(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            with lock:
                front.requests.append(f"{self.command} {self.path}")
                fault = front.fault(self.command, self.path)
                front.faults.update([fault] if fault else [])
            if fault == "drop":
                return self._hang_up()
            if fault and fault.isdigit():
                return self._answer(Answer(int(fault), {}, b"<Error><Code>SlowDown</Code></Error>"))
            headers = {name.lower(): value for name, value in self.headers.items()}
            if fault == "unconditional":
                headers = {name: value for name, value in headers.items() if not name.startswith("if-")}
            answer = ask(self.command, self.path, headers, body)
            if fault == "lose":
                return self._hang_up()
            if fault == "slow":
                time.sleep(front.delay)
            self._answer(answer, len(answer.content) // 2 if fault == "cut" else None)
            return self._hang_up() if fault == "cut" else None

        def _hang_up(self) -> None:
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)

        def _answer(self, answer: Answer, most: int | None = None) -> None:
            try:
                self.send_response(answer.status)
                for name, value in ({"content-length": str(len(answer.content))} | answer.headers).items():
                    if name not in ("connection", "transfer-encoding", "date", "server"):
                        self.send_header(name, value)
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(answer.content[:most])
            except OSError:  # the client did not wait
                self.close_connection = True

        do_GET = do_PUT = do_HEAD = do_DELETE = do_POST = handle_one  # noqa: N815

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 64

        def handle_error(self, *_: Any) -> None:
            """Print nothing, because a client that hangs up is what is tested."""

    with Server((HOST, 0), Handler) as listening:
        front = Proxy(listening.server_port)
        thread = Thread(target=listening.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        try:
            yield front
        finally:
            listening.shutdown()
            thread.join()
