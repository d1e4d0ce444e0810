"""Options of configuration groups, such as ``conf/rules/square.yaml``, as plain values.

Options are in ``conf`` and in the user's folders, which every command takes by ``--config-dir`` together with the
modules that their yamls name. Nothing that plays is imported here, because ``--help`` and the refusal of a wrong name
must be quick.
"""

from __future__ import annotations

import os.path
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from importlib.resources import files
from itertools import takewhile
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any

from hydra import compose, initialize_config_dir
from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.global_hydra import GlobalHydra
from hydra.core.object_type import ObjectType
from hydra.core.plugins import Plugins
from hydra.plugins.search_path_plugin import SearchPathPlugin
from omegaconf import Container, OmegaConf
from yaml import YAMLError

from quarto.errors import Advice, RequestError, suggest_valid_names
from runners.arena.identities import to_identities_without_id_keys

if TYPE_CHECKING:
    from hydra.plugins.config_source import ConfigResult, ConfigSource

    from quarto.rules import Rules

CONF_FOLDER = Path(__file__).resolve().parents[2] / "conf"
OPTION_TYPE = ObjectType.CONFIG  # the options of a group, without the groups below it
KIND_GROUP = "kind"  # the group in conf/ with the kinds of policies that can be derived
hydra_lock = RLock()  # the whole process shares one Hydra, which reads the yamls
# Keys of every agent, see agents.base.agent.AgentLimits.
LIMIT_KEYS = ("turn_seconds", "isolation", "megabytes", "game_seconds", "processes")
# Keys of an agent's yaml that its constructor does not take; reading the yaml removes ``id``.
_YAML_ONLY_KEYS = ("_target_", "name", "tactical", "reads", "default_player", "files", "paths", "starts_programs")
NON_PARAMETER_KEYS = (*_YAML_ONLY_KEYS, *LIMIT_KEYS)


_user_folders: list[str] = []  # the user's folders, absolute; shared by the process, like Hydra and the import path


class UserFoldersPlugin(SearchPathPlugin):
    """A plugin that adds the user's folders to Hydra's search path, after the project's own."""

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        for folder in list_user_folders():
            search_path.append("user", f"file://{folder}")


def list_user_folders() -> list[str]:
    """List the user's folders that the current command searches."""
    return [*_user_folders]


@contextmanager
def use_config_dir(folder: Path | None) -> Iterator[None]:
    """Inside the context, also read configurations from ``folder``, unless it is None.

    Raises ``RequestError`` for a path that is not a folder.
    """
    with use_config_dirs([folder] if folder else []):
        yield


@contextmanager
def use_config_dirs(folders: Sequence[Path]) -> Iterator[None]:
    """Inside the context, also read configurations from ``folders``; the first folder with an option is the one.

    Raises ``RequestError`` for a path that is not a folder.
    """
    with search_user_folders(folders), initialize_config_dir(str(CONF_FOLDER), version_base="1.3"):
        yield


@contextmanager
def search_user_folders(folders: Sequence[Path]) -> Iterator[None]:
    """Inside the context, let Hydra search ``folders`` for yamls too, and let Python search them for modules.

    Raises ``RequestError`` for a path that is not a folder.
    """
    for folder in folders:
        if (CONF_FOLDER / folder.name).is_dir() and any(folder.glob("*.yaml")):
            advice = f"name the folder that holds {folder.name}/, {folder.parent}"
            raise RequestError(_word_folder_error(folder, f": {advice}"))
        if not folder.is_dir():
            advice = "name the one that holds agent/ or rules/"
            raise RequestError(_word_folder_error(folder, f" is not a folder: {advice}"))
    Plugins.instance().register(UserFoldersPlugin)
    saved_folders = list_user_folders()
    added = set_user_folders_returning_added([str(folder.absolute()) for folder in folders])
    try:
        yield
    finally:
        for path in added:
            sys.path.remove(path)
        _user_folders[:] = saved_folders


def _word_folder_error(folder: Path, text: str) -> Advice:
    return Advice("", f"--config-dir {folder}{text}", f"config_dir={str(folder)!r}{text}", separator="")


def set_user_folders_returning_added(folders: Sequence[str]) -> list[str]:
    """Let Hydra and Python search ``folders``, and return the folders that were added to Python's import path."""
    _user_folders[:] = folders
    added = [folder for folder in dict.fromkeys(folders) if folder not in sys.path]
    sys.path.extend(added)
    return added


