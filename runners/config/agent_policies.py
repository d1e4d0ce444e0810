"""Policies for agents: ``policy=NAME`` or ``value=NAME`` becomes a policy in memory or the genes of a player.

An agent's yaml says which kinds of policies it plays by: ``reads: [gift]``. The agent that reads ``any`` besides gives
a policy of every other kind to the agent that reads it and has ``default_player: true``; of several such readers of
genomes, to the first that has all of its genes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath
from types import MappingProxyType
from typing import Any

from agents.base.agent import Agent
from agents.learning.policy import GENOME, Policy
from analytics.store.archive import ArchiveStore
from analytics.store.policy_cards import PolicyCard
from quarto.errors import RequestError, describe_valid_names
from runners.arena.spec import AgentSpec
from runners.config.yaml_options import (
    find_declared_files,
    flatten_settings,
    list_options,
    load_raw_options,
    select_parameters,
)

ANY = "any"  # the kind in ``reads`` that stands for all others


@dataclass(frozen=True)
class PolicyReader:
    """An agent that plays by policies, as its yaml says."""

    name: str
    kinds: tuple[str, ...]
    settings: Mapping[str, Any]  # its yaml

    @property
    def plays_any(self) -> bool:
        return ANY in self.kinds

    @property
    def is_default(self) -> bool:
        """Whether the agent that reads any kind leaves policies of these kinds to it."""
        return self.settings.get("default_player") is True


def list_policy_readers() -> list[PolicyReader]:
    """All agents whose yaml says what they read, default players first."""
    found = [
        PolicyReader(name, _parse_policy_kinds(name, own), own)
        for name, own in load_raw_options("agent").items()
        if "reads" in own
    ]
    return sorted(found, key=lambda reader: (reader.plays_any, not reader.is_default, reader.name))


def _parse_policy_kinds(name: str, settings: Mapping[str, Any]) -> tuple[str, ...]:
    """The kinds of policies that an agent's yaml says it reads."""
    kinds = settings.get("reads", [])
    if not isinstance(kinds, list) or not all(isinstance(kind, str) for kind in kinds):
        raise RequestError(f"agent '{name}': reads={kinds!r} is not a list of kinds of policies, [gift, …]")
    return tuple(kinds)


def list_reader_names(kind: str) -> list[str]:
    """The agents that play policies of a kind, its default player first."""
    known = list_policy_readers()
    if not any(kind in reader.kinds for reader in known):
        return []
    return [reader.name for reader in known if kind in reader.kinds or reader.plays_any]


def attach_policy(agent: AgentSpec, yaml_settings: Mapping[str, Any], root: PurePath) -> AgentSpec:
    """The agent with the policy that one of its ``POLICY_PARAMETERS`` names; ``yaml_settings`` is what its yaml says.

    A policy goes to the constructor as it is. Where the constructor takes none, the policy must be a genome, and its
    genes replace the agent's own. Raises ``RequestError`` for a policy that the archive at ``root`` does not have or
    that is damaged, of a kind that the agent does not read, and for a genome that does not fit.
    """
    takes = agent.find_policy_parameter()
    wanted = _parse_policy_name(agent.label, takes or "policy", agent.params[takes or "policy"])
    params = {key: value for key, value in agent.params.items() if takes or key != "policy"}
    if wanted is None:
        return replace(agent, params=params)
    from analytics.store import policy_store  # most runs need none

    card, policy = policy_store.read(ArchiveStore.open(root), wanted)
    kinds = _parse_policy_kinds(agent.label, yaml_settings) or (() if takes else (GENOME,))
    named = replace(agent, params=params | {takes: wanted} if takes else params, policy_id=card.policy_id)
    if ANY in kinds and policy.kind not in kinds:
        usual = select_parameters(yaml_settings)
        given = {key: value for key, value in params.items() if value != usual.get(key)}
        return replace(named, policy=policy, player=find_default_player(policy, card.name, given, agent.trusted))
    if kinds and policy.kind not in kinds:
        raise RequestError(
            f"agent '{agent.label}' plays by policies of kind {' or '.join(map(repr, kinds))}, and policy "
            f"'{card.name}' is of kind '{policy.kind}', which {_format_readers(list_reader_names(policy.kind))}"
        )
    if takes:
        return replace(named, policy=policy)
    _check_genome(agent, select_parameters(yaml_settings), card.name, policy)
    return replace(named, params=params | dict(policy.parameters))


