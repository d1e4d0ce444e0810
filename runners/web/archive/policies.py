"""Pages of all policies, and of one policy with its parameters and its origin."""

from __future__ import annotations

from collections.abc import Sequence
from xml.sax.saxutils import escape

from analytics.questions.columns import (
    Cell,
    Table,
    link_column,
    number_column,
    property_columns,
    text_column,
)
from analytics.questions.sql.database import OpenArchive
from analytics.report import style
from analytics.report.style import Figure, SvgPicture
from analytics.store import policy_store
from analytics.store.policy_cards import TABLE, PolicyCard
from runners.config.agent_policies import describe_policy_origin, list_policy_parameters
from runners.learning.policies.lineage import POLICY, LineageNode, list_lineage_nodes
from runners.web.archive import urls
from runners.web.archive.archive_page import ArchivePage
from runners.web.archive.runs import (
    format_minute,
)

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
    tables = [*_build_parameters_tables(card), _build_properties_table(card)]
    parts: list[Table | Figure] = [*_build_curve_figures(opened, card), *tables, lineage]
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


def _build_parameters_tables(card: PolicyCard) -> list[Table]:
    """Return the table of all parameters of a policy, as a list of one table; the list is empty if it has none."""
    parameters = dict(list_policy_parameters(card))
    return [Table("Parameters of the policy", property_columns(parameters))] if parameters else []


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