def list_options(group: str) -> list[str]:
    """List the names of the options of a configuration group in all folders that Hydra searches."""
    with _use_hydra():
        return sorted(
            {name for source in _list_sources() if source.is_group(group) for name in source.list(group, OPTION_TYPE)}
        )


def load_option(group: str, name: str) -> dict[str, Any]:
    """Load one option of a configuration group as plain values. Raises ``RequestError`` if it does not exist."""
    check_option(group, name)
    with _use_hydra():
        option = _load_option_yaml(group, name)
        if option.header.get("package") or "defaults" in option.config:
            return to_plain_dict(compose(f"{group}/{name}")[group])
        return to_plain_dict(OmegaConf.create({group: option.config})[group])  # the same as composing it, 40 ms faster


def check_option(group: str, name: str) -> None:
    """Raise ``RequestError`` if a configuration group does not have this option."""
    with _use_hydra():
        if name.isidentifier() and any(source.is_config(f"{group}/{name}") for source in _list_sources()):
            return  # listing all options takes ten times as long
    valid = list_options(group)
    if name in valid:
        return
    if group == "agent" and (name.endswith(".py") or os.path.isdir(name)):  # noqa: PTH112  (as below)
        text, advice = f"{name} is a file or a folder", "write the agent's name, and its folder as"
        raise RequestError(Advice(text, f"{advice} --config-dir DIR", f"{advice} config_dir=…"))
    for folder in (Path(), *Path().iterdir()) if name.isidentifier() else ():
        if os.path.isfile(folder / group / f"{name}.yaml"):  # noqa: PTH113  (False for an unreadable folder too)
            advice = "name its folder too"
            raise RequestError(
                Advice(
                    f"{group} {name!r} is one of your own",
                    f"{advice}, --config-dir {folder}",
                    f"{advice}, config_dir={str(folder)!r}",
                )
            )
    text = f"{group} {name!r} does not exist{suggest_valid_names(name, valid)}"
    raise RequestError(advise_on_own_agents(text) if group == "agent" else text)


def advise_on_own_agents(text: str) -> Advice:
    """Add to the message about an unknown agent how agents of the user's own are named."""
    command = "one of your own needs its folder, --config-dir DIR"
    call = "one of your own needs its folder, config_dir=…, or is an object of your class"
    return Advice(text, command, call, separator="; ")


def find_option_folder(group: str, name: str) -> Path:
    """Return the first folder on Hydra's search path that contains an option's yaml, ``group/name.yaml``."""
    with _use_hydra():
        source = _find_source(f"{group}/{name}")
    return Path(str(files(source.path.replace("/", ".")))) if source.scheme() == "pkg" else Path(source.path)


def read_option_text(group: str, name: str) -> str:
    """Return the text of an option's yaml, with its comments. Raises ``RequestError`` if the option does not exist."""
    check_option(group, name)
    return (find_option_folder(group, name) / group / f"{name}.yaml").read_text(encoding="utf-8", errors="replace")


def read_option_comment(group: str, name: str) -> str:
    """Return the description of an option: the first line of the comment at the beginning of its yaml."""
    lines = takewhile(lambda line: line.startswith("#"), read_option_text(group, name).splitlines())
    return next((text for text in (line.strip("# ") for line in lines) if text and not text.startswith("@")), "")


def load_raw_options(group: str) -> dict[str, dict[str, Any]]:
    """Load the yamls of all options of a configuration group by name, without composing them."""
    with _use_hydra():
        return {
            name: to_plain_dict(_load_option_yaml(group, name).config, resolve=False) for name in list_options(group)
        }


def _load_option_yaml(group: str, name: str) -> ConfigResult:
    """Load an option's yaml, with its header, from the first folder on Hydra's search path that contains the yaml.

    Raises ``RequestError`` if the file is not valid YAML or not a mapping.
    """
    path = f"{group}/{name}"
    source = _find_source(path)
    file = source.path if source.scheme() == "pkg" else f"{Path(source.path) / path}.yaml"
    no_mapping = f"{file} holds no keys: write KEY: VALUE, one a line"
    try:
        option = source.load_config(path)
    except UnicodeDecodeError as error:
        raise RequestError(
            f"{file} is not text in UTF-8 ({error.reason} at byte {error.start}): save it as such"
        ) from error
    except OSError as error:  # Hydra raises one without a number if the text is neither a mapping nor a list
        raise error if error.errno else RequestError(no_mapping) from error
    except YAMLError as error:
        raise build_invalid_yaml_error(file, error) from error
    if not OmegaConf.is_dict(option.config):
        raise RequestError(no_mapping)
    return option