def _format_readers(agents: Sequence[str]) -> str:
    """The end of a sentence on which agents read something."""
    several = ", ".join(agents[:-1])
    return f"{several} and {agents[-1]} read" if several else f"{agents[0]} reads" if agents else "no agent reads"


def build_policy_agent(policy: Policy) -> Agent:
    """The agent that plays by a policy in memory: that of the first reader, which may be the agent that reads any."""
    return find_default_player(policy, policy.kind, trusted=True).build()


def find_default_player(
    policy: Policy, policy_name: str, agent_parameters: Mapping[str, Any] = MappingProxyType({}), trusted: bool = False
) -> AgentSpec:
    """The default player of a policy's kind, with the policy; ``policy_name`` is the policy's.

    Those of the parameters ``agent_parameters`` that it has too are its own, all others are as its yaml says. Raises
    ``RequestError`` for a kind that no agent reads, or several do by default, and for genes that no agent has.
    """
    known = list_policy_readers()
    players = [each for each in known if policy.kind in each.kinds and (each.is_default or each.plays_any)]
    if not players:
        kinds = [kind for each in known for kind in each.kinds if kind != ANY]
        raise RequestError(
            f"policy '{policy_name}' is of kind '{policy.kind}', which no agent plays by default"
            f"{describe_valid_names(policy.kind, kinds)}"
        )
    if policy.kind == GENOME:
        genes = set(policy.parameters)
        players = [each for each in players if genes <= set(_list_genes(select_parameters(each.settings)))][:1]
        if not players:
            raise RequestError(f"policy '{policy_name}' has genes that no agent has: {', '.join(policy.parameters)}")
    if len(players) > 1:
        several = " and ".join(each.name for each in players)
        raise RequestError(
            f"policy '{policy_name}' is of kind '{policy.kind}', whose default players are {several}: "
            "name one of them as the agent"
        )
    return _build_player_spec(players[0], policy, agent_parameters, trusted)


def _build_player_spec(
    reader: PolicyReader, policy: Policy, agent_parameters: Mapping[str, Any], trusted: bool
) -> AgentSpec:
    """A reader with a policy, the parameters ``agent_parameters`` that it has, and otherwise as its yaml says."""
    params = select_parameters(reader.settings)
    target, files = str(reader.settings.get("_target_")), find_declared_files(reader.name, reader.settings)
    spec = AgentSpec(reader.name, target, params, policy=policy, files=files, trusted=trusted)
    if takes := spec.find_policy_parameter():
        own = {key: value for key, value in agent_parameters.items() if key in params and key != takes}
        return replace(spec, params=params | own)
    genes = {key: value for key, value in params.items() if key != "policy"} | dict(policy.parameters)
    return replace(spec, params=genes, policy=None)


def _list_genes(params: Mapping[str, Any]) -> list[str]:
    """An agent's genes: those of its parameters that are real numbers in its yaml."""
    return [name for name, value in params.items() if isinstance(value, float)]


def _parse_policy_name(label: str, key: str, value: Any) -> str | None:
    """The name or id in a parameter; Hydra reads an id of digits alone as a number."""
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:012d}"
    if value is not None and not isinstance(value, str):
        raise RequestError(f"agent '{label}': {key}={value} is not a name; put it in quotes: {key}='\"…\"'")
    return value


