"""Options of configuration groups, such as ``conf/rules/square.yaml``, as plain values; the schemas of the commands.

Options are in ``conf`` and in folders of the user's own, which every command takes by ``--config-dir``, with the
modules that the yamls there name. Schemas are the keys of a command, the types of these and their ranges. Nothing that
plays is imported here: ``--help`` and the refusal of a wrong name or value need no more than this.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, is_dataclass
from importlib.resources import files
from itertools import takewhile
from math import inf
from pathlib import Path, PurePath
from threading import RLock
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_type_hints

from hydra import compose, initialize_config_dir
from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from hydra.core.object_type import ObjectType
from hydra.core.plugins import Plugins
from hydra.plugins.search_path_plugin import SearchPathPlugin
from msgspec import Meta
from omegaconf import MISSING, Container, DictConfig, OmegaConf
from yaml import YAMLError

from analytics import DEFAULT_ARCHIVE
from quarto.errors import RequestError, nearest
from runners.arena.identities import to_identities

if TYPE_CHECKING:
    from hydra.plugins.config_source import ConfigResult, ConfigSource

    from quarto.rules import Rules


CONF = Path(__file__).resolve().parents[2] / "conf"
# An environment variable, so that processes that a launcher starts have it too: the user's own folders, absolute.
OWN_FOLDERS = "QARENA_OWN_FOLDERS"
OPTIONS = ObjectType.CONFIG  # of a group, not the groups below it
hydra_lock = RLock()  # Hydra, which reads the yamls, is one object of the whole process
LIMITS = ("turn_seconds", "isolation", "megabytes")  # keys of every agent, see agents.base.AgentLimits
# Keys of an agent's yaml that its constructor does not take; ``id`` is gone once a yaml is read.
_KEYS = ("_target_", "name", "tactical", "reads", "default_player", "files", "paths", "starts_programs")
NOT_PARAMETERS = (*_KEYS, *LIMITS)


class UserFolders(SearchPathPlugin):
    """Adds the user's own folders to Hydra's search path, after the project's own."""

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        for folder in own_folders():
            search_path.append("user", f"file://{folder}")


def own_folders() -> list[str]:
    """The user's own folders of this command."""
    return [folder for folder in os.environ.get(OWN_FOLDERS, "").split(os.pathsep) if folder]


@contextmanager
def user_config_dir(folder: Path | None) -> Iterator[None]:
    """Read configurations from ``folder`` too, inside the context. Raises ``RequestError`` if it is not a folder."""
    with own_modules([folder] if folder else []), initialize_config_dir(str(CONF), version_base="1.3"):
        yield


@contextmanager
def own_modules(folders: Sequence[Path]) -> Iterator[None]:
    """Let Hydra find yamls and Python modules in these folders, inside the context, also in processes that it starts.

    Raises ``RequestError`` for one that is not a folder.
    """
    for folder in folders:
        if (CONF / folder.name).is_dir() and any(folder.glob("*.yaml")):
            raise RequestError(f"--config-dir {folder}: name the folder that holds {folder.name}/, {folder.parent}")
        if not folder.is_dir():
            raise RequestError(f"--config-dir {folder} is not a folder: name the one that holds agent/ or rules/")
    Plugins.instance().register(UserFolders)
    before = os.environ.get(OWN_FOLDERS)
    os.environ[OWN_FOLDERS] = os.pathsep.join(str(folder.absolute()) for folder in folders)
    added = find_own_modules()
    try:
        yield
    finally:
        for path in added:
            sys.path.remove(path)
        if before is None:
            del os.environ[OWN_FOLDERS]
        else:
            os.environ[OWN_FOLDERS] = before


def find_own_modules() -> list[str]:
    """Let this process import from the user's own folders; returns those that are new on its import path."""
    added = [folder for folder in dict.fromkeys(own_folders()) if folder not in sys.path]
    sys.path.extend(added)
    return added


def names(group: str) -> list[str]:
    """The options of a configuration group, in all folders that Hydra searches."""
    with _hydra():
        return sorted({name for each in _sources() if each.is_group(group) for name in each.list(group, OPTIONS)})


def settings_of(group: str, name: str) -> dict[str, Any]:
    """One option of a configuration group as plain values. Raises ``RequestError`` if it does not exist."""
    check_option(group, name)
    with _hydra():
        found = _yaml(group, name)
        if found.header.get("package") or "defaults" in found.config:
            return plain(compose(f"{group}/{name}")[group])
        return plain(OmegaConf.create({group: found.config})[group])  # the same as composing it, 40 ms faster


