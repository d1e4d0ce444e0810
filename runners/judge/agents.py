"""The agents that are judged: policies by name, agents by label, or all there are; and the bytes that they play by."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath
from typing import NamedTuple

from agents.lift import choosers_of
from analytics.perfect.tablebase import largest_for
from analytics.policies import policy_store
from analytics.store import marker
from analytics.store.archive import Archive
from analytics.store.policy_cards import PolicyCard, cards, read_card, readable_cards
from quarto.errors import RequestError, nearest
from quarto.rules import Rules
from runners.arena.agent_policies import readers, untrained
from runners.arena.config import agent_named, agent_of, load_agent, parse_label
from runners.arena.config_groups import names
from runners.arena.spec import AgentSpec

POLICY_PLAYER = "policy"  # the agent that plays by any policy
KNOWLEDGE = (policy_store.TABLE, policy_store.GENOME_FILE)  # the files of a policy that it plays by


class ChosenAgents(NamedTuple):
    """The agents to judge, and notes on them for the user."""

    agents: list[AgentSpec]
    notes: list[str]


def chosen_agents(wanted: Sequence[str], root: PurePath, rules: Rules, everything: bool) -> ChosenAgents:
    """The agents that names and labels mean; with ``everything`` all agents and policies for these rules besides.

    A name is that of a policy of the archive at ``root``, or its id, or else an agent's label. Raises ``RequestError``
    for a name that is neither, and if nothing is named.
    """
    if not (wanted or everything):
        raise RequestError("name a policy or an agent to judge, 'rule_based' or 'mcts(iterations=400)', or give --all")
    known, damaged = readable_cards(Archive.open(root)) if marker.content_of(root) is not None else ([], [])
    found, notes = [], [str(error) for error in damaged]
    for name in wanted:
        found.append(_one(name, root, known))
        if _is_policy(name, known) and name in names("agent"):
            notes.append(f"{name} is the policy; the agent of that name is judged as '{name}()'")
    if everything:
        policies = sorted({card.name for card in known if Rules(**card.rules) == rules})
        found += [*_agents(rules), *(_playing(name, root) for name in policies)]
    distinct = list({agent.label: agent for agent in found}.values())
    return ChosenAgents(distinct, [*notes, *untrained(distinct)])


def _is_policy(name: str, known: Sequence[PolicyCard]) -> bool:
    return any(name in {card.name, card.policy_id} for card in known)


def _one(name: str, root: PurePath, known: Sequence[PolicyCard]) -> AgentSpec:
    """The agent that a name or a label means."""
    if _is_policy(name, known):
        return _playing(name, root)
    agents = names("agent")
    if parse_label(name, "agent").name not in agents:
        named = [*agents, *(card.name for card in known)]
        raise RequestError(f"{name!r} is neither a policy in archive {root} nor an agent{nearest(name, named)}")
    return agent_named(name, root, trusted=True)


def _playing(policy: str, root: PurePath) -> AgentSpec:
    """The agent that plays by a policy."""
    return agent_of({"agent": POLICY_PLAYER, "policy": policy}, root, trusted=True)


def _agents(rules: Rules) -> list[AgentSpec]:
    """Every agent as its yaml says, but those that need a policy and those that do not play these rules."""
    taught = {reader.name for reader in readers() if reader.kinds}
    named = {name: load_agent(name) for name in names("agent") if name != POLICY_PLAYER}
    ready = [agent for name, agent in named.items() if not (name in taught and agent.params.get("policy", "") is None)]
    return [agent for agent in ready if rules.chooser in choosers_of(agent.build())]


def bytes_of(agent: AgentSpec, root: PurePath, rules: Rules) -> int | None:
    """The bytes of the files that an agent plays by: its policy, a tablebase, its own files; None if there are none."""
    sizes = [path.stat().st_size for path in agent.files.values() if path.is_file()]
    if agent.policy_id is not None:
        card = read_card(Archive.open(root), agent.policy_id)
        sizes += [card.files[name].bytes for name in KNOWLEDGE if name in card.files]
    base = largest_for(rules) if hasattr(agent.build(), "equip") else None
    return sum(sizes) + (base.card.bytes if base else 0) or None


def commands_of(agents: Sequence[AgentSpec], root: PurePath) -> list[str]:
    """The commands that played the games of the agents' policies and learned these, as they were typed, each once."""
    policy_ids = {agent.policy_id for agent in agents}
    if policy_ids == {None}:
        return []
    archive = Archive.open(root)
    learned = [card.learned for card in cards(archive) if card.policy_id in policy_ids]
    known = {record.run_id: record for record in archive.runs()}
    used = (known[run_id] for each in learned for run_id in each["run_ids"] if run_id in known)
    played = [record.command for record in used if not record.training]
    return list(dict.fromkeys([*played, *(str(each["command"]) for each in learned)]))
