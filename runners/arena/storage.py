"""Where and how the games of a run are stored: the group ``conf/archive``, its schema, its checks; relative paths."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import chdir, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path, PurePath

from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig

from analytics.files.location import location_of
from runners.arena.checks import check_choice, check_keys, check_range

ARCHIVE: PurePath = Path("data/archive")  # where no other is named
OTHER_CODE = ("refuse", "extend", "new")


@dataclass(frozen=True)
class Storage:
    """Where and how games are stored; nothing here affects them.

    Raises ``RequestError`` for a value that is out of range or does not exist.
    """

    root: PurePath = ARCHIVE  # of the archive
    shard_games: int = 1 << 18  # at most these are written together
    shard_seconds: float = 30.0  # after this time games are written even if there are fewer
    other_code: str = OTHER_CODE[0]  # if other code has begun the run: refuse, extend it, or play a new one beside it

    def __post_init__(self) -> None:
        check_range("archive.shard_games", self.shard_games, 2, 1 << 24)
        check_range("archive.shard_seconds", self.shard_seconds, 0, float("inf"))
        check_choice("archive.other_code", self.other_code, OTHER_CODE)

    def most_units(self, games_a_pair: int) -> int:
        """The most units in a file: a power of two."""
        return 1 << (max(1, self.shard_games // games_a_pair).bit_length() - 1)


@dataclass
class ArchiveConfig:
    """The keys of ``conf/archive`` and their types, as Hydra checks them; see ``Storage`` for what each means."""

    root: str = str(Storage.root)
    shard_games: int = Storage.shard_games
    shard_seconds: float = Storage.shard_seconds
    other_code: str = Storage.other_code


def storage_of(archive: DictConfig) -> Storage:
    """The node ``archive`` of a composed configuration as a value. Raises ``RequestError`` as ``Storage`` does."""
    check_keys(archive, ArchiveConfig, "archive.")
    return Storage(location_of(archive.root), archive.shard_games, archive.shard_seconds, archive.other_code)


@contextmanager
def where_typed() -> Iterator[None]:
    """Be in the folder in which the command was typed, inside the context: paths in a configuration are relative to it.

    With ``hydra.job.chdir=true`` Hydra carries out a task in the task's output folder.
    """
    typed = Path(HydraConfig.get().runtime.cwd) if HydraConfig.initialized() else Path.cwd()
    with chdir(typed) if typed != Path.cwd() else nullcontext():
        yield
