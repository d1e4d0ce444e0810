"""Fingerprints of the code that plays: of the sources and data files on which games depend, as runs record them."""

from __future__ import annotations

import hashlib
import os
import platform
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

from agents.base.agent import Agent
from analytics.store.records import RunRecord
from quarto.errors import RequestError
from quarto.sources import (
    KERNEL_PACKAGES,
    is_project_module,
    modules_fingerprint,
    read_files_of_modules_and_parents,
    read_imported_modules,
    read_package_files_by_module,
    source_fingerprint,
)
from runners.arena.identities import TARGET_KEY, to_module_name
from runners.arena.spec import AgentSpec, RunSpec

FINGERPRINT_DIGITS = 16  # hex digits of a fingerprint
MODULE_DIGITS = 8  # hex digits of a module's hash
# The modules that play games of any agent. All of ``quarto`` counts too.
PLAYING_MODULES = (
    *("runners.arena.batch_engine", "runners.hosting.lockstep", "runners.hosting.guarded_agent"),
    *("runners.hosting.illegal_turns", "agents.base.agent", "agents.base.player"),
)
LEARNING_MODULES = (
    "runners.learning.training.online",
    "runners.learning.training.learning_kernel",
    "agents.learning.learner",
)


def build_code_record(spec: RunSpec, agents: Sequence[Agent | None]) -> dict[str, Any]:
    """Describe the code that will play a run, for the run's record.

    An agent's fingerprint covers the modules that play games, the agent's module with every module that it imports, and
    the agent's data files. It is the same in a training as in any other run, because the modules that learn are covered
    only by ``fingerprint``, that of all code.

    Args:
        spec: The run.
        agents: The agents of the run, as they were built; None for a person, who has no code.

    Returns:
        ``version`` of the project, ``fingerprint`` of all code, versions of the libraries, ``agents`` (a fingerprint by
        label), ``modules`` (the first digits of each module's SHA-256, so that a comparison can name the modules that
        differ) and, if there are any, ``files`` (the SHA-256 of each data file, by label and name).

    Raises:
        RequestError: A data file does not exist or cannot be read.

    """
    playing_fingerprint = _fingerprint_playing_code(learning=False)
    players = [(agent, built) for agent, built in zip(spec.agents, agents, strict=True) if built is not None]
    files = {agent.label: list(_list_data_files(agent, built)) for agent, built in players}
    agent_modules = {agent.label: _read_agent_modules(agent) for agent, _ in players}
    agent_fingerprints = {
        label: _fingerprint_agent(modules, files[label], playing_fingerprint)
        for label, modules in agent_modules.items()
    }
    digest = _hash_run_code(agent_fingerprints.values(), spec.learner is not None)
    file_checksums = {label: {file.given_name: file.sha256 for file in data} for label, data in files.items() if data}
    contents = {**read_package_files_by_module("quarto"), **read_files_of_modules_and_parents(PLAYING_MODULES)}
    for imported in agent_modules.values():
        for module_contents in imported.values():
            contents |= module_contents
    modules = {name: hashlib.sha256(contents[name]).hexdigest()[:MODULE_DIGITS] for name in sorted(contents)}
    return (
        _build_record(digest)
        | {"agents": agent_fingerprints, "modules": modules}
        | ({"files": file_checksums} if file_checksums else {})
    )


def fingerprint_agent_code(agent: AgentSpec, agent_object: Agent) -> str:
    """Return the fingerprint of an agent's code, which ``build_code_record`` records under ``agents``.

    Raises ``RequestError`` if a data file of the agent does not exist or cannot be read.
    """
    playing_fingerprint = _fingerprint_playing_code(learning=False)
    return _fingerprint_agent(_read_agent_modules(agent), _list_data_files(agent, agent_object), playing_fingerprint)


