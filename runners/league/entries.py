"""The entries of a league as agents: with paths from the league's folder, and with the league's limits."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from analytics.store.texts import to_line
from quarto.errors import RequestError, suggest_valid_names
from runners.arena.identities import to_module_name
from runners.arena.spec import AgentSpec, find_target
from runners.config.agents import agent_from_entry
from runners.config.yaml_options import (
    LIMIT_KEYS,
    list_options,
    load_option,
    select_parameters,
    use_config_dirs,
)
from runners.hosting.sandbox import find_sandbox_obstacle
from runners.league.entry_folders import check_agent_folder, check_visible_folder, list_agent_folders
from runners.league.import_guard import refuse_imports_of_entries
from runners.league.league_file import ENTRIES_FOLDER, LEAGUE_FILE, Entry, League, read_league

SANDBOX, PROCESS = "sandbox", "process"
SECONDS_KEYS = ("turn_seconds", "game_seconds")
FOREIGN_KEYS = ("_target_", "files", "paths", "starts_programs", "reads", "default_player", "tactical")


@contextmanager
def open_league(folder: Path) -> Iterator[League]:
    """Read the league in ``folder``, and find the agents of its own while the context lasts.

    Raises ``RequestError`` if the file of the league is not valid. An entry that cannot be built is no such error.
    """
    with use_config_dirs(list_agent_folders(folder)):
        league = read_league(folder)
        check_kinds_and_keys(league)
        yield league


def check_kinds_and_keys(league: League) -> None:
    """Raise ``RequestError`` for an entry with an agent or a key that does not exist."""
    agents, keys_by_agent = list_options("agent"), dict[str, tuple[str, ...]]()
    for entry in league.entries:
        name, subject = entry.settings["agent"], f"{league.folder / LEAGUE_FILE}: entry '{entry.name}'"
        if name not in agents:
            if "(" in name:
                raise RequestError(f"{subject}: agent {to_line(name, 80)!r}: write its parameters as keys beside agent")
            raise RequestError(
                f"{subject}: agent {to_line(name, 80)!r} does not exist{suggest_valid_names(name, agents)}; an agent "
                f"of your own has its yaml in {league.folder / ENTRIES_FOLDER}/NAME/agent/"
            )
        if name not in keys_by_agent:
            keys_by_agent[name] = _list_valid_keys_or_none(name)
        for key in entry.settings:
            if key in FOREIGN_KEYS:
                raise RequestError(f"{subject}: key {key!r} belongs into the yaml of an agent, entries/NAME/agent/")
            if keys_by_agent[name] and key not in keys_by_agent[name]:
                raise RequestError(f"{subject} has no key {key!r:.80}{suggest_valid_names(key, keys_by_agent[name])}")


def _list_valid_keys_or_none(agent: str) -> tuple[str, ...]:
    """List the keys of an entry with this agent; return () if its yaml is damaged, which is a fault of its entries."""
    try:
        return ("agent", *select_parameters(load_option("agent", agent)), *LIMIT_KEYS)
    except RequestError:
        return ()


@contextmanager
def isolate_entries(league: League, trust_agents: bool) -> Iterator[tuple[str, str]]:
    """Yield what ``choose_isolation`` returns, and raise its errors.

    If entries play in a sandbox, no module of an entry can be imported into this process while the context lasts,
    except those of entries that the league lets play in this process, by ``isolation: thread``.
    """
    isolation, note = choose_isolation(league, trust_agents)
    modules = {
        to_module_name(find_target(entry.name, load_option("agent", entry.settings["agent"]))).partition(".")[0]
        for entry in league.entries
        if entry.settings.get("isolation") == "thread"
    }
    with refuse_imports_of_entries(league.entries_folder if isolation == SANDBOX else None, modules):
        yield isolation, note


def choose_isolation(league: League, trust_agents: bool) -> tuple[str, str]:
    """Choose how entries that are not the project's own are kept apart, and describe what the user should know.

    Args:
        league: The league.
        trust_agents: Whether the user allows such entries to run with the user's rights.

    Returns:
        The value of the key ``isolation`` of these entries, and a note, or "" if there is nothing to say.

    Raises:
        RequestError: The league asks for a sandbox, there is none, and the user does not trust the entries.

    """
    agents = dict.fromkeys(entry.settings["agent"] for entry in league.entries)
    if league.isolation != SANDBOX or not any(map(_is_third_party, agents)):
        return PROCESS, ""
    obstacle = find_sandbox_obstacle()
    if not obstacle:
        return SANDBOX, ""
    if not trust_agents:
        raise RequestError(
            f"no sandbox: {obstacle}; without one, entries would run as you, with all your rights: look at their code, "
            "then allow it with --trust-agents"
        )
    return PROCESS, f"no sandbox: {obstacle}; so entries run as you, with all your rights"


def _is_third_party(agent: str) -> bool:
    """Return whether an agent runs code that is not the project's own. If its yaml is damaged, it does."""
    try:
        return _has_third_party_code(agent, load_option("agent", agent))
    except RequestError:
        return True


