"""One agent with its results and mistakes; the policies of an archive, and one with its origin."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple
from xml.sax.saxutils import escape

from analytics.questions.columns import (
    Cell,
    Table,
    column,
    count,
    decision_columns,
    elo,
    intervals,
    linked,
    pairing_columns,
    percent,
    properties,
    words,
)
from analytics.questions.head_to_head import HeadToHead, head_to_head, merged_results, of_tallies, renamed
from analytics.questions.mistakes import decision_summaries, judged_agents
from analytics.questions.openings import EMPTY_BOARD, OpeningsQuery
from analytics.questions.pairings import PairingResult, pairings_frame
from analytics.questions.ratings import rate
from analytics.questions.selection import GameFilter
from analytics.questions.sql.database import OpenArchive
from analytics.questions.sql.views import among
from analytics.report import style
from analytics.report.style import Drawing, Figure
from analytics.statistics.tally import Estimate, mean_score
from analytics.store import policy_store
from analytics.store.policy_cards import TABLE, PolicyCard
from quarto.errors import NotFoundError, RequestError, nearest
from quarto.notation import parse_piece
from runners.config.agent_policies import made_by
from runners.learning.policies.lineage import POLICY, LineageNode, lineage_nodes
from runners.web.archive import links
from runners.web.archive.archive_page import ArchivePage
from runners.web.archive.explorer import found_in
from runners.web.archive.runs import RunRow, chosen_records, known, minute_of, run_rows
from runners.web.archive.sections import worst


class Ranked(NamedTuple):
    """An agent among all others under its rules."""

    agent: str
    rank: int  # from 1
    of: int  # agents that are rated
    elo: str


def ranking(opened: OpenArchive, rules: str) -> tuple[Ranked, ...]:
    """The agents under some rules, best first, those that the games rate. Trainings are left out."""
    records = GameFilter(rules=rules, trainings=False).records(opened.archive)
    found, _ = renamed(of_tallies(opened, records), records)
    tallies = {(each.first, each.second): each.tally for each in merged_results(found.values(), None)}
    try:
        rated = [each for each in rate(tallies, samples=0).ratings if each.elo.mean == each.elo.mean]
    except RequestError:  # all of these games are those of trainings, or nobody met another agent
        return ()
    return tuple(Ranked(each.agent, rank, len(rated), elo(each.elo.mean)) for rank, each in enumerate(rated, 1))


def one_agent(opened: OpenArchive, agent: str, rules: str = "") -> ArchivePage:
    """The page of an agent by its label: its rating, opponents, openings and mistakes.

    Raises ``NotFoundError`` if it has not played, by these rules if they are named.
    """
    rows = [row for row in run_rows(opened) if agent in row.agents]
    played = known(rows).rules
    if not played or (rules and rules not in played):
        where = f" under {rules} rules" if played else nearest(agent, known(run_rows(opened)).agents)
        raise NotFoundError(f"agent {agent!r} has not played in this archive{where}")
    rules = rules or played[0]
    wanted = GameFilter(rules=rules, agent=agent, trainings=True)
    try:
        openings: Table | str = _openings(opened, agent, rules)
    except RequestError as error:
        openings = f"No openings to show: {error}."
    regret = _regret(opened, wanted)
    judged: list[Table | str] = [regret, worst(opened, wanted)] if regret else [UNJUDGED]
    ways = {
        "Play it": links.address("/play", {"agent": agent, "rules": rules}),
        "Its games": links.games_page(agent=agent, rules=rules),
        "Its openings": links.openings_page("", agent=agent, rules=rules),
        "Its runs": links.address(links.BROWSE, {"agent": agent}),
        "All ratings": links.results_page("ratings", rules=rules),
        **{f"Under {name} rules": links.agent_page(agent, name) for name in played if name != rules},
    }
    lead = f"{_rating(opened, agent, rules)}{_speed([row for row in rows if row.rules == rules])}"
    opponents = _opponents(head_to_head(opened, wanted), agent)
    return ArchivePage(agent, lead, ways, [opponents, openings, *judged], pieces=True)


def _rating(opened: OpenArchive, agent: str, rules: str) -> str:
    found = next((each for each in ranking(opened, rules) if each.agent == agent), None)
    if found is None:
        return f"Not rated under {rules} rules"
    return f"{found.elo} Elo, rank {found.rank} of {found.of} under {rules} rules"


def _speed(rows: Sequence[RunRow]) -> str:
    """Games a second of the runs whose records say how long they took; all of their agents share this time."""
    timed = [row for row in rows if row.record.seconds and not row.record.training]
    seconds = sum(row.record.seconds for row in timed)
    if not seconds:
        return ""
    rate = sum(row.games for row in timed) / seconds
    pace = f"{rate:,.0f}" if rate >= SMALL_RATE else f"{rate:.2g}"
    return f"; {pace} games a second, its opponents' time included"


def _openings(opened: OpenArchive, agent: str, rules: str) -> Table:
    """The first placements with their gifts, by the agent and by its opponents, and its score after each, best first.

    Raises ``RequestError`` if nobody chose one.
    """
    found: list[tuple[str, dict[str, Any], Estimate]] = []
    sides = {"itself": GameFilter(agent=agent), "its opponent": GameFilter(opponent=agent)}
    missing = ""
    for who, games in sides.items():
        seen = found_in(opened, OpeningsQuery(f"{EMPTY_BOARD} {rules}", "turn", games))
        missing = missing or seen.missing
        for row in seen.explored.rows.to_dicts() if seen.explored else ():
            counts = [row["losses"], row["draws"], row["wins"]]
            found.append((who, row, mean_score(counts if who == "itself" else counts[::-1])))
    if not found:
        raise RequestError(missing)
    most = sorted(found, key=lambda each: -each[1]["games"])[:MOST_OPENINGS]
    shown = sorted(most, key=lambda each: -each[2].mean)
    rows, scores = [row for _, row, _ in shown], [each for _, _, each in shown]
    samples = [links.game_cell(row["run_id"], row["game_id"], 1) for row in rows]
    columns = [
        words("places first", [who for who, _, _ in shown]),
        words("cell", [row["cell"] for row in rows]),
        words("gift", [Cell(row["gift"], piece=parse_piece(row["gift"])) for row in rows if row.get("gift")]),
        column("games", [row["games"] for row in rows]),
        column("score", [each.mean for each in scores], percent),
        intervals([each.low for each in scores], [each.high for each in scores]),
        words("sample game", samples),
    ]
    title = f"Openings, the best for {agent} first, in %; a row stands for all that are alike, with 0 given first"
    return Table(title, [each for each in columns if each.texts])


def _opponents(met: HeadToHead, agent: str) -> Table:
    """The results as one agent sees them, a row an opponent, the most games first."""
    seen = sorted((_seen_by(agent, each, met) for each in met.results), key=lambda each: -each.games)
    opponents = [each.second for each in seen]
    counts = [count(each.games) for each in seen]
    games = [links.games_page(agent=agent, opponent=opponent, rules=met.rules) for opponent in opponents]
    columns = [
        linked("opponent", opponents, [links.agent_page(each, met.rules) for each in opponents]),
        linked("games", counts, games, right=True),
        *(each for each in pairing_columns(pairings_frame(seen))[2:] if each.heading != "games"),
    ]
    return Table(f"Results of {agent}, in %", columns)


def _seen_by(agent: str, result: PairingResult, met: HeadToHead) -> PairingResult:
    if result.first == agent:
        return result
    tally = result.tally.swapped
    clusters = met.shared.of_meeting(agent, result.first, tally) if met.shared else None
    return replace(result, first=agent, second=result.first, tally=tally, clusters=clusters)


def _regret(opened: OpenArchive, wanted: GameFilter) -> Table | None:
    """Regret by ply; None if no decision of the agent is annotated."""
    records = chosen_records(opened, wanted)
    runs = among(record.run_id for record in records)
    names = judged_agents(opened, runs)
    frame = decision_summaries(opened, runs, True, names)
    own = frame.filter(frame["agent"] == wanted.agent)
    if own.is_empty():
        return None
    return Table("Regret in half-points by ply, and blunders", decision_columns(own)[1:])


MOST_OPENINGS = 10
UNJUDGED = "No decision of this agent is judged: `qarena annotate` does that."
SMALL_RATE = 10  # games a second, below which they are not whole numbers
CURVE = "curve"
MOST_ROWS = 200


def policies_table(opened: OpenArchive) -> Table:
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
    return Table(f"Policies, the newest first{left_out}", columns)


def one_policy(opened: OpenArchive, wanted: str) -> ArchivePage:
    """The page of a policy by its id or name: how it learned, what it is, where it comes from.

    Raises ``RequestError`` if there is none.
    """
    card = policy_store.find(opened.archive, wanted)
    drawn = lineage_figure(lineage_nodes(opened.archive, card.policy_id))
    parts: list[Table | Figure] = [*_curve(opened, card), _properties(card), drawn]
    return ArchivePage(f"Policy {card.name}", f"{card.kind}, `{card.policy_id}`", parts=parts)


WIDE, HIGH, ACROSS, DOWN = 196, 44, 36, 12  # pixels of a box and between two


def lineage_figure(nodes: Sequence[LineageNode]) -> Figure:
    """From left to right: a policy, the runs that it was learned from, the policies that played in them."""
    boxes = {node.key: node for node in reversed(nodes)}  # as it is told first
    ways = [(node.came, node.key) for node in nodes if node.came]
    columns, rows = _columns(ways, nodes[0].key), dict[str, int]()
    free = [0] * (1 + max(columns.values()))  # the next row of each column
    for node in nodes:
        if node.key not in rows:
            column = columns[node.key]
            rows[node.key] = max(free[column], rows.get(node.came or "", 0))
            free[column] = rows[node.key] + 1
    places = {key: (columns[key] * (WIDE + ACROSS), rows[key] * (HIGH + DOWN)) for key in rows}
    shapes = [*(_way(places[came], places[key]) for came, key in dict.fromkeys(ways))]
    shapes += [_box(boxes[key], *place) for key, place in places.items()]
    width, height = len(free) * (WIDE + ACROSS) - ACROSS, max(free) * (HIGH + DOWN)
    drawing = Drawing("".join(shapes), width, height)
    return Figure("Where it comes from", drawing, "lineage-")


def _columns(ways: Sequence[tuple[str, str]], first: str) -> dict[str, int]:
    """The column of each box: to the right of all that came of it."""
    columns = {first: 0} | dict.fromkeys((key for _, key in ways), 1)
    for _ in ways:  # each time one column more is right; of records that contradict each other no more than this
        further = [(key, columns[came] + 1) for came, key in ways if columns[key] <= columns[came]]
        if not further:
            break
        columns |= further
    return columns


def _box(node: LineageNode, x: float, y: float) -> str:
    """A policy (round and blue) or a run, which lead to their pages if they are in the archive."""
    is_policy = node.kind == POLICY
    page = (links.policy_page if is_policy else links.run_page)(node.id) if node.note else ""
    frame = f'rx="{14 if is_policy else 3}" fill="none" stroke="{style.FIRST if is_policy else style.FAINT}"'
    note = node.note or ("" if not node.id else "not in this archive")
    texts = ((node.name, 24, 18, 13, style.INK), (note, 30, 34, 11, style.FAINT))
    shown = "".join(
        style.text_at(x + 12, y + down, text if len(text) <= letters else f"{text[:letters]}…", size, colour)
        for text, letters, down, size, colour in texts
    )
    hint = escape("\n".join(node.lines))
    box = f'<title>{hint}</title><rect x="{x}" y="{y}" width="{WIDE}" height="{HIGH}" {frame}/>{shown}'
    return f'<a href="{page}">{box}</a>' if page else f"<g>{box}</g>"


def _way(place: tuple[int, int], origin: tuple[int, int]) -> str:
    """The line from a box to one that it comes from; past the columns between them it runs below a row of boxes."""
    x, y, to_x, to_y = place[0] + WIDE, place[1] + HIGH // 2, origin[0], origin[1] + HIGH // 2
    path = f"M{x} {y}"
    if to_x - x > ACROSS:
        lane = origin[1] + HIGH + DOWN // 2
        path += f"C{x + ACROSS} {y} {x} {lane} {x + ACROSS} {lane}H{to_x - ACROSS}"
        x, y = to_x - ACROSS, lane
    curve = f"{path}C{x + ACROSS} {y} {to_x - ACROSS} {to_y} {to_x} {to_y}"
    return f'<path d="{curve}" fill="none" stroke="{style.FAINT}"/>'


def _properties(card: PolicyCard) -> Table:
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
    return Table("Properties of the policy", properties(values, ("command", "games chosen by")))


def _curve(opened: OpenArchive, card: PolicyCard) -> list[Figure]:
    if f"{CURVE}.parquet" not in card.files:
        return []
    rows = policy_store.read_table(opened.archive, card, CURVE)
    if rows.is_empty():
        return []
    chart = style.curve_chart(rows, style.WIDTH + 180, style.HEIGHT)
    return [Figure(f"How {card.name} fared while it learned", chart, "curve-", "Bands are 95 % intervals.")]
