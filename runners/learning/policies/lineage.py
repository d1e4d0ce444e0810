"""Where a policy comes from: its games and the policies by which they were played; part of ``qarena policy show``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from analytics.store import policy_cards, policy_store
from analytics.store.archive import ArchiveStore
from analytics.store.policy_cards import PolicyCard
from analytics.store.records import RunRecord
from analytics.store.texts import format_count_with_noun
from quarto.errors import FailureError
from runners.config.agent_policies import describe_policy_origin
from runners.terminal.console import format_sql_command

MAX_AGENTS = 6
MAX_LISTED_RUNS = 10  # runs of a policy that are listed one by one; a genetic training has one for each generation
INDENT = "  "


POLICY, RUN = "policy", "run"


class LineageNode(NamedTuple):
    """A policy or a run in the tree that shows where a policy comes from."""

    kind: str  # POLICY or RUN
    id: str  # "" for the runs that are not listed one by one
    result_id: str | None  # the policy that was learned from the run, or the run that was played by the policy
    depth: int  # of indentation
    heading: str
    name: str = ""
    note: str = ""  # the kind of a policy, the games of a run; "" if it is not in the archive
    details: tuple[str, ...] = ()
    player: str = ""  # the agent that played by this policy

    @property
    def key(self) -> str:
        """A key that identifies the policy or run of the node; nodes of the same policy or run have the same key."""
        return self.id or f"more of {self.result_id}"

    @property
    def lines(self) -> list[str]:
        """The lines of text that describe the node."""
        before = [f"{INDENT * (self.depth - 1)}{self.player} played by"] if self.player else []
        below = [f"{INDENT * (self.depth + 1)}{detail}" for detail in self.details]
        return [*before, f"{INDENT * self.depth}{self.heading}", *below]


def list_lineage_nodes(archive: ArchiveStore, policy_name_or_id: str) -> list[LineageNode]:
    """List the nodes of a policy's lineage: the policy, its runs, the policies that played in these runs, and so on.

    Each policy is described only once. Raises ``RequestError`` for a policy that is not in the archive.
    """
    return list(
        _list_policy_nodes(
            archive, policy_store.find(archive, policy_name_or_id), LineageNode(POLICY, "", None, 0, ""), set()
        )
    )


def format_policy_lineage(archive: ArchiveStore, policy_name_or_id: str) -> list[str]:
    """Format a policy's lineage as lines of text."""
    return [line for node in list_lineage_nodes(archive, policy_name_or_id) for line in node.lines]


def _list_policy_nodes(
    archive: ArchiveStore, card: PolicyCard, node: LineageNode, seen_policy_ids: set[str]
) -> Iterator[LineageNode]:
    """Yield the node of a policy, then the nodes of the runs and policies from which it was made.

    ``node`` gives the policy's place in the tree; its other fields are filled in here.
    """
    learned, policy_id = card.learned, card.policy_id
    kind = f"{card.kind}, {card.rules['name']} rules"
    node = node._replace(id=policy_id, heading=f"policy {card.name} ({policy_id}), {kind}", name=card.name, note=kind)
    if policy_id in seen_policy_ids:
        yield node._replace(details=("(see above)",))
        return
    seen_policy_ids.add(policy_id)
    how, maker = describe_policy_origin(card)
    how = "trained by" if how == "trainer" else how
    games = "" if card.is_imported else f", from {format_count_with_noun(learned['games'], 'game')}"
    details = [
        f"{how} {maker}{games}; {_format_code_version_and_fingerprint(card.code)}",
        *([f"where {learned['where']}"] if card.is_derived else []),
    ]
    created = f"{card.created[:16].replace('T', ' ')} by: {learned.get('command', '')}"
    yield node._replace(details=(*details, created))
    games_by_run = _count_games_by_run(archive, card) if card.is_derived else {}
    run_ids, depth = learned["run_ids"], node.depth + 1
    for run_id in run_ids[:MAX_LISTED_RUNS]:
        below = LineageNode(RUN, run_id, policy_id, depth, f"run {run_id}: no longer in this archive", run_id)
        yield from _list_run_nodes(archive, games_by_run.get(run_id), below, seen_policy_ids)
    if len(run_ids) > MAX_LISTED_RUNS:
        more = format_count_with_noun(len(run_ids) - MAX_LISTED_RUNS, "more run")
        query = f"SELECT unnest(run_ids) FROM policies WHERE policy_id = '{policy_id}'"  # noqa: S608  (shown, not asked)
        heading = f"and {more}: {format_sql_command(query, archive.root)}"
        yield LineageNode(RUN, "", policy_id, depth, heading, more)


