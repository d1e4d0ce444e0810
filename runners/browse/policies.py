"""The policies of an archive, and one with its origin and its learning curve."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from analytics.policies import policy_store
from analytics.report import style
from analytics.report.content import Cell, Figure, PageTable, linked
from analytics.report.figures.learning import Curve, learning_panels
from analytics.results.columns import column, words
from analytics.sql.database import OpenArchive
from analytics.store.policy_cards import TABLE, PolicyCard
from runners.arena.agent_policies import made_by
from runners.browse import links
from runners.browse.runs import minute_of, properties_table
from runners.policies.lineage import INDENT, lineage

CURVE = "curve"
MOST_ROWS = 200
_ID = re.compile(r"(?<=run )[0-9a-f]{12}|(?<=policy )[0-9a-f]{12}|(?<=\()[0-9a-f]{12}(?=\))")


def policies_table(opened: OpenArchive) -> PageTable:
    """All policies, the newest first."""
    cards = opened.archive.cards()
    current = {card.name: card.policy_id for card in cards}
    shown = cards[::-1][:MOST_ROWS]
    columns = [
        linked("policy", [card.name for card in shown], [links.policy_page(card.policy_id) for card in shown]),
        words("id", [Cell(card.policy_id, code=True) for card in shown]),
        words("kind", [card.kind for card in shown]),
        words("rules", [card.rules["name"] for card in shown]),
        words("made by", [" ".join(made_by(card))[:60] for card in shown]),
        column("games", [card.learned["games"] for card in shown]),
        words("created (UTC)", [minute_of(card.created) for card in shown]),
        words("", ["" if current[card.name] == card.policy_id else "older" for card in shown]),
    ]
    left_out = "" if len(cards) <= MOST_ROWS else f" (the newest {MOST_ROWS} of {len(cards):,})"
    return PageTable.of(f"Policies, the newest first{left_out}", columns)


class LineageLine(NamedTuple):
    """A line of a lineage: its depth, and its text in parts, some of them links."""

    depth: int
    parts: list[Cell]


class OnePolicy(NamedTuple):
    """A policy: what it is, where it comes from, how it learned."""

    card: PolicyCard
    properties: PageTable
    lineage: list[LineageLine]
    curve: Figure | None


def one_policy(opened: OpenArchive, wanted: str) -> OnePolicy:
    """A policy by its id or name. Raises ``RequestError`` if there is none."""
    card = policy_store.find(opened.archive, wanted)
    lines = [_line(text) for text in lineage(opened.archive.root, card.policy_id)]
    return OnePolicy(card, _properties(card), lines, _curve(opened, card))


def _line(text: str) -> LineageLine:
    bare = text.lstrip(" ")
    return LineageLine((len(text) - len(bare)) // len(INDENT), list(_parts(bare)))


def _parts(text: str) -> Iterator[Cell]:
    """A text in parts: ids of runs and policies lead to their pages."""
    end = 0
    for found in _ID.finditer(text):
        yield Cell(text[end : found.start()])
        is_run = text[: found.start()].endswith("run ")
        link = links.run_page(found[0]) if is_run else links.policy_page(found[0])
        yield Cell(found[0], code=True, link=link)
        end = found.end()
    yield Cell(text[end:])


def _properties(card: PolicyCard) -> PageTable:
    learned = card.learned
    how, maker = made_by(card)
    table = card.files.get(TABLE)
    values = {
        "kind": card.kind,
        "rules": str(card.rules["name"]),
        how: maker,
        "games": f"{learned['games']:,}",
        "games chosen by": str(learned.get("where") or "a training" if not card.is_derived else learned["where"]),
        "rows": "a genome" if table is None else f"{table.rows:,}",
        "parameters": ", ".join(f"{name}={value:g}" for name, value in card.parameters.items()) or "none",
        "created": f"{card.created[:19].replace('T', ' ')} UTC",
        "code": f"{card.code.get('version', '?')}, fingerprint {card.code.get('fingerprint', '?')}",
        "command": str(learned.get("command", "")),
    }
    return properties_table("Properties of the policy", values, ("command", "games chosen by"))


def _curve(opened: OpenArchive, card: PolicyCard) -> Figure | None:
    if f"{CURVE}.parquet" not in card.files:
        return None
    rows = policy_store.read_table(opened.archive, card, CURVE)
    if rows.is_empty():
        return None
    (panel,) = learning_panels([Curve(card, rows)])
    wide = panel.picture.properties(width=style.WIDTH + 180, height=style.HEIGHT)
    return Figure(f"How {card.name} fared while it learned", wide, "curve-", "Bands are 95 % intervals.")
