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
from typing import Any, NamedTuple

from agents.base.agent import Agent
from agents.learning.policy import GENOME, Policy
from analytics.store.archive import ArchiveStore
from analytics.store.policy_cards import PolicyCard
from analytics.store.texts import format_count_with_noun
from quarto.errors import Advice, RequestError, suggest_valid_names
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
    """An agent that can use policies of certain kinds, which its yaml lists under ``reads``."""

    name: str
    kinds: tuple[str, ...]
    settings: Mapping[str, Any]  # the keys and values of the agent's yaml

    @property
    def plays_any(self) -> bool:
        return ANY in self.kinds

    @property
    def is_default(self) -> bool:
        """Whether this agent is the default player for policies of its kinds.

        If so, it also stands in for the agent that reads any kind (``reads: [any]``) when that agent is given a policy
        of one of these kinds, unless that agent lists the kind itself.
        """
        return self.settings.get("default_player") is True


def list_policy_readers() -> list[PolicyReader]:
    """List all agents whose yaml has the key ``reads``, the default players first."""
    readers = [
        PolicyReader(name, _parse_policy_kinds(name, settings), settings)
        for name, settings in load_raw_options("agent").items()
        if "reads" in settings
    ]
    return sorted(readers, key=lambda reader: (reader.plays_any, not reader.is_default, reader.name))


