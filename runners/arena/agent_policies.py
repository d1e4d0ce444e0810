"""Policies for agents: what a parameter ``policy=NAME`` names becomes a policy in memory, or the genes of a player."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from agents.learning.policy import GENOME, READERS, Policy
from analytics.policies import policy_store
from analytics.store.archive import Archive
from analytics.store.records import PolicyCard
from quarto.errors import RequestError, nearest
from runners.arena.config_groups import flat
from runners.arena.spec import AgentSpec

ANY = "policy"  # the agent that plays any of them
MOST_RUNS = 10  # of a policy that are shown one by one: a genetic training has one a generation


def with_policy(agent: AgentSpec, own: Mapping[str, Any], root: Path) -> AgentSpec:
    """The agent with the policy that its parameter ``policy`` names, if it has one; ``own`` is what its yaml says.

    A policy goes to the constructor as it is. Where the constructor takes none, the policy must be a genome, and its
    genes replace the agent's own. Raises ``RequestError`` for a policy that the archive at ``root`` does not have or
    that is damaged, and for a genome that does not fit.
    """
    if "policy" not in agent.params:
        return agent
    wanted = _text(agent.label, agent.params["policy"])
    takes = agent.takes_policy()
    params = {key: value for key, value in agent.params.items() if takes or key != "policy"}
    if wanted is None:
        return replace(agent, params=params)
    card, policy = policy_store.read(Archive.open(root), wanted)
    if takes:
        return replace(agent, params=params | {"policy": wanted}, policy_id=card.policy_id, policy=policy)
    _check_genome(agent, own, card.name, policy)
    return replace(agent, params=params | dict(policy.parameters), policy_id=card.policy_id)


def _text(label: str, value: Any) -> str | None:
    """The name or id in a parameter; an id of digits alone has been taken for a number."""
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:012d}"
    if value is not None and not isinstance(value, str):
        raise RequestError(f"agent '{label}': policy={value} is not a name; put it in quotes: policy='\"…\"'")
    return value


def _check_genome(agent: AgentSpec, own: Mapping[str, Any], name: str, policy: Policy) -> None:
    """Raises ``RequestError`` unless the genome has the agent's genes, all of them, and nobody else has set one.

    An agent's genes are those of its parameters that are real numbers in its yaml.
    """
    if policy.kind != GENOME:
        raise RequestError(f"agent '{agent.label}' plays by genes, and policy '{name}' is of kind {policy.kind!r}")
    genes = [key for key, value in own.items() if isinstance(value, float)]
    for gene in policy.parameters:
        if gene not in genes:
            raise RequestError(f"agent '{agent.label}' has no gene {gene!r} of policy '{name}'{nearest(gene, genes)}")
    for gene in genes:
        if gene not in policy.parameters:
            raise RequestError(
                f"policy '{name}' has no gene {gene!r}, which agent '{agent.label}' needs: it has "
                f"{', '.join(policy.parameters)}"
            )
        if agent.params[gene] != own[gene]:
            raise RequestError(
                f"agent '{agent.label}': {gene}={agent.params[gene]} contradicts policy={name}, which has "
                f"{gene}={policy.parameters[gene]}; leave out the one or the other"
            )


def untrained(agents: Iterable[AgentSpec]) -> Iterator[str]:
    """What to tell the user of agents that could play by a policy and have none."""
    for agent in agents:
        if agent.params.get("policy", "") is None:
            trainer = "".join(f" trainer={players[0]}" for players in READERS.values() if _name(agent) in players)
            maker = "policy build" if _name(agent) == ANY else f"train{trainer}"
            yield f"{agent.label} has no policy: it plays untrained; qarena {maker} makes one"


def _name(agent: AgentSpec) -> str:
    """The name of a player's module, which is that of its yaml."""
    return agent.target.rpartition(".")[0].rpartition(".")[2]


def description(card: PolicyCard, folder: Path) -> list[tuple[str, str]]:
    """Everything on a policy's card, as names and texts."""
    learned = card.learned
    whose = "parameter" if card.is_derived else "trainer"
    parameters = {"gene" if card.kind == GENOME else "parameter": card.parameters, whose: learned["parameters"]}
    files = [f"{name}, {file.bytes:,} bytes" + _rows(file.rows) for name, file in card.files.items()]
    how, maker = made_by(card)
    return [
        ("name", card.name),
        ("policy_id", card.policy_id),
        ("kind", f"{card.kind}, read by {', '.join(readers_of(card.kind)) or 'other players'}"),
        ("rules", str(card.rules["name"])),
        (how, f"{maker}, {learned['games']:,} games"),
        *((key, str(learned[key])) for key in ("where",) if key in learned),
        *((f"{what} {key}", str(value)) for what, own in parameters.items() for key, value in flat(own)),
        *(("run", run_id) for run_id in learned["run_ids"][:MOST_RUNS]),
        *(
            [("", f"and {len(learned['run_ids']) - MOST_RUNS} more runs")]
            if len(learned["run_ids"]) > MOST_RUNS
            else []
        ),
        ("command", str(learned.get("command", ""))),
        ("created", card.created),
        ("code", ", ".join(f"{key} {value}" for key, value in card.code.items())),
        ("knowledge", card.knowledge),
        ("folder", str(folder)),
        *(("file", file) for file in files),
    ]


def made_by(card: PolicyCard) -> tuple[str, str]:
    """How a policy was made, 'derived by' or 'trainer', and by what: a trainer may have derived it."""
    learned = card.learned
    kind = learned["derivation"]["kind"] if card.is_derived else None
    if kind == learned["trainer"]:
        return "derived by", kind
    derived = f", derived as {kind}" if card.is_derived else ""
    return "trainer", f"{learned['trainer']}, seed {learned['seed']}{derived}"


def readers_of(kind: str) -> list[str]:
    """The agents that play policies of a kind."""
    known = READERS.get(kind, ())
    return [*known, ANY] if known and ANY not in known else [*known]


def _rows(rows: int | None) -> str:
    return "" if rows is None else f", {rows:,} rows"
