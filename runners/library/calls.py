"""Calls of Python as commands: their words, the checked configuration, and taking turns."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, NamedTuple

from quarto.errors import RequestError

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from runners.config.arguments import CommandArguments

Setting = str | int | float | bool | None | Sequence["Setting"]


TURN = threading.Lock()  # Hydra's state and the user's folders are of the process: calls take turns


LIST_KEYS = ("agents",)  # keys whose value is a list


@contextmanager
def take_turn() -> Iterator[None]:
    """Wait for the calls of other threads to end; inside the context Ctrl-C asks to stop and never ends the process."""
    from runners.hosting.interruption import keep_process

    with TURN, keep_process():
        yield


def format_setting(setting: tuple[str, Setting]) -> str:
    """Format a keyword as a word of the command line."""
    from agents.base.parameters import format_parameter  # with NumPy; importing ``runners`` must cost nothing
    from analytics.store.labels import quote_for_hydra
    from runners.config.arguments import TEXT_KEYS

    key, value = setting
    if isinstance(value, str):  # as it is typed; a condition or a name is a text, whatever is in it
        return f"{key}={quote_for_hydra(value) if key in TEXT_KEYS else value}"
    return f"{key}={format_parameter([*value] if isinstance(value, Sequence) else value)}"


def format_swept_setting(setting: tuple[str, Setting]) -> str:
    """Format a keyword of a sweep: a sequence, such as a range, lists the values of its key."""
    key, values = setting
    if isinstance(values, str) or not isinstance(values, Sequence) or key in LIST_KEYS:
        return format_setting(setting)
    return f"{key}={','.join(format_setting(('', value))[1:] for value in values)}"


class Call(NamedTuple):
    """The words of a call, as those of a command line."""

    name: str  # of the command
    config: str  # the name of its yaml
    words: Sequence[str]
    archive: str | None
    folders: Sequence[Path]

    @property
    def command(self) -> str:
        """The command that does the same, for records."""
        from runners.terminal.console import format_shell_line

        options = [] if self.archive is None else ["--archive", self.archive]
        options += [word for folder in self.folders for word in ("--config-dir", str(folder))]
        return f"qarena {self.name} {format_shell_line([*self.words, *options])}"

    def parse(self) -> CommandArguments:
        """Parse the words. Raises ``RequestError`` for agents and settings that do not go together."""
        from runners.config.arguments import parse_arguments

        typed = self.command.removeprefix("qarena ")
        return parse_arguments(self.words, self.archive, config_dirs=self.folders, typed=typed)

    @contextmanager
    def enter(self, arguments: CommandArguments, schema: type[Any]) -> Iterator[None]:
        """Inside the context it is this call's turn, and the user's folders are searched."""
        from runners.config.composing import open_config_folders

        with take_turn(), open_config_folders(arguments, schema, self.name):
            yield

    @contextmanager
    def compose(self, schema: type[Any]) -> Iterator[DictConfig]:
        """The checked configuration. It is this call's turn, and the user's folders are found, inside the context.

        Raises ``RequestError`` for words that the command would refuse.
        """
        from runners.config.composing import compose_single_request, initialize_hydra
        from runners.config.yaml_options import hydra_lock

        arguments = self.parse()
        with self.enter(arguments, schema):
            with hydra_lock, initialize_hydra():
                cfg = compose_single_request(self.config, schema, arguments.overrides)
            yield cfg


def build_call(
    command: str,
    words: Sequence[str],
    archive: str | PurePath | None,
    config_dir: str | Path | Sequence[str | Path],
) -> Call:
    """The call of a command such as ``policy build``, whose yaml is ``policy_build``.

    Raises ``RequestError`` for an object in place of a label.
    """
    for word in words:
        if not isinstance(word, str):
            raise RequestError(f"{word!r} is no label: qarena {command} takes labels, objects play in runners.run")
    folders = [config_dir] if isinstance(config_dir, str | Path) else config_dir
    root = None if archive is None else str(archive)
    return Call(command, command.replace(" ", "_"), words, root, [Path(folder) for folder in folders])