def _parse_policy_kinds(name: str, settings: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the kinds of policies that an agent's yaml lists under ``reads``, or () if it lists none.

    ``name`` names the agent in messages. Raises ``RequestError`` if the value is not a list of texts.
    """
    kinds = settings.get("reads", [])
    if not isinstance(kinds, list) or not all(isinstance(kind, str) for kind in kinds):
        raise RequestError(f"agent '{name}': reads={kinds!r} is not a list of kinds of policies, [gift, …]")
    return tuple(kinds)


def list_reader_names(kind: str) -> list[str]:
    """List the names of the agents that can use policies of this kind, the default player first.

    The list is empty if no agent names this kind under ``reads``.
    """
    readers = list_policy_readers()
    if not any(kind in reader.kinds for reader in readers):
        return []
    return [reader.name for reader in readers if kind in reader.kinds or reader.plays_any]


def attach_policy(agent: AgentSpec, yaml_settings: Mapping[str, Any], root: PurePath) -> AgentSpec:
    """Return a copy of ``agent`` with the policy that one of its ``POLICY_PARAMETERS`` names.

    ``yaml_settings`` are the keys of the agent's yaml, without the user's changes. If the agent's constructor takes a
    policy, it gets the policy itself. If it takes none, the policy must be a genome, and its genes replace the agent's
    own.

    Raises ``RequestError`` if the archive at ``root`` lacks the policy, if the policy is damaged or of a kind that the
    agent does not read, or if the genome does not fit the agent.
    """
    policy_parameter = agent.find_policy_parameter()
    policy_name = _parse_policy_name(
        agent.label, policy_parameter or "policy", agent.params[policy_parameter or "policy"]
    )
    params = {key: value for key, value in agent.params.items() if policy_parameter or key != "policy"}
    if policy_name is None:
        return replace(agent, params=params)
    from analytics.store import policy_store  # most runs need none

    card, policy = policy_store.read(ArchiveStore.open(root), policy_name)
    kinds = _parse_policy_kinds(agent.label, yaml_settings) or (() if policy_parameter else (GENOME,))
    named_agent = replace(
        agent, params=params | {policy_parameter: policy_name} if policy_parameter else params, policy_id=card.policy_id
    )
    if ANY in kinds and policy.kind not in kinds:
        defaults = select_parameters(yaml_settings)
        changes = {key: value for key, value in params.items() if value != defaults.get(key)}
        return replace(
            named_agent, policy=policy, player=find_default_player(policy, card.name, changes, agent.trusted)
        )
    if kinds and policy.kind not in kinds:
        raise RequestError(
            f"agent '{agent.label}' plays by policies of kind {' or '.join(map(repr, kinds))}, and policy "
            f"'{card.name}' is of kind '{policy.kind}', "
            f"which {_format_readers_with_verb(list_reader_names(policy.kind))}"
        )
    if policy_parameter:
        return replace(named_agent, policy=policy)
    _check_genome(agent, select_parameters(yaml_settings), card.name, policy)
    return replace(named_agent, params=params | dict(policy.parameters))


def _format_readers_with_verb(agents: Sequence[str]) -> str:
    """Format the names of agents as the subject and the verb of a sentence: "a and b read"."""
    all_but_last = ", ".join(agents[:-1])
    return (
        f"{all_but_last} and {agents[-1]} read"
        if all_but_last
        else f"{agents[0]} reads"
        if agents
        else "no agent reads"
    )


def build_policy_agent(policy: Policy) -> Agent:
    """Build the default player of a policy's kind, with this policy."""
    return find_default_player(policy, policy.kind, trusted=True).build()


def find_default_player(
    policy: Policy, policy_name: str, agent_parameters: Mapping[str, Any] = MappingProxyType({}), trusted: bool = False
) -> AgentSpec:
    """Return the default player of a policy's kind, with the policy attached.

    ``policy_name`` names the policy in messages. Values in ``agent_parameters`` replace the defaults in the player's
    yaml; parameters that the player does not have are ignored.

    Raises ``RequestError`` for a kind that no agent plays or that several agents play by default, and for genes that
    no agent has.
    """
    readers = list_policy_readers()
    players = [reader for reader in readers if policy.kind in reader.kinds and (reader.is_default or reader.plays_any)]
    if not players:
        kinds = [kind for reader in readers for kind in reader.kinds if kind != ANY]
        raise RequestError(
            f"policy '{policy_name}' is of kind '{policy.kind}', which no agent plays by default"
            f"{suggest_valid_names(policy.kind, kinds)}"
        )
    if policy.kind == GENOME:
        genes = set(policy.parameters)
        players = [reader for reader in players if genes <= set(_list_genes(select_parameters(reader.settings)))][:1]
        if not players:
            raise RequestError(f"policy '{policy_name}' has genes that no agent has: {', '.join(policy.parameters)}")
    if len(players) > 1:
        names = " and ".join(reader.name for reader in players)
        raise RequestError(
            f"policy '{policy_name}' is of kind '{policy.kind}', whose default players are {names}: "
            "name one of them as the agent"
        )
    return _build_player_spec(players[0], policy, agent_parameters, trusted)


def _build_player_spec(
    reader: PolicyReader, policy: Policy, agent_parameters: Mapping[str, Any], trusted: bool
) -> AgentSpec:
    """Build the specification of the agent that ``reader`` describes, with the policy attached.

    Values in ``agent_parameters`` replace the reader's defaults; parameters that the reader does not have are ignored.
    """
    params = select_parameters(reader.settings)
    target, files = str(reader.settings.get("_target_")), find_declared_files(reader.name, reader.settings)
    spec = AgentSpec(reader.name, target, params, policy=policy, files=files, trusted=trusted)
    if policy_parameter := spec.find_policy_parameter():
        changes = {key: value for key, value in agent_parameters.items() if key in params and key != policy_parameter}
        return replace(spec, params=params | changes)
    genes = {key: value for key, value in params.items() if key != "policy"} | dict(policy.parameters)
    return replace(spec, params=genes, policy=None)


def _list_genes(params: Mapping[str, Any]) -> list[str]:
    """List the names of an agent's genes: the parameters whose defaults in the yaml are real numbers."""
    return [name for name, value in params.items() if isinstance(value, float)]


def _parse_policy_name(label: str, key: str, value: Any) -> str | None:
    """Return the name or the id of a policy as text, or None if ``value`` is null.

    Hydra parses an id that consists of digits as a number, which is converted back to text. Raises ``RequestError`` for
    any other value. ``label`` and ``key`` name the agent and its parameter in the message.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:012d}"
    if value is not None and not isinstance(value, str):
        raise RequestError(f"agent '{label}': {key}={value} is not a name; put it in quotes: {key}='\"…\"'")
    return value


def _check_genome(agent: AgentSpec, default_parameters: Mapping[str, Any], policy_name: str, policy: Policy) -> None:
    """Raise ``RequestError`` unless the genome has exactly the agent's genes and the user has set none of them."""
    genes = _list_genes(default_parameters)
    for gene in policy.parameters:
        if gene not in genes:
            raise RequestError(
                f"agent '{agent.label}' has no gene {gene!r} of policy '{policy_name}'"
                f"{suggest_valid_names(gene, genes)}"
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
    """Yield a note for the user on each agent that can use a policy but has none."""
    for agent in agents:
        if agent.params.get("policy", "") is None:
            text, trainer = f"{agent.label} has no policy: it plays untrained", _find_trainer(agent)
            if trainer is None:
                yield Advice(text, "qarena policy build makes one", "runners.build_policy(…) makes one")
            else:
                setting = trainer and f" trainer={trainer}"
                argument = f"trainer={trainer!r}" if trainer else ""
                yield Advice(text, f"qarena train{setting} makes one", f"runners.train({argument}) makes one")


def _find_trainer(agent: AgentSpec) -> str | None:
    """Return the name of the trainer that makes a policy for an agent, or "" if the trainer has no name of its own.

    The result is None if no trainer has the name of an agent that reads the same kind of policy: such a policy is
    derived from games.
    """
    readers, trainers = list_policy_readers(), list_options("trainer")
    kinds = next((reader.kinds for reader in readers if reader.settings.get("_target_") == agent.target), None)
    if kinds is None:
        return ""
    trained_names = [reader.name for reader in readers if reader.name in trainers and set(reader.kinds) & set(kinds)]
    return trained_names[0] if trained_names else None


def list_policy_parameters(card: PolicyCard) -> list[tuple[str, str]]:
    """List all parameters of a policy, its own and those with which it was learned, as pairs of a name and a value."""
    source = "trainer" if not (card.is_derived or card.is_imported) else "parameter"
    parameters = {"gene" if card.kind == GENOME else "parameter": card.parameters, source: card.learned["parameters"]}
    return [
        (f"{noun} {key}", str(value))
        for noun, settings in parameters.items()
        for key, value in flatten_settings(settings)
    ]


def format_policy_card(card: PolicyCard, folder: PurePath) -> list[tuple[str, str]]:
    """Return the contents of a policy's card, except its runs, as pairs of a heading and a text.

    ``folder`` is the folder of the policy.
    """
    learned = card.learned
    stored = ((card.stored_name(name), file) for name, file in card.files.items())
    files = [f"{name}, {file.bytes:,} bytes" + _format_row_count_suffix(file.rows) for name, file in stored]
    origin = describe_policy_origin(card)
    return [
        ("name", card.name),
        ("policy_id", card.policy_id),
        ("kind", f"{card.kind}, read by {', '.join(list_reader_names(card.kind)) or 'no agent'}"),
        ("rules", str(card.rules["name"])),
        (
            origin.relation,
            origin.source
            if card.is_imported
            else f"{origin.source}, {format_count_with_noun(learned['games'], 'game')}",
        ),
        *([("where", str(learned["where"]))] if "where" in learned else []),
        *list_policy_parameters(card),
        ("command", str(learned.get("command", ""))),
        ("created", card.created),
        ("code", ", ".join(f"{key} {value}" for key, value in card.code.items())),
        ("knowledge", f"SHA-256 {card.knowledge}, of the kind, the parameters and the table"),
        ("folder", str(folder)),
        *(("file", file) for file in files),
    ]


class PolicyOriginText(NamedTuple):
    """Two texts that tell the user where a policy comes from."""

    relation: str  # "derived by", "trainer" or "imported from"
    source: str  # a kind of policies, a trainer with its seed, or a file with its hash


def describe_policy_origin(card: PolicyCard) -> PolicyOriginText:
    """Describe how a policy was made: derived from games, learned by a trainer, or imported from a file.

    If the policy was derived from games as a part of a training, the text names the trainer and then the kind of
    policy.
    """
    learned = card.learned
    if card.is_imported:
        imported = learned["imported"]
        return PolicyOriginText("imported from", f"{imported['file']}, SHA-256 {imported['sha256']}")
    kind = learned["derivation"]["kind"] if card.is_derived else None
    if kind == learned["trainer"]:
        return PolicyOriginText("derived by", kind)
    suffix = f", derived as {kind}" if card.is_derived else ""
    return PolicyOriginText("trainer", f"{learned['trainer']}, seed {learned['seed']}{suffix}")


def _format_row_count_suffix(rows: int | None) -> str:
    return "" if rows is None else f", {format_count_with_noun(rows, 'row')}"
