"""``qarena policy lineage``: where a policy comes from, and the policies by which its games were played."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import PurePath

from analytics.policies import policy_store
from analytics.store import policy_cards
from analytics.store.archive import Archive
from analytics.store.policy_cards import PolicyCard
from analytics.store.records import RunRecord
from quarto.errors import FailureError
from runners.arena.agent_policies import MOST_RUNS, made_by

MOST_AGENTS = 6
INDENT = "  "


def lineage(root: PurePath, wanted: str) -> list[str]:
    """The lines of a tree: a policy, its runs, the policies that agents of these runs played by, and so on.

    Each policy is described once. Raises ``RequestError`` for a policy that the archive does not have.
    """
    archive = Archive.open(root)
    return list(_of_policy(archive, policy_store.find(archive, wanted), "", set()))


def _of_policy(archive: Archive, card: PolicyCard, indent: str, shown: set[str]) -> Iterator[str]:
    learned = card.learned
    yield f"{indent}policy {card.name} ({card.policy_id}), {card.kind}, {card.rules['name']} rules"
    if card.policy_id in shown:
        yield f"{indent}{INDENT}(see above)"
        return
    shown.add(card.policy_id)
    how, maker = made_by(card)
    how = "trained by" if how == "trainer" else how
    games = "" if card.is_imported else f", from {learned['games']:,} games"
    yield f"{indent}{INDENT}{how} {maker}{games}; {_code(card.code)}"
    if card.is_derived:
        yield f"{indent}{INDENT}where {learned['where']}"
    yield f"{indent}{INDENT}{card.created[:16].replace('T', ' ')} by: {learned.get('command', '')}"
    chosen = _games(archive, card) if card.is_derived else {}
    run_ids = learned["run_ids"]
    for run_id in run_ids[:MOST_RUNS]:
        yield from _of_run(archive, run_id, chosen.get(run_id), indent + INDENT, shown)
    if len(run_ids) > MOST_RUNS:
        yield f"{indent}{INDENT}and {len(run_ids) - MOST_RUNS} more runs: 'qarena policy show {card.policy_id}'"


def _games(archive: Archive, card: PolicyCard) -> dict[str, int]:
    """The number of games of each run that the policy was derived from."""
    ranges = policy_store.read_table(archive, card, "games").group_by("run_id").sum()
    return dict(ranges.select("run_id", "games").rows())


def _of_run(archive: Archive, run_id: str, games: int | None, indent: str, shown: set[str]) -> Iterator[str]:
    record = archive.run(run_id)
    if record is None:
        yield f"{indent}run {run_id}: no longer in this archive"
        return
    held = archive.games_held(run_id)
    players = _few(list(dict.fromkeys(record.labels)))  # an agent may play itself
    yield f"{indent}run {run_id}, {record.created[:16].replace('T', ' ')}: {share_of(games, held, players)}"
    yield f"{indent}{INDENT}seed {record.spec['seed']}; {_code(record.code)}"
    for policy_id, label in _policies_of(record):
        yield f"{indent}{INDENT}{label} played by"
        try:
            card = policy_cards.read_card(archive, policy_id)
        except FailureError as error:
            missing = policy_id not in policy_cards.policy_ids(archive)
            yield f"{indent}{2 * INDENT}policy {policy_id}: " + ("not in this archive" if missing else str(error))
        else:
            yield from _of_policy(archive, card, indent + 2 * INDENT, shown)


def share_of(games: int | None, held: int, players: str) -> str:
    """The games of a run that a policy comes from (None: it is not known which), of those that the archive holds."""
    if held == 0 or (games is not None and games > held):
        known = "games" if games is None else f"{games:,} games"
        return f"{known} of {players}, {'some of them ' if held else ''}no longer in this archive"
    return f"{held:,} games of {players}" if games in (None, held) else f"{games:,} of {held:,} games of {players}"


def _few(labels: Sequence[str]) -> str:
    more = len(labels) - MOST_AGENTS
    return ", ".join(labels[:MOST_AGENTS]) + (f" and {more} more" if more > 0 else "")


def _policies_of(record: RunRecord) -> Iterator[tuple[str, str]]:
    """The policies that agents of a run played by, each with the label, once."""
    found = [
        (str(agent["policy_id"]), str(agent["label"])) for agent in record.spec["agents"] if agent.get("policy_id")
    ]
    yield from dict.fromkeys(found)


def _code(code: object) -> str:
    fields = code if isinstance(code, dict) else {}
    return f"code {fields.get('version', '?')}, {fields.get('fingerprint', '?')}"
