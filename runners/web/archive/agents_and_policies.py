"""Pages of one agent with its results and mistakes, of all policies, and of one policy with its origin."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any
from xml.sax.saxutils import escape

from analytics.questions.columns import (
    Cell,
    ResultColumn,
    Table,
    format_count,
    format_elo,
    format_percent,
    interval_column,
    link_column,
    number_column,
    pairing_columns,
    property_columns,
    regret_and_blunder_columns,
    text_column,
)
from analytics.questions.head_to_head import HeadToHead, compute_head_to_head
from analytics.questions.mistakes import build_judged_agent_names, summarise_decisions
from analytics.questions.openings import EMPTY_BOARD, OpeningsQuery, describe_first_plies
from analytics.questions.pace import compute_pace_without_people, format_games_a_second
from analytics.questions.pairings import PairingResult, pairings_frame, resolve_shown_agent_label
from analytics.questions.ratings import Rating, Ratings, compute_ratings
from analytics.questions.selection import GameFilter
from analytics.questions.sql.database import OpenArchive
from analytics.questions.sql.views import run_condition_sql
from analytics.report import style
from analytics.report.style import Figure, SvgPicture
from analytics.statistics.tally import Estimate, mean_score
from analytics.store import policy_store
from analytics.store.policy_cards import TABLE, PolicyCard
from analytics.store.records import RunRecord
from analytics.store.texts import format_count_with_noun
from quarto.errors import NotFoundError, RequestError, suggest_valid_names
from quarto.notation import parse_piece
from runners.config.agent_policies import describe_policy_origin
from runners.learning.policies.lineage import POLICY, LineageNode, list_lineage_nodes
from runners.terminal.console import format_annotate_command
from runners.web.archive import urls
from runners.web.archive.archive_page import ArchivePage
from runners.web.archive.explorer import explore_position_if_readable
from runners.web.archive.runs import (
    RunRow,
    format_minute,
    list_rules_and_agent_names,
    list_runs,
    select_records_or_raise,
)
from runners.web.archive.sections import build_mistakes_table


def rate_agents(opened: OpenArchive, rules: str) -> Ratings | None:
    """Rate the agents under the named rules as `qarena rate` does, but without intervals.

    Return None if no game counts for a rating, because all games belong to trainings or no agent met another.
    """
    try:
        return compute_ratings(opened, rules=rules, samples=0)
    except RequestError:
        return None


def build_agent_page(opened: OpenArchive, agent: str, rules: str = "") -> ArchivePage:
    """Build the page about the agent with this label: its rating, opponents, openings and mistakes.

    If ``rules`` is "", the page is about the rules under which the agent has played the most games. Raises
    ``NotFoundError`` if the agent has played no games, or none under the rules that ``rules`` names.
    """
    rows = [row for row in list_runs(opened) if agent in row.agents]
    rules_played = list_rules_and_agent_names(rows).rules
    if not rules_played or (rules and rules not in rules_played):
        where = (
            f" under {rules} rules"
            if rules_played
            else suggest_valid_names(agent, list_rules_and_agent_names(list_runs(opened)).agents)
        )
        raise NotFoundError(f"agent {agent!r} has not played in this archive{where}")
    rules = rules or rules_played[0]
    game_filter = GameFilter(rules=rules, agent=agent, trainings=True)
    try:
        openings: Table | str = _build_agent_and_opponent_openings_table(opened, agent, rules)
    except RequestError as error:
        openings = f"No openings to show: {error.for_command_line}."
    regret = _build_regret_by_ply_table(opened, game_filter)
    annotate = format_annotate_command(opened.archive.root, game_filter)
    unjudged = f"No decision of this agent is judged: `{annotate}` does that."
    judged: list[Table | str] = [regret, build_mistakes_table(opened, game_filter)] if regret else [unjudged]
    links = {
        "Play it": urls.build_url("/play", {"agent": agent, "rules": rules}),
        "Its games": urls.games_url(agent=agent, rules=rules),
        "Its openings": urls.openings_url("", agent=agent, rules=rules),
        "Its runs": urls.build_url(urls.BROWSE, {"agent": agent}),
        "All ratings": urls.results_url("ratings", rules=rules),
        **{f"Under {name} rules": urls.agent_url(agent, name) for name in rules_played if name != rules},
    }
    lead = f"{_describe_rating(opened, agent, rules)}{_describe_speed([row for row in rows if row.rules == rules])}"
    opponents = _build_opponents_table(opened, agent, [row.record for row in rows if row.rules == rules])
    return ArchivePage(agent, lead, links, [opponents, openings, *judged], pieces=True)


def _describe_rating(opened: OpenArchive, agent: str, rules: str) -> str:
    """Describe the rating and the rank of an agent, or why the agent has none.

    An agent that played with several versions of its code has a rating for each version.
    """
    ratings = rate_agents(opened, rules)
    agent_ratings = (
        []
        if ratings is None
        else [candidate for candidate in ratings.ratings if resolve_shown_agent_label(candidate.agent, [agent])]
    )
    rated = [rating for rating in agent_ratings if not math.isnan(rating.elo.mean)]
    if ratings is None or not rated:
        return f"Not rated under {rules} rules"
    names = ["" if rating.agent == agent else f"{rating.agent}: " for rating in rated]
    return "; ".join(
        f"{name}{_describe_elo_and_rank(ratings, rating, rules)}" for name, rating in zip(names, rated, strict=True)
    )


def _describe_elo_and_rank(ratings: Ratings, rating: Rating, rules: str) -> str:
    """Describe one rating as its Elo and its rank, or say why it has no rank."""
    elo = f"{format_elo(rating.elo.mean)} Elo"
    if rating.rank is None:
        return f"{elo} under {rules} rules, without a rank ({', '.join(rating.unranked)})"
    group = [other for other in ratings.ranked if other.group == rating.group]
    among = (
        f"; {format_count_with_noun(ratings.group_count, 'group')} of agents have no games between them"
        if ratings.group_count > 1
        else ""
    )
    return f"{elo}, rank {rating.rank} of {len(group)} under {rules} rules{among}"


def _describe_speed(rows: Sequence[RunRow]) -> str:
    """Describe how fast the agent's runs were played; return "" if no run recorded its duration.

    The speed includes the time that the opponents took.
    """
    pace = compute_pace_without_people((row.record, row.games) for row in rows if not row.record.training)
    return "" if pace is None else f"; {format_games_a_second(pace)} games a second, its opponents' time included"


def _build_agent_and_opponent_openings_table(opened: OpenArchive, agent: str, rules: str) -> Table:
    """Build the table of the first placements that the agent and its opponents chose.

    Each row shows a placement, the gift after it and the agent's score; the best score comes first. If any game had
    imposed plies, each game counts with the first placement after its imposed plies, and each row also shows the
    position before it. Raises ``RequestError`` if nobody chose a placement in these games.
    """
    choices: list[tuple[str, dict[str, Any], Estimate]] = []
    records = GameFilter(rules=rules, agent=agent).select_runs(opened.archive)
    first_free = any(record.spec["opening_plies"] for record in records)
    missing, games_by_ply = "", Counter[int]()
    for who, games in {"itself": GameFilter(agent=agent), "its opponent": GameFilter(opponent=agent)}.items():
        result = explore_position_if_readable(
            opened, OpeningsQuery(f"{EMPTY_BOARD} {rules}", "turn", games, first_free=first_free)
        )
        missing = missing or result.missing
        games_by_ply.update(result.explored.games_by_ply if result.explored else {})
        for row in result.explored.rows.to_dicts() if result.explored else ():
            counts = [row["losses"], row["draws"], row["wins"]]
            choices.append((who, row, mean_score(counts if who == "itself" else counts[::-1])))
    if not choices:
        raise RequestError(missing)
    most_played = sorted(choices, key=lambda choice: -choice[1]["games"])[:MAX_OPENINGS]
    best_first = sorted(most_played, key=lambda choice: -choice[2].mean)
    scores = [score for _, _, score in best_first]
    columns = [
        text_column("decides" if first_free else "places first", [who for who, _, _ in best_first]),
        *_build_position_turn_and_games_columns([row for _, row, _ in best_first]),
        number_column("score", [score.mean for score in scores], format_percent),
        interval_column([score.low for score in scores], [score.high for score in scores]),
        text_column("sample game", [_build_sample_cell(row) for _, row, _ in best_first]),
    ]
    subject = describe_first_plies(dict(sorted(games_by_ply.items()))) if first_free else "with 0 given first"
    title = f"Openings, the best for {agent} first, in %; a row stands for all that are alike; {subject}"
    return Table(title, [column for column in columns if column.texts])


def _build_position_turn_and_games_columns(rows: Sequence[Mapping[str, Any]]) -> list[ResultColumn]:
    """Build the columns of positions (if the rows name positions), cells, gifts and numbers of games."""
    positions = [row["position"] for row in rows if "position" in row]
    return [
        link_column("position", positions, map(urls.openings_url, positions), code=True),
        text_column("cell", [row["cell"] for row in rows]),
        text_column("gift", [_build_gift_cell(row["gift"]) for row in rows if "gift" in row]),
        number_column("games", [row["games"] for row in rows]),
    ]


def _build_gift_cell(gift: str | None) -> Cell:
    """Build the table cell for a gift, with a picture of the piece.

    If no gift followed the placement, the cell shows a dot.
    """
    return Cell("·") if gift is None else Cell(gift, piece=parse_piece(gift))


def _build_sample_cell(row: Mapping[str, Any]) -> Cell:
    return urls.build_game_cell(row["run_id"], row["game_id"], row.get("ply", 0) + 1)


def _build_opponents_table(opened: OpenArchive, agent: str, records: Sequence[RunRecord]) -> Table:
    """Build the table of an agent's results by opponent, with the most frequent opponent first.

    ``records`` are the agent's runs under one set of rules. Trainings are left out, as in crosstables, unless the agent
    played only in trainings. Each version of an agent's code has its own row.
    """
    labels = {label for record in records for label in record.labels}
    trainings = sum(record.training for record in records)
    only_trainings = trainings == len(records)
    game_filter = GameFilter(rules=records[0].rules.name, agent=agent, trainings=only_trainings)
    head_to_head = compute_head_to_head(opened, game_filter)
    results = sorted(
        (_put_agent_first(agent, result, head_to_head) for result in head_to_head.results),
        key=lambda result: -result.games,
    )
    names, opponents = [result.first for result in results], [result.second for result in results]
    counts = [format_count(result.games) for result in results]
    opponent_labels = [resolve_shown_agent_label(opponent, labels) or opponent for opponent in opponents]
    games = [urls.games_url(agent=agent, opponent=label, rules=head_to_head.rules) for label in opponent_labels]
    columns = [
        link_column("opponent", opponents, [urls.agent_url(label, head_to_head.rules) for label in opponent_labels]),
        *([text_column("agent", names)] if len(set(names)) > 1 else []),
        link_column("games", counts, games, right_aligned=True),
        *(column for column in pairing_columns(pairings_frame(results))[2:] if column.heading != "games"),
    ]
    left_out = f"; {format_count_with_noun(trainings, 'run of a training', 'runs of trainings')} left out"
    trainings_note = "; all in trainings" if only_trainings else left_out if trainings else ""
    return Table(f"Results of {agent}, in %{trainings_note}", columns)


def _put_agent_first(agent: str, result: PairingResult, head_to_head: HeadToHead) -> PairingResult:
    """Return the result of a pairing with ``agent`` as the first agent; the agents are swapped if need be."""
    if resolve_shown_agent_label(result.first, [agent]):
        return result
    swapped = result.with_agents_swapped
    if head_to_head.shared is None:
        return swapped
    clusters = head_to_head.shared.build_meeting_clusters(swapped.first, swapped.second, swapped.tally)
    return replace(swapped, clusters=clusters)


def _build_regret_by_ply_table(opened: OpenArchive, game_filter: GameFilter) -> Table | None:
    """Build the table of regret by ply, or return None if no decision of the agent is annotated."""
    records = select_records_or_raise(opened, game_filter)
    runs = run_condition_sql(record.run_id for record in records)
    names = build_judged_agent_names(opened, runs)
    frame = summarise_decisions(opened, runs, True, names)
    agent_rows = frame.filter(frame["agent"] == game_filter.agent)
    if agent_rows.is_empty():
        return None
    return Table("Regret in half-points by ply, and blunders", regret_and_blunder_columns(agent_rows)[1:])


MAX_OPENINGS = 10
CURVE_TABLE = "curve"
MAX_ROWS = 200


def build_policies_table(opened: OpenArchive) -> Table:
    """Build the table of the newest policies, with the newest first."""
    cards = opened.archive.load_cards()
    current_ids = {card.name: card.policy_id for card in cards}
    newest = cards[::-1][:MAX_ROWS]
    columns = [
        link_column("policy", [card.name for card in newest], [urls.policy_url(card.policy_id) for card in newest]),
        text_column("id", [Cell(card.policy_id, code=True) for card in newest]),
        text_column("kind", [card.kind for card in newest]),
        text_column("rules", [card.rules["name"] for card in newest]),
        text_column("made by", [" ".join(describe_policy_origin(card))[:60] for card in newest]),
        number_column("games", [card.learned["games"] for card in newest]),
        text_column("created (UTC)", [format_minute(card.created) for card in newest]),
        text_column("", ["" if current_ids[card.name] == card.policy_id else "older" for card in newest]),
    ]
    left_out = "" if len(cards) <= MAX_ROWS else f" (the newest {MAX_ROWS} of {len(cards):,})"
    return Table(f"Policies, the newest first{left_out}", columns)


def build_policy_page(opened: OpenArchive, name_or_id: str) -> ArchivePage:
    """Build the page of a policy: how it was learned, what its properties are, and where it comes from.

    Raises ``RequestError`` if no policy has this name or id.
    """
    card = policy_store.find(opened.archive, name_or_id)
    lineage = build_lineage_figure(list_lineage_nodes(opened.archive, card.policy_id))
    parts: list[Table | Figure] = [*_build_curve_figures(opened, card), _build_properties_table(card), lineage]
    return ArchivePage(f"Policy {card.name}", f"{card.kind}, `{card.policy_id}`", parts=parts)


BOX_WIDTH, BOX_HEIGHT, COLUMN_GAP, ROW_GAP = 196, 44, 36, 12  # pixels of a box, and between two boxes


def build_lineage_figure(nodes: Sequence[LineageNode]) -> Figure:
    """Draw where a policy comes from.

    From left to right, the figure shows the policy, the runs from which it was learned, and the policies that played in
    these runs. The first of ``nodes`` is the policy.
    """
    boxes = {node.key: node for node in reversed(nodes)}  # by key; if a key occurs twice, its first node counts
    connections = [(node.result_id, node.key) for node in nodes if node.result_id]
    columns, rows = _assign_columns(connections, nodes[0].key), dict[str, int]()
    next_rows = [0] * (1 + max(columns.values()))  # next free row of each column
    for node in nodes:
        if node.key not in rows:
            column = columns[node.key]
            rows[node.key] = max(next_rows[column], rows.get(node.result_id or "", 0))
            next_rows[column] = rows[node.key] + 1
    places = {key: (columns[key] * (BOX_WIDTH + COLUMN_GAP), rows[key] * (BOX_HEIGHT + ROW_GAP)) for key in rows}
    shapes = [*(_render_connection(places[result_key], places[key]) for result_key, key in dict.fromkeys(connections))]
    shapes += [_render_box(boxes[key], *place) for key, place in places.items()]
    width, height = len(next_rows) * (BOX_WIDTH + COLUMN_GAP) - COLUMN_GAP, max(next_rows) * (BOX_HEIGHT + ROW_GAP)
    drawing = SvgPicture("".join(shapes), width, height)
    return Figure("Where it comes from", drawing, "lineage-")


def _assign_columns(connections: Sequence[tuple[str, str]], first_key: str) -> dict[str, int]:
    """Assign a column to each box, so that every origin is to the right of what was derived from it.

    ``connections`` are pairs (key of the result, key of its origin). The box ``first_key`` gets column 0. Returns a
    mapping from the key of each box to its column.
    """
    columns = {first_key: 0} | dict.fromkeys((key for _, key in connections), 1)
    # Each round settles one more column. The bound ends the loop even if records form a cycle.
    for _ in connections:
        further = [
            (key, columns[result_key] + 1) for result_key, key in connections if columns[key] <= columns[result_key]
        ]
        if not further:
            break
        columns |= further
    return columns


def _render_box(node: LineageNode, x: float, y: float) -> str:
    """Render the box of a policy or of a run as SVG. The box of a policy is round and blue.

    The upper left corner of the box is at ``x`` and ``y``, in pixels. The box links to the page of the policy or run if
    the archive has its record.
    """
    is_policy = node.kind == POLICY
    page = (urls.policy_url if is_policy else urls.run_url)(node.id) if node.note else ""
    frame = f'rx="{14 if is_policy else 3}" fill="none" stroke="{style.FIRST_COLOUR if is_policy else style.FAINT}"'
    note = node.note or ("" if not node.id else "not in this archive")
    texts = ((node.name, 24, 18, 13, style.INK), (note, 30, 34, 11, style.FAINT))
    text_elements = "".join(
        style.render_text(x + 12, y + down, text if len(text) <= letters else f"{text[:letters]}…", size, colour)
        for text, letters, down, size, colour in texts
    )
    hint = escape("\n".join(node.lines))
    box = (
        f'<title>{hint}</title><rect x="{x}" y="{y}" width="{BOX_WIDTH}" height="{BOX_HEIGHT}" {frame}/>{text_elements}'
    )
    return f'<a href="{page}">{box}</a>' if page else f"<g>{box}</g>"


def _render_connection(box_pixels: tuple[int, int], origin_box_pixels: tuple[int, int]) -> str:
    """Render, as SVG, the curve that connects the box of a result with the box of its origin.

    ``box_pixels`` and ``origin_box_pixels`` are the upper left corners (x, y) of the two boxes, in pixels. If there are
    columns between the boxes, the curve crosses them below the row of the origin's box.
    """
    x, y, to_x, to_y = (
        box_pixels[0] + BOX_WIDTH,
        box_pixels[1] + BOX_HEIGHT // 2,
        origin_box_pixels[0],
        origin_box_pixels[1] + BOX_HEIGHT // 2,
    )
    path = f"M{x} {y}"
    if to_x - x > COLUMN_GAP:
        lane = origin_box_pixels[1] + BOX_HEIGHT + ROW_GAP // 2
        path += f"C{x + COLUMN_GAP} {y} {x} {lane} {x + COLUMN_GAP} {lane}H{to_x - COLUMN_GAP}"
        x, y = to_x - COLUMN_GAP, lane
    curve = f"{path}C{x + COLUMN_GAP} {y} {to_x - COLUMN_GAP} {to_y} {to_x} {to_y}"
    return f'<path d="{curve}" fill="none" stroke="{style.FAINT}"/>'


def _build_properties_table(card: PolicyCard) -> Table:
    learned = card.learned
    how, maker = describe_policy_origin(card)
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
    return Table("Properties of the policy", property_columns(values, ("command", "games chosen by")))


def _build_curve_figures(opened: OpenArchive, card: PolicyCard) -> list[Figure]:
    if f"{CURVE_TABLE}.parquet" not in card.files:
        return []
    rows = policy_store.read_table(opened.archive, card, CURVE_TABLE)
    if rows.is_empty():
        return []
    chart = style.build_curve_chart(rows, style.WIDTH + 180, style.HEIGHT)
    return [Figure(f"How {card.name} fared while it learned", chart, "curve-", "Bands are 95 % intervals.")]
