"""The code that plays: fingerprints of the sources and data files on which games depend, as runs remember them."""

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
    read_imported_modules,
    read_module_files,
    read_package_files,
    source_fingerprint,
)
from runners.arena.identities import TARGET_KEY, to_module_name
from runners.arena.spec import AGENT_PARAMETERS, AgentSpec, RunSpec

FINGERPRINT_DIGITS = 16  # of a fingerprint
MODULE_DIGITS = 8
# What plays, whoever the agents are: with all of ``quarto``.
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
    """The code that will play: version, fingerprint, libraries, and ``agents``, a fingerprint of each by label.

    ``agents`` are those of the spec as they were built; None for a person, of whom there is no code. An agent's
    fingerprint covers what plays, its module, every module that this one imports, and its data files: it is the same in
    a training, whose own fingerprint alone covers what learns. ``modules`` has the first digits of each module's
    SHA-256, so that a comparison can name those that differ. ``files`` has the SHA-256 of each data file, by label and
    name. Raises ``RequestError`` for a data file that does not exist.
    """
    plays = _fingerprint_playing_code(learning=False)
    players = [(agent, built) for agent, built in zip(spec.agents, agents, strict=True) if built is not None]
    files = {agent.label: list(_list_data_files(agent, built)) for agent, built in players}
    own = {agent.label: _read_agent_modules(agent) for agent, _ in players}
    codes = {label: _fingerprint_agent(modules, files[label], plays) for label, modules in own.items()}
    playing = plays if spec.learner is None else _fingerprint_playing_code(learning=True)
    digest = hashlib.sha256("\n".join([playing, *sorted(codes.values())]).encode())
    sums = {label: {file.given_name: file.sha256 for file in own} for label, own in files.items() if own}
    contents = {**read_package_files("quarto"), **read_module_files(PLAYING_MODULES)}
    for each in own.values():
        contents |= {name: content for found in each.values() for name, content in found.items()}
    modules = {name: hashlib.sha256(contents[name]).hexdigest()[:MODULE_DIGITS] for name in sorted(contents)}
    return _build_record(digest) | {"agents": codes, "modules": modules} | ({"files": sums} if sums else {})


def list_targets(settings: Any) -> Iterator[Any]:
    """All values under ``_target_``, identities of classes, in nested mappings and lists."""
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
    """The same, without ``agents``, for classes given by their identities; ``learning``: games depend on earlier ones.

    Nothing is imported: an identity may come from a card.
    """
    modules = sorted({to_module_name(target) for target in targets if isinstance(target, str)})
    own = (modules_fingerprint(read_imported_modules(module, _affects_games)) for module in modules)
    return _build_record(hashlib.sha256("\n".join([_fingerprint_playing_code(learning), *own]).encode()))


def _build_record(digest: hashlib._Hash) -> dict[str, str]:
    return {
        "version": project_version(),
        "fingerprint": digest.hexdigest()[:FINGERPRINT_DIGITS],
        "python": platform.python_version(),
        "numba": metadata.version("numba"),
        "numpy": metadata.version("numpy"),
    }


def project_version() -> str:
    """The installed version of the project."""
    return metadata.version("quarto-arena")


def _fingerprint_playing_code(learning: bool) -> str:
    """The fingerprint of what plays, whoever the agents are, and of what learns."""
    packages = KERNEL_PACKAGES if learning else ("quarto",)
    modules = read_module_files((*PLAYING_MODULES, *(LEARNING_MODULES if learning else ())))
    return source_fingerprint(packages) + modules_fingerprint(modules)


def _read_agent_modules(agent: AgentSpec) -> dict[str, dict[str, bytes]]:
    """The modules of an agent's classes, sorted, each with the contents of all that it imports."""
    modules = sorted({to_module_name(target) for target in _list_agent_targets(agent)})
    return {module: read_imported_modules(module, _affects_games) for module in modules}


