"""The side of the workers: making one from its setup, carrying out parts, and saying everything in messages of JSON."""

from __future__ import annotations

import importlib
import json
import logging
import os
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from quarto import hooks
from quarto.errors import ArenaError
from runners.executors.base import Worker

Say = Callable[[str], None]  # sends a message to the process that hands out work

_made: dict[str, Worker] = {}  # the last worker by its setup: making one anew for each part takes long


def carry_out(setup: str, part: Any, stop: threading.Event, say: Say) -> None:
    """Carry out a part by the worker of a setup; whatever happens is said in messages, the last of them an error."""
    with _heard(say):
        try:
            _worker(setup).carry_out(part, stop, lambda answer: say(_message("answer", answer)))
        except BaseException as error:  # noqa: BLE001  (raised again by the process that hands out work)
            say(_message("error", _described(error)))


def _worker(setup: str) -> Worker:
    if setup not in _made:
        _made.clear()
        _made[setup] = _new(json.loads(setup))
    return _made[setup]


def _new(setup: Mapping[str, Any]) -> Worker:
    """A worker, with relative paths and modules found as in the process that hands out work."""
    if Path(setup["folder"]).is_dir():  # another machine may lack it: absolute paths are then those that lead anywhere
        os.chdir(setup["folder"])
    sys.path.extend(folder for folder in setup["path"] if folder not in sys.path)
    module, _, name = setup["worker"].partition(":")
    made: Worker = getattr(importlib.import_module(module), name)(setup["spec"])
    return made


def _message(kind: str, content: Any) -> str:
    return json.dumps({"kind": kind, "content": content})


def _described(error: BaseException) -> dict[str, Any]:
    """The facts that the user's process needs to raise the error there."""
    return {
        "kind": next(
            (each.__name__ for each in type(error).__mro__ if each.__base__ is ArenaError), type(error).__name__
        ),
        "ours": isinstance(error, ArenaError),
        "text": str(error),
        "traceback": "".join(traceback.format_exception(error)),
    }


class _Forwarding(logging.Handler):
    """Sends log records to the process that hands out work, which has the user's log file."""

    def __init__(self, say: Say) -> None:
        super().__init__(logging.WARNING)
        self._say = say

    def emit(self, record: logging.LogRecord) -> None:
        trace = "".join(traceback.format_exception(record.exc_info[1])) if record.exc_info else None
        content = {"logger": record.name, "level": record.levelno, "text": record.getMessage(), "traceback": trace}
        self._say(_message("log", content))


@contextmanager
def _heard(say: Say) -> Iterator[None]:
    """Inside the context, what is logged is said, and so is that a kernel is compiled."""
    handler, root = _Forwarding(say), logging.getLogger()
    before, hooks.before_compiling = hooks.before_compiling, lambda: say(_message("compiling", None))
    root.addHandler(handler)
    try:
        yield
    finally:
        root.removeHandler(handler)
        hooks.before_compiling = before
