"""`qarena serve`: bind the port, print the address, and serve until Ctrl-C or a termination signal."""

from __future__ import annotations

import errno
import signal
import socket
from contextlib import suppress
from pathlib import Path, PurePath

from analytics.store.marker import check_is_or_can_become_archive
from quarto.errors import FailureError, RequestError, require_extra
from runners.config.yaml_options import use_config_dir
from runners.hosting.interruption import exit_code, flush_and_exit, handle_signals
from runners.play.game_series import find_login_name
from runners.terminal.console import print_line

SHUTDOWN_SECONDS = 2  # after Ctrl-C, for requests that are being answered


def serve(
    archive_root: PurePath,
    host: str,
    port: int,
    name: str | None,
    config_dir: Path | None,
    trust_agents: bool,
    command: str,
) -> None:
    """Serve the pages until a signal ends the process.

    ``name`` is the person's name in logged games; None stands for the login name. ``command`` is what was typed or
    called, and is recorded in logged games. Raises ``RequestError`` if the address or the port cannot be used, or if
    ``trust_agents`` is true although other machines can connect. Raises ``MissingExtraError`` if the extra ``web`` is
    not installed.
    """
    with require_extra("web", "qarena serve"):
        import python_multipart  # noqa: F401  (which reads forms)
        import uvicorn

        from runners.web.application import build_application
        from runners.web.site import ServerOptions
    check_is_or_can_become_archive(archive_root)
    with use_config_dir(config_dir):  # refuses an invalid folder before the port is bound
        pass
    listening = listen(host, port)
    settings = ServerOptions(
        archive=archive_root,
        host=host,
        port=listening.getsockname()[1],
        name=name or find_login_name(),
        config_dir=config_dir,
        trust_agents=trust_agents,
        command=command,
    )
    if trust_agents and not settings.local:
        listening.close()
        raise RequestError(f"--trust-agents with --host {host}: whoever connects could run code here; leave one out")
    with listening:
        shown_host = f"[{host}]" if ":" in host else host
        print_line(f"Play, analyse, browse and ask at http://{shown_host}:{settings.port}/ (Ctrl-C ends)")
        if not settings.local:
            print_line(
                "Other machines can connect: whoever reaches this address can play, ask and use this machine's time."
            )
        config = uvicorn.Config(
            build_application(settings),
            log_level="warning",
            access_log=False,
            server_header=False,
            ws="none",
            timeout_graceful_shutdown=SHUTDOWN_SECONDS,
            proxy_headers=False,
        )
        server = uvicorn.Server(config)
        # Uvicorn handles Ctrl-C and SIGTERM itself, and raises them again after it has shut down.
        with suppress(KeyboardInterrupt), handle_signals(server.handle_exit, signal.SIGHUP):
            server.run(sockets=[listening])
        # A server that has started ends only by a signal. Nothing waits for an agent's turn: it cannot be interrupted.
        flush_and_exit(exit_code() if server.started else FailureError.exit_code)


def listen(host: str, port: int) -> socket.socket:
    """Open a listening socket; port 0 lets the system choose a port.

    Raises ``RequestError`` if the address or the port cannot be used.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, protocol)
    except OSError as error:
        raise RequestError(f"--host {host} is not an address of this machine ({error.strerror})") from error
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(2048)
    except OSError as error:
        listener.close()
        raise RequestError(_describe_listen_error(host, port, error)) from error
    return listener


def _describe_listen_error(host: str, port: int, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return (
            f"port {port} of {host} is in use, perhaps by another qarena serve: choose another one, --port {port + 1}"
        )
    if error.errno == errno.EACCES:
        return f"port {port} needs the rights of an administrator: choose one above 1023, such as --port 8000"
    return f"--host {host} is not an address of this machine ({error.strerror}): leave it out for 127.0.0.1"