def _count_games_by_run(archive: ArchiveStore, card: PolicyCard) -> dict[str, int]:
    """Count, for each run, the games from which the policy was made."""
    ranges = policy_store.read_table(archive, card, "games").group_by("run_id").sum()
    return dict(ranges.select("run_id", "games").rows())


def _list_run_nodes(
    archive: ArchiveStore, games: int | None, node: LineageNode, seen_policy_ids: set[str]
) -> Iterator[LineageNode]:
    """Yield the node of a run, then the nodes of the policies that played in it.

    ``games`` is the number of the run's games from which the policy was made, or None if it is not known.
    """
    record = archive.find_run(node.id)
    if record is None:
        yield node
        return
    share = describe_share(games, archive.count_games(node.id), _format_labels(record.distinct_labels_in_table_order))
    heading = f"run {node.id}, {record.created[:16].replace('T', ' ')}: {share}"
    yield node._replace(
        heading=heading,
        note=share,
        details=(f"seed {record.spec['seed']}; {_format_code_version_and_fingerprint(record.code)}",),
    )
    for policy_id, label in _list_policy_ids_with_labels(record):
        below = LineageNode(POLICY, policy_id, node.id, node.depth + 2, f"policy {policy_id}", policy_id, player=label)
        try:
            card = policy_cards.load_card(archive, policy_id)
        except FailureError as error:
            missing = policy_id not in policy_cards.list_policy_ids(archive)
            yield below._replace(heading=f"{below.heading}: {'not in this archive' if missing else error}")
        else:
            yield from _list_policy_nodes(archive, card, below, seen_policy_ids)


def describe_share(games: int | None, stored_games: int, players: str) -> str:
    """Describe from how many of a run's stored games a policy was made.

    ``games`` is the number of games from which the policy was made, or None if the card does not say. The description
    calls the players of the run ``players``.
    """
    if stored_games == 0 or (games is not None and games > stored_games):
        games_text = "games" if games is None else format_count_with_noun(games, "game")
        return f"{games_text} of {players}, {'some of them ' if stored_games else ''}no longer in this archive"
    return (
        f"{format_count_with_noun(stored_games, 'game')} of {players}"
        if games in (None, stored_games)
        else f"{games:,} of {format_count_with_noun(stored_games, 'game')} of {players}"
    )


def _format_labels(labels: Sequence[str]) -> str:
    more = len(labels) - MAX_AGENTS
    return ", ".join(labels[:MAX_AGENTS]) + (f" and {more} more" if more > 0 else "")


def _list_policy_ids_with_labels(record: RunRecord) -> Iterator[tuple[str, str]]:
    """Yield, for each agent of the run that played by a policy, the policy's id and the agent's label.

    Each pair of id and label is yielded only once.
    """
    policies = [
        (str(agent["policy_id"]), str(agent["label"])) for agent in record.spec["agents"] if agent.get("policy_id")
    ]
    yield from dict.fromkeys(policies)


def _format_code_version_and_fingerprint(code: object) -> str:
    fields = code if isinstance(code, dict) else {}
    return f"code {fields.get('version', '?')}, {fields.get('fingerprint', '?')}"