def check_option(group: str, name: str) -> None:
    """Raises ``RequestError`` for an option of a configuration group that does not exist."""
    with _hydra():
        if name.isidentifier() and any(each.is_config(f"{group}/{name}") for each in _sources()):
            return  # a list of all takes ten times as long
    valid = names(group)
    if name in valid:
        return
    if group == "agent" and (name.endswith(".py") or os.path.isdir(name)):  # noqa: PTH112  (as below)
        raise RequestError(f"{name} is a file or a folder: write the agent's name, and its folder as --config-dir DIR")
    for folder in (Path(), *Path().iterdir()) if name.isidentifier() else ():
        if os.path.isfile(folder / group / f"{name}.yaml"):  # noqa: PTH113  (False for an unreadable folder too)
            raise RequestError(f"{group} {name!r} is one of your own: name its folder too, --config-dir {folder}")
    own = "; one of your own needs its folder, --config-dir DIR" if group == "agent" else ""
    raise RequestError(f"{group} {name!r} does not exist{nearest(name, valid)}{own}")


def folder_of(group: str, name: str) -> Path:
    """The folder that has the yaml of an option, ``group/name.yaml``: the first in which Hydra finds it."""
    with _hydra():
        source = _source(f"{group}/{name}")
    return Path(str(files(source.path.replace("/", ".")))) if source.scheme() == "pkg" else Path(source.path)


def text_of(group: str, name: str) -> str:
    """The text of the yaml of an option, with its comments. Raises ``RequestError`` if it does not exist."""
    check_option(group, name)
    return (folder_of(group, name) / group / f"{name}.yaml").read_text(encoding="utf-8", errors="replace")


def comment_of(group: str, name: str) -> str:
    """The description of an option: the first comment of its yaml."""
    lines = takewhile(lambda line: line.startswith("#"), text_of(group, name).splitlines())
    return next((text for text in (line.strip("# ") for line in lines) if text and not text.startswith("@")), "")


def as_written(group: str) -> dict[str, dict[str, Any]]:
    """Every option of a configuration group as its yaml has it, not composed."""
    with _hydra():
        return {name: plain(_yaml(group, name).config, resolve=False) for name in names(group)}


def _yaml(group: str, name: str) -> ConfigResult:
    """The yaml of an option, with its header: the first in the folders that Hydra searches.

    Raises ``RequestError`` for a text that is no YAML, or no mapping.
    """
    path = f"{group}/{name}"
    source = _source(path)
    file = source.path if source.scheme() == "pkg" else f"{Path(source.path) / path}.yaml"
    no_mapping = f"{file} holds no keys: write KEY: VALUE, one a line"
    try:
        found = source.load_config(path)
    except UnicodeDecodeError as error:
        raise RequestError(
            f"{file} is not text in UTF-8 ({error.reason} at byte {error.start}): save it as such"
        ) from error
    except OSError as error:  # with a number it is the system's; else Hydra has found neither a mapping nor a list
        raise error if error.errno else RequestError(no_mapping) from error
    except YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        what = getattr(error, "problem", None) or " ".join(str(error).split())
        raise RequestError(
            f"{file}{where} is not valid YAML: {what}; write KEY: VALUE with the same indentation by spaces, and put a "
            "text with ': ' or ' #' in quotes"
        ) from error
    if not OmegaConf.is_dict(found.config):
        raise RequestError(no_mapping)
    return found


def _source(path: str) -> ConfigSource:
    """The first of the folders that Hydra searches that has this yaml."""
    return next(source for source in _sources() if source.is_config(path))


def _sources() -> list[ConfigSource]:
    """The folders that Hydra searches. Its loader would copy all of them for each question, 10 ms each time."""
    return GlobalHydra.instance().config_loader().get_sources()


def plain(node: Container, resolve: bool = True) -> dict[str, Any]:
    """A mapping node as plain values, classes by their identities; with ``resolve`` interpolations become values."""
    values = {str(key): value for key, value in dict(OmegaConf.to_container(node, resolve=resolve) or {}).items()}  # type: ignore[arg-type]
    return dict(to_identities(values))