def build_invalid_yaml_error(file: str, error: YAMLError) -> RequestError:
    """Build the error for a file that is not valid YAML: where, why, and how to write it."""
    mark = getattr(error, "problem_mark", None)
    where = f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""
    problem = getattr(error, "problem", None) or " ".join(str(error).split())
    return RequestError(
        f"{file}{where} is not valid YAML: {problem}; write KEY: VALUE with the same indentation by spaces, and "
        "put a text with ': ' or ' #' in quotes"
    )


def _find_source(path: str) -> ConfigSource:
    """Return the first source on Hydra's search path that contains this yaml."""
    return next(source for source in _list_sources() if source.is_config(path))


def _list_sources() -> list[ConfigSource]:
    """List the folders on Hydra's search path.

    Hydra's public function for this copies all of them on each call, which takes 10 ms.
    """
    return GlobalHydra.instance().config_loader().get_sources()


def to_plain_dict(node: Container, resolve: bool = True) -> dict[str, Any]:
    """Convert a mapping node to plain values.

    Where a node names a shipped class, the dotted path of the class is replaced by the class's identity (see
    ``runners/arena/identities.py``), and the key ``id`` is left out. If ``resolve`` is true, interpolations are
    replaced by the values to which they refer.
    """
    values = {str(key): value for key, value in dict(OmegaConf.to_container(node, resolve=resolve) or {}).items()}  # type: ignore[arg-type]
    return dict(to_identities_without_id_keys(values))


def select_parameters(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Select the keys of an agent's yaml that the constructor of the agent takes."""
    return {key: value for key, value in settings.items() if key not in NON_PARAMETER_KEYS}


def find_declared_files(name: str, settings: Mapping[str, Any]) -> dict[str, Path]:
    """Return the files and folders that an agent's yaml lists under ``files``, as a dictionary from name to path.

    A name is a path relative to the folder that contains ``agent/``. Raises ``RequestError`` for a value that is not a
    list of paths, and for a path that does not exist or leads out of that folder.
    """
    declared = settings.get("files")
    if declared is None:
        return {}
    if not isinstance(declared, list) or not all(isinstance(file, str) and file for file in declared):
        raise RequestError(f"agent '{name}': files={declared!r} is not a list of paths, [weights.npz, …]")
    folder = find_option_folder("agent", name)
    paths = {file: folder / file for file in declared}
    for file, path in paths.items():
        if Path(file).is_absolute() or ".." in Path(file).parts:
            raise RequestError(f"agent '{name}': {file!r} under files leads out of {folder}")
        if not path.exists():
            raise RequestError(
                f"agent '{name}': its yaml names {file!r} under files, and there is no such file or folder in {folder}"
            )
    return paths


def flatten_settings(settings: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield nested settings as pairs of a dotted key and its value."""
    for key, value in settings.items():
        if isinstance(value, Mapping):
            yield from flatten_settings(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def load_rules(name: str) -> Rules:
    """Load the rules that ``conf/rules/NAME.yaml`` describes."""
    return build_rules(load_option("rules", name))


def build_rules(mapping: Any) -> Rules:
    """Build rules from the keys of a yaml in ``conf/rules``. Raises ``RequestError`` for an invalid key or value."""
    from analytics.store.records import RULES_LABEL
    from quarto.rules import Rules

    names = [field.name for field in fields(Rules)]
    for key in mapping:
        if key not in names:
            raise RequestError(f"rules have no key {key!r}{suggest_valid_names(str(key), names)}")
    for key, kind, meaning in (("name", str, "a text"), ("rows_and_columns", bool, "true or false")):
        if not isinstance(mapping.get(key, kind()), kind):
            raise RequestError(f"rules.{key}={mapping[key]!r} is not {meaning}")
    name = mapping.get("name", "classic")
    if not RULES_LABEL.fullmatch(name):
        raise RequestError(f"rules.name={name!a:.80} is not a name: write letters, digits, '_', '.' and '-' alone")
    try:
        return Rules(**mapping)
    except (TypeError, ValueError) as error:
        raise RequestError(str(error)) from error


@contextmanager
def _use_hydra() -> Iterator[None]:
    """Use Hydra as the running application set it up, or set it up with ``conf`` if no application did.

    The latter is the case in a notebook, for example. Threads that read options wait for each other.
    """
    with hydra_lock:
        if GlobalHydra.instance().is_initialized():
            yield
        else:
            with initialize_config_dir(str(CONF_FOLDER), version_base="1.3"):
                yield