def _has_third_party_code(agent: str, settings: Mapping[str, Any]) -> bool:
    return any(AgentSpec(agent, find_target(f"agent '{agent}'", settings), {}).third_party_code())


def build_entry_spec(league: League, entry: Entry, isolation: str) -> AgentSpec:
    """Build the specification of the agent that an entry is.

    The limits of the league hold for agents that are not the project's own. An entry may set limits of its own.

    Args:
        league: The league.
        entry: The entry.
        isolation: The value of the key ``isolation`` of agents that are not the project's own.

    Raises:
        RequestError: A folder or a file that the entry names does not exist, or a value is wrong.

    """
    yaml_settings = load_option("agent", entry.settings["agent"])
    path_keys = tuple(yaml_settings.get("paths") or ())
    settings = {
        key: _resolve_paths(league.folder, value) if key in path_keys else value
        for key, value in entry.settings.items()
    }
    # As among the limits of the league: the same limit must give the same run, and 20 and 20.0 are two texts.
    settings |= {key: float(settings[key]) for key in SECONDS_KEYS if type(settings.get(key)) is int}
    folder = settings.get("folder")
    if "folder" in path_keys and folder is not None and not Path(folder).is_dir():
        raise RequestError(f"folder: {entry.settings['folder']!r:.200} is no folder in the folder of the league")
    if _has_third_party_code(entry.settings["agent"], yaml_settings):
        target = find_target(f"agent '{entry.settings['agent']}'", yaml_settings)
        check_agent_folder(league.folder, entry.settings["agent"], to_module_name(target))
        settings = _drop_limit_of_sandboxes(league.limits.to_settings() | {"isolation": isolation}, entry) | settings
    if settings.get("isolation") == SANDBOX:
        for key in path_keys:
            check_visible_folder(league.folder, key, settings.get(key))
    return agent_from_entry({**settings, "name": entry.name}, league.root, trusted=True)


def _drop_limit_of_sandboxes(limits: dict[str, Any], entry: Entry) -> dict[str, Any]:
    """Return the limits of the league without that of processes if the entry plays in no sandbox, which it needs."""
    is_sandboxed = entry.settings.get("isolation", limits["isolation"]) == SANDBOX
    return {key: value for key, value in limits.items() if is_sandboxed or key != "processes"}


def _resolve_paths(folder: Path, value: Any) -> Any:
    """Return a path, or a command with paths, in which everything that exists in ``folder`` has its absolute path."""
    if not isinstance(value, str) or not value:
        return value
    if (folder / value).exists():
        return str((folder / value).absolute())
    try:
        words = shlex.split(value)
    except ValueError:  # the agent reports it
        return value
    if len(words) < 2:
        return value
    return shlex.join(str((folder / word).absolute()) if (folder / word).is_file() else word for word in words)