def fingerprint_run_code(agent_fingerprints: Iterable[str], learning: bool = False) -> str:
    """Return the fingerprint of all code of a run, which ``build_code_record`` records under ``fingerprint``.

    Args:
        agent_fingerprints: The fingerprints of the run's agents, in any order, as ``fingerprint_agent_code`` returns
            them.
        learning: Whether an agent learns from the games.

    """
    return _hash_run_code(agent_fingerprints, learning).hexdigest()[:FINGERPRINT_DIGITS]


def _hash_run_code(agent_fingerprints: Iterable[str], learning: bool) -> hashlib._Hash:
    return hashlib.sha256("\n".join([_fingerprint_playing_code(learning), *sorted(agent_fingerprints)]).encode())


def list_targets(settings: Any) -> Iterator[Any]:
    """Yield the value of each key ``_target_`` in nested mappings and sequences. Such a value identifies a class."""
    if isinstance(settings, Mapping):
        for key, value in settings.items():
            if key == TARGET_KEY:
                yield value
            else:
                yield from list_targets(value)
    elif isinstance(settings, Sequence) and not isinstance(settings, str):
        for value in settings:
            yield from list_targets(value)


def build_class_code_record(targets: Iterable[Any], learning: bool) -> dict[str, str]:
    """Describe the code that plays games with the given classes, as ``build_code_record`` does but without ``agents``.

    No module is imported, because ``targets`` may come from a card that a stranger wrote.

    Args:
        targets: Identities of the classes (see ``is_shipped``); values that are not strings are ignored.
        learning: Whether an agent learns from the games, so that the code that learns is included.

    Returns:
        ``version`` of the project, ``fingerprint`` of all code, and versions of Python and the libraries.

    """
    modules = sorted({to_module_name(target) for target in targets if isinstance(target, str)})
    fingerprints = (modules_fingerprint(read_imported_modules(module, _affects_games)) for module in modules)
    return _build_record(hashlib.sha256("\n".join([_fingerprint_playing_code(learning), *fingerprints]).encode()))


def _build_record(digest: hashlib._Hash) -> dict[str, str]:
    return {
        "version": project_version(),
        "fingerprint": digest.hexdigest()[:FINGERPRINT_DIGITS],
        "python": platform.python_version(),
        "numba": metadata.version("numba"),
        "numpy": metadata.version("numpy"),
    }


def project_version() -> str:
    """Return the installed version of the project."""
    return metadata.version("quarto-arena")


def _fingerprint_playing_code(learning: bool) -> str:
    """Return the fingerprint of the modules that every game needs and, if ``learning``, of the modules that learn."""
    packages = KERNEL_PACKAGES if learning else ("quarto",)
    modules = read_files_of_modules_and_parents((*PLAYING_MODULES, *(LEARNING_MODULES if learning else ())))
    return source_fingerprint(packages) + modules_fingerprint(modules)


def _read_agent_modules(agent: AgentSpec) -> dict[str, dict[str, bytes]]:
    """Read the sources of the modules that an agent's classes need.

    The result is keyed by module, for each module that defines a class of the agent. A value has the sources of that
    module and of all modules that it imports, keyed by module name.
    """
    modules = sorted({to_module_name(target) for target in agent.list_targets()})
    return {module: read_imported_modules(module, _affects_games) for module in modules}


def _affects_games(importing_module: str, imported_module: str) -> bool:
    """Return whether the fingerprint of an agent covers an imported module.

    It does not cover modules of ``quarto``, because it includes the fingerprint of the code that plays all games, which
    covers them. Nor does it cover modules of this project outside ``KERNEL_PACKAGES`` that other modules of this
    project import, because they do not affect games.
    """
    if is_project_module(imported_module, ("quarto",)):
        return False
    return is_project_module(imported_module, KERNEL_PACKAGES) or not (
        is_project_module(importing_module) and is_project_module(imported_module)
    )


class DataFile(NamedTuple):
    """A file on which an agent's turns depend."""

    name: str  # part of the fingerprint: path in a folder that the agent names; empty for a file that it names itself
    given_name: str  # the agent's name for the file
    sha256: str