def parameters_of(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of an agent's yaml that its constructor takes."""
    return {key: value for key, value in settings.items() if key not in NOT_PARAMETERS}


def declared_files(name: str, settings: Mapping[str, Any]) -> dict[str, Path]:
    """The files and folders under ``files`` in an agent's yaml, by their names: paths from the folder with ``agent/``.

    Raises ``RequestError`` for a value that is no list of paths, and for a path that leads nowhere or out of it.
    """
    declared = settings.get("files")
    if declared is None:
        return {}
    if not isinstance(declared, list) or not all(isinstance(file, str) and file for file in declared):
        raise RequestError(f"agent '{name}': files={declared!r} is not a list of paths, [weights.npz, …]")
    folder = folder_of("agent", name)
    found = {file: folder / file for file in declared}
    for file, path in found.items():
        if Path(file).is_absolute() or ".." in Path(file).parts:
            raise RequestError(f"agent '{name}': {file!r} under files leads out of {folder}")
        if not path.exists():
            raise RequestError(
                f"agent '{name}': its yaml names {file!r} under files, and there is no such file or folder in {folder}"
            )
    return found


def flat(settings: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Nested settings as dotted keys and values."""
    for key, value in settings.items():
        if isinstance(value, Mapping):
            yield from flat(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def load_rules(name: str) -> Rules:
    """The rules of ``conf/rules/NAME.yaml``."""
    return rules_of(settings_of("rules", name))


def rules_of(mapping: Any) -> Rules:
    """Rules from the keys of a yaml in ``conf/rules``. Raises ``RequestError`` for a key or value that is not valid."""
    from analytics.store.records import NAME_OF_RULES
    from quarto.rules import Rules

    known = [each.name for each in fields(Rules)]
    for key in mapping:
        if key not in known:
            raise RequestError(f"rules have no key {key!r}{nearest(str(key), known)}")
    for key, kind, meaning in (("name", str, "a text"), ("rows_and_columns", bool, "true or false")):
        if not isinstance(mapping.get(key, kind()), kind):
            raise RequestError(f"rules.{key}={mapping[key]!r} is not {meaning}")
    name = mapping.get("name", "classic")
    if not NAME_OF_RULES.fullmatch(name):
        raise RequestError(f"rules.name={name!a:.80} is not a name: write letters, digits, '_', '.' and '-' alone")
    try:
        return Rules(**mapping)
    except (TypeError, ValueError) as error:
        raise RequestError(str(error)) from error


@contextmanager
def _hydra() -> Iterator[None]:
    """Hydra as the running application set it up; if none did, as in a notebook, over the project's ``conf``.

    Threads that read options take turns.
    """
    with hydra_lock:
        if GlobalHydra.instance().is_initialized():
            yield
        else:
            with initialize_config_dir(str(CONF), version_base="1.3"):
                yield


MAX_OPENING_PLIES = 15
MAX_SEED = (1 << 63) - 1
OTHER_CODE = ("refuse", "extend", "new")
SCHEDULES = ("round_robin", "gauntlet")
KIND_GROUP = "kind"  # of conf/: the kinds of policies that can be derived

# Types of keys with their ranges. Hydra checks the types, ``check_values`` the rest.
Seed = Annotated[int, Meta(ge=0, le=MAX_SEED)]
OpeningPlies = Annotated[int, Meta(ge=0, le=MAX_OPENING_PLIES)]
ThreadCount = Annotated[int | None, Meta(ge=1, le=1024)]


@dataclass(frozen=True)
class ArchiveSettings:
    """Where and how games are stored; nothing here affects them."""

    root: PurePath = DEFAULT_ARCHIVE  # of the archive
    shard_games: int = 1 << 18  # at most these are written together
    shard_seconds: float = 30.0  # after this time games are written even if there are fewer
    other_code: str = OTHER_CODE[0]  # if other code has begun the run: refuse, extend it, or play a new one beside it
    thoughts: bool = False  # what the agents thought of each turn is stored too

    def most_units(self, games_a_pair: int) -> int:
        """The most units in a file: a power of two."""
        return 1 << (max(1, self.shard_games // games_a_pair).bit_length() - 1)


@dataclass
class ArchiveConfig:
    """The keys of ``conf/archive``; see ``ArchiveSettings`` for what each means."""

    root: str = str(DEFAULT_ARCHIVE)
    shard_games: Annotated[int, Meta(ge=2, le=1 << 24)] = ArchiveSettings.shard_games
    shard_seconds: Annotated[float, Meta(ge=0)] = ArchiveSettings.shard_seconds
    other_code: Annotated[str, OTHER_CODE] = ArchiveSettings.other_code
    thoughts: bool = ArchiveSettings.thoughts


@dataclass
class SweepConfig:
    """Set by ``qarena sweep``: which sweep a job belongs to."""

    id: str | None = None


@dataclass
class RayConfig:
    """The cluster of ``executor=ray``. ``conf/executor/ray.yaml`` explains each key."""

    address: str = "auto"
    tasks: int | None = None


@dataclass
class PolicyConfig:
    """The policy that a training makes."""

    name: str | None = None


@dataclass
class CurveConfig:
    """The learning curve of a training."""

    block: Annotated[int, Meta(ge=1, le=1 << 30)] = MISSING


@dataclass
class CommandConfig:
    """The keys of every command that Hydra carries out. The yaml of each command in ``conf`` explains its keys."""

    threads: ThreadCount = None
    archive: ArchiveConfig = field(default_factory=ArchiveConfig)
    sweep: SweepConfig = field(default_factory=SweepConfig)


@dataclass
class PlayConfig(CommandConfig):
    """The keys of every command that plays."""

    rules: Any = None
    seed: Seed = 1
    progress: bool = True


@dataclass
class MatchConfig(PlayConfig):
    """The keys of every command in which named agents play."""

    a: Any = None
    b: Any = None
    agents: list[Any] | None = None
    games: Annotated[int, Meta(ge=1)] = 100000
    opening_plies: OpeningPlies = 0
    keep_going: bool = False


@dataclass
class RunConfig(MatchConfig):
    """The keys of ``qarena run``."""

    schedule: Annotated[str, SCHEDULES] = "round_robin"
    seats: Annotated[str, ("swapped", "fixed")] = "swapped"
    objective: Any = None
    executor: Any = field(default_factory=lambda: {"_target_": "runners.executors.base.Threads"})  # of tests too
    ray: RayConfig = field(default_factory=RayConfig)


@dataclass
class TrainConfig(PlayConfig):
    """The keys of ``qarena train``."""

    trainer: Any = None
    policy: PolicyConfig = field(default_factory=PolicyConfig)
    curve: CurveConfig = field(default_factory=CurveConfig)
    executor: Any = None
    ray: RayConfig = field(default_factory=RayConfig)


@dataclass
class SprtConfig(MatchConfig):
    """The keys of ``qarena sprt``."""

    games: Annotated[int, Meta(ge=2)] = 100000
    opening_plies: OpeningPlies = 2
    elo0: float = 0.0
    elo1: float = 10.0
    alpha: float = 0.05
    beta: float = 0.05


@dataclass
class PolicyBuildConfig(CommandConfig):
    """The keys of ``qarena policy build``."""

    kind: Any = None
    name: str | None = None
    where: str = MISSING
    executor: Any = None
    ray: RayConfig = field(default_factory=RayConfig)


SCHEMAS = {"run": RunConfig, "train": TrainConfig, "sprt": SprtConfig, "policy_build": PolicyBuildConfig}  # by yaml
for config, schema in SCHEMAS.items():
    ConfigStore.instance().store(name=f"{config}_schema", node=schema)


def check_values(node: DictConfig, schema: type[Any], prefix: str = "") -> None:
    """Check the keys of a composed configuration, and the ranges that the fields of the dataclass ``schema`` declare.

    Hydra's own check does not see ``+key=`` and ``~key``. ``prefix`` is that of the node's keys, for messages. Raises
    ``RequestError`` for a key that is no field, and for a field without a key. The same for a value in place of a
    group's option, and for one out of range.
    """
    hints, keys = get_type_hints(schema, include_extras=True), [str(key) for key in node]
    for key in keys:
        if key not in (*hints, "hydra"):
            raise RequestError(f"key '{prefix}{key}' does not exist{nearest(key, hints)}")
    for key, hint in hints.items():
        if key not in keys:
            raise RequestError(f"~{prefix}{key} removes a key that every run needs: leave this override out")
        if isinstance(hint, type) and is_dataclass(hint):
            check_values(node[key], hint, f"{prefix}{key}.")
        if hint is Any and not OmegaConf.is_dict(node[key]):  # the option of a group
            group = f"agent@{key}" if key in ("a", "b") else key
            wrong = "is missing" if node[key] is None else f"is how to choose one: {key}={node[key]} is no option"
            raise RequestError(f"{group}=NAME {wrong}{nearest('', names(group.partition('@')[0]))}")
        for declared in get_args(hint)[1:] if node[key] is not None else ():
            if isinstance(declared, Meta):
                least, most = (usual if it is None else it for usual, it in ((-inf, declared.ge), (inf, declared.le)))
                check_range(f"{prefix}{key}", node[key], least, most)
            elif isinstance(declared, tuple):
                check_choice(f"{prefix}{key}", node[key], declared)


def check_range(key: str, value: float, least: float, most: float) -> None:
    """Raises ``RequestError`` unless ``least <= value <= most``."""
    if not least <= value <= most:
        bound = f"at least {least}" if value < least else f"at most {most}"
        raise RequestError(f"{key}={value} is out of range: it must be {bound}")


def check_choice(key: str, value: str, valid: Sequence[str]) -> None:
    """Raises ``RequestError`` unless ``value`` is one of ``valid``."""
    if value not in valid:
        raise RequestError(f"{key}={value} does not exist{nearest(str(value), valid)}")
