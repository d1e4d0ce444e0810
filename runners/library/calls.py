"""Calls from Python as commands: their words, their checked configuration, and how calls wait for each other."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, NamedTuple, Union

from quarto.errors import RequestError, describe_value

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from analytics.questions.sql.database import OpenArchive
    from runners.config.arguments import CommandArguments

Setting = str | int | float | bool | None | Sequence["Setting"]
Location = Union[str, PurePath, "OpenArchive"]  # of an archive: its folder or URL, or the archive itself

TURN = threading.Lock()  # calls take turns, because the process has one Hydra and one list of the user's folders


LIST_KEYS = ("agents",)  # keys whose value is a list


@contextmanager
def take_turn() -> Iterator[None]:
    """Wait until no other thread is inside this context, so that the library's calls run one at a time.

    Inside the context, Ctrl-C only asks the running call to stop; it does not end the process.
    """
    from runners.hosting.interruption import prevent_exit_on_signals

    with TURN, prevent_exit_on_signals():
        yield


def format_setting(setting: tuple[str, Setting]) -> str:
    """Format a keyword argument, given as (key, value), as a word of the command line."""
    from agents.base.parameters import format_parameter  # imports NumPy, and importing ``runners`` must be quick
    from analytics.store.labels import quote_for_hydra
    from runners.config.arguments import TEXT_KEYS

    key, value = setting
    if isinstance(value, str):  # as a user would type it, but conditions and names are always texts
        return f"{key}={quote_for_hydra(value) if key in TEXT_KEYS else value}"
    return f"{key}={format_parameter([*value] if isinstance(value, Sequence) else value)}"


def format_swept_setting(setting: tuple[str, Setting]) -> str:
    """Format a keyword argument of a sweep, given as (key, values), as a word of the command line.

    The items of a sequence, such as a range, are the values that the sweep gives to the key.
    """
    key, values = setting
    if isinstance(values, str) or not isinstance(values, Sequence) or key in LIST_KEYS:
        return format_setting(setting)
    return f"{key}={','.join(format_setting(('', value))[1:] for value in values)}"


def format_words(
    settings: Mapping[str, Setting],
    overrides: Sequence[str],
    format_keyword: Callable[[tuple[str, Setting]], str] = format_setting,
) -> list[str]:
    """Format keyword arguments and overrides as words of the command line.

    Raises ``RequestError`` for a text in place of the list of overrides.
    """
    if isinstance(overrides, str):
        raise RequestError(f"overrides={overrides!r} is a text: write a list, overrides=[{overrides!r}]")
    return [*map(format_keyword, settings.items()), *overrides]


def check_is_named(words: Sequence[str], keys: Sequence[str], remedy: str) -> None:
    """Raise ``RequestError`` unless an agent's label or one of ``keys`` is among the words of a call.

    Without one, the command plays or trains its default, which a caller from Python has not asked for. ``remedy`` says
    what to name.
    """
    from runners.config.arguments import LABEL_PATTERN

    if not any(LABEL_PATTERN.fullmatch(word) or word.lstrip("+").partition("=")[0] in keys for word in words):
        raise RequestError(remedy)


def find_archive_root(archive: Location) -> PurePath:
    """Return the location of an archive that is given by its folder, by its URL or as an open archive.

    Raises ``RequestError`` for any other object.
    """
    from analytics.questions.sql.database import OpenArchive
    from analytics.store.files.backend import parse_location

    return archive.archive.root if isinstance(archive, OpenArchive) else parse_location(archive)


def check_are_labels(agents: Sequence[object]) -> None:
    """Raise ``RequestError`` if an agent is an object, because only ``runners.run`` takes objects."""
    for agent in agents:
        if not isinstance(agent, str):
            raise RequestError(
                f"{describe_value(agent)} is no label: labels are texts, and only runners.run takes objects"
            )


class Call(NamedTuple):
    """A call from Python, as the words of the equivalent command line."""

    name: str  # the command's name
    config: str  # the name of the command's yaml
    words: Sequence[str]
    archive: str | None
    folders: Sequence[Path]

    @property
    def command(self) -> str:
        """The equivalent command line, as it is stored in the records of runs."""
        from runners.terminal.console import format_shell_line

        options = [] if self.archive is None else ["--archive", self.archive]
        options += [word for folder in self.folders for word in ("--config-dir", str(folder))]
        return f"qarena {self.name} {format_shell_line([*self.words, *options])}"

    def parse(self) -> CommandArguments:
        """Parse the words of the call. Raises ``RequestError`` for agents and settings that contradict each other."""
        from runners.config.arguments import parse_arguments

        typed = self.command.removeprefix("qarena ")
        return parse_arguments(self.words, self.archive, config_dirs=self.folders, typed=typed)

    @contextmanager
    def take_turn_with_config_folders(self, arguments: CommandArguments, schema: type[Any]) -> Iterator[None]:
        """Wait until no other call runs. Inside the context, yamls and agents are also looked up in the user's folders.

        ``arguments`` are the parsed words, and ``schema`` is the configuration's class.
        """
        from hydra.errors import HydraException
        from omegaconf.errors import OmegaConfBaseException

        from runners.config.composing import open_config_folders

        try:
            with take_turn(), open_config_folders(arguments, schema, self.name):
                yield
        except RequestError as error:
            if isinstance(error.__cause__, HydraException | OmegaConfBaseException):
                raise error from None  # their traceback has a hundred lines, and the message says all
            raise

    @contextmanager
    def compose(self, schema: type[Any]) -> Iterator[DictConfig]:
        """Wait until no other call runs, and yield this call's checked configuration.

        While the context is open, other calls wait, and yamls and agents in the user's folders are found. Raises
        ``RequestError`` for arguments that the command would reject.
        """
        from runners.config.composing import compose_single_request, initialize_hydra
        from runners.config.yaml_options import hydra_lock

        arguments = self.parse()
        with self.take_turn_with_config_folders(arguments, schema):
            with hydra_lock, initialize_hydra():
                cfg = compose_single_request(self.config, schema, arguments.overrides)
            yield cfg


def build_call(
    command: str,
    words: Sequence[str],
    archive: Location | None,
    config_dir: str | Path | Sequence[str | Path],
) -> Call:
    """Build the call of ``command``, which also gives its yaml the name: that of ``policy build`` is ``policy_build``.

    Raises ``RequestError`` if a word is an object, because only ``runners.run`` takes objects in place of labels.
    """
    check_are_labels(words)
    root = archive if archive is None or isinstance(archive, str) else str(find_archive_root(archive))
    return Call(command, command.replace(" ", "_"), words, root, list_folders(config_dir))


def list_folders(config_dir: str | Path | Sequence[str | Path]) -> list[Path]:
    """Return the folders that the argument ``config_dir`` names: one, several or none."""
    return [Path(folder) for folder in ([config_dir] if isinstance(config_dir, str | Path) else config_dir)]