def _affects_games(importing_module: str, imported_module: str) -> bool:
    """Whether an import is followed: ``quarto`` is covered as a whole; the rest of ours serves other ends."""
    if is_project_module(imported_module, ("quarto",)):
        return False
    return is_project_module(imported_module, KERNEL_PACKAGES) or not (
        is_project_module(importing_module) and is_project_module(imported_module)
    )


class DataFile(NamedTuple):
    """A file on which an agent's turns depend."""

    name: str  # that counts: within a folder that the agent names; empty for a file that it names itself
    given_name: str  # as the agent names it
    sha256: str


def _fingerprint_agent(modules: Mapping[str, Mapping[str, bytes]], files: Iterable[DataFile], playing_fingerprint: str) -> str:
    """The fingerprint of an agent: of what plays, of its modules (``_read_agent_modules``), and of its data files."""
    digest = hashlib.sha256(playing_fingerprint.encode())
    for contents in modules.values():
        digest.update(modules_fingerprint(contents).encode())
    for file in files:
        digest.update(f"\n{file.name} {file.sha256}".encode())
    return digest.hexdigest()[:FINGERPRINT_DIGITS]


def _list_agent_targets(agent: AgentSpec) -> Iterator[str]:
    """The classes of an agent, of the one that plays in its place, and of those that its parameters describe."""
    yield agent.target
    if agent.player:
        yield from _list_agent_targets(agent.player)
    for name, value in agent.params.items():
        if name in AGENT_PARAMETERS and value is not None:
            yield from _list_agent_targets(AgentSpec.from_record(value))


def _list_strings(value: Any) -> Iterator[str]:
    """All texts in nested mappings and lists, keys excepted."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping | Sequence):
        for each in value.values() if isinstance(value, Mapping) else value:
            yield from _list_strings(each)


def _list_data_files(agent: AgentSpec, agent_object: Agent) -> Iterator[DataFile]:
    """The files that an agent's turns depend on: those that its parameters, its ``data_files`` and its yaml name."""
    for value in _list_strings(dict(agent.params)):
        if os.path.isfile(value):  # noqa: PTH113  (False for a text that cannot be a path)
            yield DataFile("", value, _compute_checksum(Path(value)))
    for named in getattr(agent_object, "data_files", ()):
        if not Path(named).exists():
            raise RequestError(
                f"agent '{agent.label}' names {str(named)!r} in data_files, and there is no such file or folder"
            )
        yield from _list_files_below(str(named), Path(named))
    for spec in (agent, agent.player):
        for shown, path in spec.files.items() if spec else ():
            yield from _list_files_below(shown, path)


def _list_files_below(given_name: str, path: Path) -> Iterator[DataFile]:
    """A file, or all those in a folder."""
    if path.is_dir():
        names = sorted(each.relative_to(path).as_posix() for each in path.rglob("*") if each.is_file())
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
    """Describe how the code of a run differs from ``code``, for a message; empty if it does not.

    Code that played a sample of the run's games equally (``same_games``) is not different.
    """
    theirs, ours = record.code, code
    same = {theirs.get("fingerprint"), *theirs.get("same_games", ())}
    more = [each for each in theirs.get("extended_by", ()) if each != ours.get("fingerprint") and each not in same]
    if ours.get("fingerprint") in same and not more:
        return ""
    before, now = theirs.get("agents", {}), ours.get("agents", {})
    changed = [label for label in now if label in before and before[label] != now[label]]
    named = [f"{label}{_format_changed_files(label, theirs, ours)}" for label in changed]
    which = f"{', '.join(named)} changed; " if 0 < len(changed) < len(now) else ""
    texts = [f"{each.get('version')}, {each.get('fingerprint')}" for each in (theirs, ours)]
    return f"{which}{' and '.join([texts[0], *more])}; this is {texts[1]}"


def _format_changed_files(label: str, theirs: Mapping[str, Any], ours: Mapping[str, Any]) -> str:
    """The data files of an agent that differ between two codes, in brackets; empty if none does."""
    before, now = (code.get("files", {}).get(label, {}) for code in (theirs, ours))
    names = [name for name in sorted({*before, *now}) if before.get(name) != now.get(name)]
    return f" ({', '.join(names)})" if names else ""