def _check_genome(agent: AgentSpec, default_parameters: Mapping[str, Any], policy_name: str, policy: Policy) -> None:
    """Raises ``RequestError`` unless the genome has exactly the agent's genes, and none of these is set too."""
    genes = _list_genes(default_parameters)
    for gene in policy.parameters:
        if gene not in genes:
            raise RequestError(
                f"agent '{agent.label}' has no gene {gene!r} of policy '{policy_name}'"
                f"{describe_valid_names(gene, genes)}"
            )
    for gene in genes:
        if gene not in policy.parameters:
            raise RequestError(
                f"policy '{policy_name}' has no gene {gene!r}, which agent '{agent.label}' needs: it has "
                f"{', '.join(policy.parameters)}"
            )
        if agent.params[gene] != default_parameters[gene]:
            raise RequestError(
                f"agent '{agent.label}': {gene}={agent.params[gene]} contradicts policy={policy_name}, which has "
                f"{gene}={policy.parameters[gene]}; leave out the one or the other"
            )


def describe_untrained_agents(agents: Iterable[AgentSpec]) -> Iterator[str]:
    """A note for the user on each agent that could play by a policy and has none."""
    for agent in agents:
        if agent.params.get("policy", "") is None:
            yield f"{agent.label} has no policy: it plays untrained; qarena {_find_training_command(agent)} makes one"


def _find_training_command(agent: AgentSpec) -> str:
    """The command that makes a policy for an agent: by the trainer named like a reader of the same kind, if any."""
    known, trainers = list_policy_readers(), list_options("trainer")
    kinds = next((reader.kinds for reader in known if reader.settings.get("_target_") == agent.target), None)
    if kinds is None:
        return "train"
    trained = [each.name for each in known if each.name in trainers and set(each.kinds) & set(kinds)]
    return f"train trainer={trained[0]}" if trained else "policy build"


def format_policy_card(card: PolicyCard, folder: PurePath) -> list[tuple[str, str]]:
    """Everything on a policy's card but its runs, as names and texts."""
    learned = card.learned
    source = "trainer" if not (card.is_derived or card.is_imported) else "parameter"
    parameters = {"gene" if card.kind == GENOME else "parameter": card.parameters, source: learned["parameters"]}
    stored = ((card.stored_name(name), file) for name, file in card.files.items())
    files = [f"{name}, {file.bytes:,} bytes" + _format_row_count(file.rows) for name, file in stored]
    how, maker = describe_policy_origin(card)
    return [
        ("name", card.name),
        ("policy_id", card.policy_id),
        ("kind", f"{card.kind}, read by {', '.join(list_reader_names(card.kind)) or 'no agent'}"),
        ("rules", str(card.rules["name"])),
        (how, maker if card.is_imported else f"{maker}, {learned['games']:,} games"),
        *([("where", str(learned["where"]))] if "where" in learned else []),
        *((f"{what} {key}", str(value)) for what, own in parameters.items() for key, value in flatten_settings(own)),
        ("command", str(learned.get("command", ""))),
        ("created", card.created),
        ("code", ", ".join(f"{key} {value}" for key, value in card.code.items())),
        ("knowledge", f"SHA-256 {card.knowledge}, of the kind, the parameters and the table"),
        ("folder", str(folder)),
        *(("file", file) for file in files),
    ]


def describe_policy_origin(card: PolicyCard) -> tuple[str, str]:
    """'derived by' or 'trainer', and the kind or trainer that made a policy: a trainer may have derived it.

    For one that was learned elsewhere 'imported from', and the file.
    """
    learned = card.learned
    if card.is_imported:
        return "imported from", f"{learned['imported']['file']}, SHA-256 {learned['imported']['sha256']}"
    kind = learned["derivation"]["kind"] if card.is_derived else None
    if kind == learned["trainer"]:
        return "derived by", kind
    derived = f", derived as {kind}" if card.is_derived else ""
    return "trainer", f"{learned['trainer']}, seed {learned['seed']}{derived}"


def _format_row_count(rows: int | None) -> str:
    return "" if rows is None else f", {rows:,} rows"
