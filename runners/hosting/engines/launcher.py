"""Starts a program that ends with this run.

The command is ``python -m runners.hosting.engines.launcher LIFELINE MEGABYTES PATH PROGRAM …``.

``MEGABYTES`` is empty if memory has no limit, and limits it on Linux only. ``PATH`` is the user's own PYTHONPATH:
another Python may run the engine.
"""

from __future__ import annotations

import os
import sys

from runners.hosting.subprocess_program import bind_to_run


def _main(lifeline: str, megabytes: str, python_path: str, *command: str) -> None:
    os.set_inheritable(int(lifeline), True)
    bind_to_run(int(lifeline))
    if megabytes and sys.platform == "linux":
        import resource

        most = int(megabytes) << 20
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
    os.environ["PYTHONPATH"] = python_path
    os.execvp(command[0], command)  # noqa: S606  (the program that the user named)


if __name__ == "__main__":
    _main(*sys.argv[1:])