def _fingerprint_agent(
    modules: Mapping[str, Mapping[str, bytes]], files: Iterable[DataFile], playing_fingerprint: str
) -> str:
    """Return an agent's fingerprint, which covers the playing code, the agent's modules and the agent's data files."""
    digest = hashlib.sha256(playing_fingerprint.encode())
    for contents in modules.values():
        digest.update(modules_fingerprint(contents).encode())
    for file in files:
        digest.update(f"\n{file.name} {file.sha256}".encode())
    return digest.hexdigest()[:FINGERPRINT_DIGITS]


def _list_strings(value: Any) -> Iterator[str]:
    """Yield all strings in nested mappings and sequences, except for keys."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping | Sequence):
        for item in value.values() if isinstance(value, Mapping) else value:
            yield from _list_strings(item)


def _list_data_files(agent: AgentSpec, agent_object: Agent) -> Iterator[DataFile]:
    """Yield the files on which an agent's turns depend.

    These are named by the agent's parameters, by its attribute ``data_files`` or by its yaml. Raises ``RequestError``
    if a file does not exist or cannot be read.
    """
    for value in _list_strings(dict(agent.params)):
        if os.path.isfile(value):  # noqa: PTH113  (False for a text that cannot be a path)
            yield DataFile("", value, _compute_checksum(Path(value)))
    for path_name in getattr(agent_object, "data_files", ()):
        if not Path(path_name).exists():
            raise RequestError(
                f"agent '{agent.label}' names {str(path_name)!r} in data_files, and there is no such file or folder"
            )
        yield from _list_files_below(str(path_name), Path(path_name))
    for spec in (agent, agent.player):
        for given_name, path in spec.files.items() if spec else ():
            yield from _list_files_below(given_name, path)


def _list_files_below(given_name: str, path: Path) -> Iterator[DataFile]:
    """Yield the file at ``path`` or, if that is a folder, all files inside it.

    ``given_name`` is the agent's name for the file or folder.
    """
    if path.is_dir():
        names = sorted(file.relative_to(path).as_posix() for file in path.rglob("*") if file.is_file())
        yield from (DataFile(name, f"{given_name}/{name}", _compute_checksum(path / name)) for name in names)
    else:
        yield DataFile("", given_name, _compute_checksum(path))


def _compute_checksum(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise RequestError(f"{path}, on which an agent depends, cannot be read: {error.strerror}") from error


def describe_code_differences(record: RunRecord, code: Mapping[str, Any]) -> str:
    """Describe, for a message, how ``code`` differs from the code that played a run; return "" if it does not differ.

    Two versions of the code count as equal if both played a sample of the run's games with the same results, as the key
    ``same_games`` in the record of the code notes.
    """
    theirs, ours = record.code, code
    same = {theirs.get("fingerprint"), *theirs.get("same_games", ())}
    more = [
        fingerprint
        for fingerprint in theirs.get("extended_by", ())
        if fingerprint != ours.get("fingerprint") and fingerprint not in same
    ]
    if ours.get("fingerprint") in same and not more:
        return ""
    before, now = theirs.get("agents", {}), ours.get("agents", {})
    changed = [label for label in now if label in before and before[label] != now[label]]
    descriptions = [f"{label}{_format_changed_files_of_agent(label, theirs, ours)}" for label in changed]
    which = f"{', '.join(descriptions)} changed; " if 0 < len(changed) < len(now) else ""
    texts = [f"{code.get('version')}, {code.get('fingerprint')}" for code in (theirs, ours)]
    return f"{which}{' and '.join([texts[0], *more])}; this is {texts[1]}"


def _format_changed_files_of_agent(label: str, theirs: Mapping[str, Any], ours: Mapping[str, Any]) -> str:
    """Format in brackets the names of an agent's data files that differ between two records; return "" if none do."""
    before, now = (code.get("files", {}).get(label, {}) for code in (theirs, ours))
    names = [name for name in sorted({*before, *now}) if before.get(name) != now.get(name)]
    return f" ({', '.join(names)})" if names else ""
