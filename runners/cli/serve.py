"""``qarena serve``: pages in the browser."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from runners.cli.options import ARCHIVE, ArchiveOption


def serve(
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 is any that is free.")] = 8000,
    host: Annotated[
        str, typer.Option(help="The address to listen at. Any other than the default lets other machines connect.")
    ] = "127.0.0.1",
    name: Annotated[
        str | None, typer.Option(help="Your games are logged as human:NAME. Default: your login name.")
    ] = None,
    archive: ArchiveOption = ARCHIVE,
    config_dir: Annotated[
        Path | None, typer.Option("--config-dir", help="A folder with your own agents and rules, as for run.")
    ] = None,
) -> None:
    """Play, analyse, browse and ask in a browser (extra web)."""
    from runners.web.requested import ServeOptions
    from runners.web.start import serve as carry_out

    command = shlex.join(["qarena", *sys.argv[1:]])
    carry_out(ServeOptions(archive, host, port, name, config_dir, command))
