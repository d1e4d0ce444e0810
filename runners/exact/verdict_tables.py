"""Verdicts on agents as tables for the terminal, as a frame, and as the page of all agents (the leaderboard)."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path, PurePath

import polars as pl

from analytics.exact.tablebase import find_largest_tablebase
from analytics.questions.columns import (
    ResultColumn,
    Table,
    format_count,
    format_half_points,
    format_interval,
    format_percent,
    interval_column,
    number_column,
    numbered_agent_columns,
    text_column,
)
from analytics.statistics.tally import Estimate
from analytics.store import policy_store
from analytics.store.archive import ArchiveStore
from analytics.store.policy_cards import TABLE, load_card, load_cards
from analytics.store.texts import format_count_with_noun
from quarto.rules import Rules
from runners.arena.spec import AgentSpec
from runners.exact.verdicts import OPENING_PLIES, AgentVerdict, JudgeOptions, JudgeRequest, Verdicts, judge_agents
from runners.hosting.interruption import exit_code, stop_on_signal_then_interrupt_then_exit
from runners.terminal import console
from runners.terminal.files import TableOutput, write_file
from runners.terminal.tables import output_frame

DECISION_KINDS = ("turn", "placement", "gift")
KNOWLEDGE_FILES = (TABLE, policy_store.GENOME_FILE)  # the files of a policy that it plays by
PAGE_TEMPLATE = """# How close to perfect: all agents

```
{command}
```

Each turn was looked up in [a set of {positions:,} positions][set] with the exact value of every turn ({rules} rules).
Every agent made {draws} {turns} in each position. [Policies](policies.md#how-close-to-perfect) explains the figures and
shows how to judge a policy of your own.

[set]: ../data/README.md#sets-of-positions

- **optimal** is the share of turns that keep the exact value of the position, in %.
- **regret** is the mean loss of exact value in half-points, 0 to 2: of a turn, of its placement and of its gift.
  The 95 % interval of a turn's regret is at most ± {reach:.3f}.
  [Why figures of regret differ](leaderboard.md#why-figures-of-regret-differ) compares it with that of logged games.
- **draws** are the drawn games against `oracle`, in % of {games:,} games after {plies} imposed plies, with the 95 %
  interval. All other games are lost.
- **turns/s** is the number of turns that one thread makes in a second in these positions, the best of {draws}
  measurements. Time is processor time, or the clock's for a player with a process of its own.
- **bytes** is the size of the policy or tablebase that an agent plays by.

"""


def judge_and_output(request: JudgeRequest, options: JudgeOptions, page_file: Path | None, table: TableOutput) -> int:
    """Judge agents, output the result, and return the exit code.

    If ``page_file`` is given, the leaderboard page is written to it. Otherwise, the verdicts are printed or written as
    ``table`` says.
    """
    with stop_on_signal_then_interrupt_then_exit() as stop:
        judged = judge_agents(request, options, stop)
    if judged is None:
        console.print_note("interrupted: no agent is judged; run the same command again")
        return exit_code()
    if page_file:
        command = ["qarena", *(word for word in sys.argv[1:] if word != "--force")]
        write_file(page_file, render_markdown_leaderboard(judged, options, command, request.root).encode())
    elif table.is_table_for_people_on_stdout:
        print_verdicts(judged, table.wide)
    else:
        output_frame(build_frame_by_kind_and_pieces(judged.verdicts), table)
    return 0


def build_frame_by_kind_and_pieces(verdicts: Sequence[AgentVerdict]) -> pl.DataFrame:
    """Build a frame with a row for each agent, kind of decision, source of positions and number of pieces.

    Each row also has the agent's speed, and its results against the agent ``oracle``, which plays perfectly.
    """
    return pl.concat(
        verdict.figures.select(
            pl.lit(verdict.agent.label).alias("agent"),
            pl.all(),
            pl.lit(verdict.tally.games, pl.Int64).alias("oracle_games"),
            *(
                pl.lit(verdict.draw_estimate and getattr(verdict.draw_estimate, end), pl.Float64).alias(name)
                for name, end in (("draws", "mean"), ("draws_low", "low"), ("draws_high", "high"))
            ),
            pl.lit(verdict.turns_a_second).alias("turns_a_second"),
        )
        for verdict in verdicts
    )


def print_verdicts(judged: Verdicts, wide: bool | None = None) -> None:
    """Print the two tables of ``build_tables``.

    If ``wide`` is true, all columns are printed; otherwise those that do not fit the terminal are left out, and a line
    names them. ``wide`` is None if the command has no option ``--wide``; the line then does not suggest this option.
    """
    for table in build_tables(judged):
        console.print_tables([console.build_escaped_table(table.columns, table.title)], wide=wide)


def build_tables(judged: Verdicts) -> tuple[Table, Table]:
    """Build a table with a row for each agent, and a table of all agents' decisions by number of pieces."""
    verdicts, positions = sort_by_regret(judged.verdicts), judged.positions
    turns, placements, gifts = (_select_totals(verdicts, kind) for kind in DECISION_KINDS)
    columns = [
        *numbered_agent_columns([verdict.agent.label for verdict in verdicts]),
        number_column("optimal, %", turns["optimal"], format_percent),
        number_column("regret", turns["regret"], format_half_points),
        interval_column(turns["regret_low"], turns["regret_high"], format_half_points, drop_priority=2),
        number_column("of placements", placements["regret"], format_half_points, drop_priority=1),
        number_column("of gifts", gifts["regret"], format_half_points, drop_priority=1),
    ]
    has_games = any(verdict.draw_estimate for verdict in verdicts)
    if has_games:
        draws = [verdict.draw_estimate or Estimate(0.0, 0.0, 0.0) for verdict in verdicts]
        columns += [
            number_column("draws, %", [estimate.mean for estimate in draws], format_percent),
            interval_column(
                [estimate.low for estimate in draws], [estimate.high for estimate in draws], drop_priority=3
            ),
        ]
    subject = f"Turns in {format_count_with_noun(len(positions.logged), 'position')} ({positions.rules.name} rules)"
    title = f"{subject}: regret in half-points{', draws v oracle' if has_games else ''}"
    return Table(title, columns), Table("By pieces on the board", _build_piece_columns(verdicts))


def sort_by_regret(verdicts: Sequence[AgentVerdict]) -> list[AgentVerdict]:
    """Sort verdicts by the mean regret of a turn, lowest first; equal verdicts are sorted by label."""
    return sorted(verdicts, key=lambda verdict: (_select_totals([verdict], "turn")["regret"][0], verdict.agent.label))


def _select_totals(verdicts: Sequence[AgentVerdict], kind: str) -> pl.DataFrame:
    """Select a row for each agent: the figures for all its decisions of ``kind``.

    If an agent made no such decision, its row holds nulls.
    """
    is_total = (pl.col("kind") == kind) & pl.col("source").is_null() & pl.col("pieces").is_null()
    totals = (verdict.figures.filter(is_total) for verdict in verdicts)
    return pl.concat(rows if len(rows) else rows.clear(1) for rows in totals)


def _build_piece_columns(verdicts: Sequence[AgentVerdict]) -> list[ResultColumn]:
    """Build the columns of a table with a row for each agent and each number of pieces on the board."""
    labelled = (verdict.figures.with_columns(agent=pl.lit(verdict.agent.label)) for verdict in verdicts)
    figures = pl.concat(labelled).filter(pl.col("pieces").is_not_null())
    rows = figures.select("agent", "pieces").unique(maintain_order=True)
    rows = pl.concat(agent_rows.sort("pieces") for agent_rows in rows.partition_by("agent", maintain_order=True))
    placements, gifts = (
        rows.join(figures.filter(pl.col("kind") == kind), on=("agent", "pieces"), how="left", maintain_order="left")
        for kind in DECISION_KINDS[1:]
    )
    return [
        text_column("agent", rows["agent"]),
        number_column("pieces", rows["pieces"]),
        number_column("placements", placements["decisions"], drop_priority=1),
        number_column("optimal, %", placements["optimal"], format_percent),
        number_column("regret", placements["regret"], format_half_points),
        number_column("gifts", gifts["decisions"], drop_priority=1),
        number_column("optimal, %", gifts["optimal"], format_percent),
        number_column("regret", gifts["regret"], format_half_points),
    ]


def render_markdown_leaderboard(judged: Verdicts, options: JudgeOptions, command: Sequence[str], root: PurePath) -> str:
    """Render the leaderboard as a page in Markdown.

    ``command`` is the command that makes the page; the archive at ``root`` holds the policies of the agents.
    """
    verdicts = sort_by_regret(judged.verdicts)
    turns, placements, gifts = (_select_totals(verdicts, kind) for kind in DECISION_KINDS)
    introduction = PAGE_TEMPLATE.format(
        command=shlex.join(command),
        positions=len(judged.positions.logged),
        rules=judged.positions.rules.name,
        draws=options.turns_per_position,
        turns="turns" if options.turns_per_position > 1 else "turn",
        games=options.games,
        plies=OPENING_PLIES,
        reach=(turns["regret_high"] - turns["regret"]).max(),
    )
    draws, rules = [verdict.draw_estimate for verdict in verdicts], judged.positions.rules
    sizes = [compute_knowledge_bytes(verdict.agent, root, rules) for verdict in verdicts]
    commands = list_policy_commands([verdict.agent for verdict in judged.verdicts], root)
    columns = [
        number_column("", range(1, len(verdicts) + 1)),
        text_column("agent", [f"`{verdict.agent.label}`" for verdict in verdicts]),
        number_column("optimal", turns["optimal"], format_percent),
        number_column("regret", turns["regret"], format_half_points),
        number_column("of placements", placements["regret"], format_half_points),
        number_column("of gifts", gifts["regret"], format_half_points),
        ResultColumn("draws", [format_percent(share.mean) if share else "" for share in draws]),
        ResultColumn("95 % interval", [format_interval(share.low, share.high) if share else "" for share in draws]),
        number_column("turns/s", [float(f"{verdict.turns_a_second:.2g}") for verdict in verdicts], format_count),
        ResultColumn("bytes", [f"{size:,}" if size else "" for size in sizes]),
    ]
    policies = ["", "## The policies", "", "```", *commands, "```"] if commands else []
    return introduction + "\n".join([Table("", columns).markdown, *policies]) + "\n"


def compute_knowledge_bytes(agent: AgentSpec, root: PurePath, rules: Rules) -> int | None:
    """Return the total size, in bytes, of the policy, tablebase and files that an agent uses to choose its turns.

    The result is None if the agent has none of these.
    """
    sizes = [path.stat().st_size for path in agent.files.values() if path.is_file()]
    if agent.policy_id is not None:
        card = load_card(ArchiveStore.open(root), agent.policy_id)
        sizes += [card.files[name].bytes for name in KNOWLEDGE_FILES if name in card.files]
    tablebase = find_largest_tablebase(rules) if hasattr(agent.build(), "set_tablebases") else None
    return sum(sizes) + (tablebase.card.bytes if tablebase else 0) or None


def list_policy_commands(agents: Sequence[AgentSpec], root: PurePath) -> list[str]:
    """List the commands that made the agents' policies, each of them once.

    The commands that played the games from which policies were derived come first, then the commands that derived or
    trained the policies.
    """
    policy_ids = {agent.policy_id for agent in agents}
    if policy_ids == {None}:
        return []
    archive = ArchiveStore.open(root)
    learned = [card.learned for card in load_cards(archive) if card.policy_id in policy_ids]
    records = {record.run_id: record for record in archive.load_runs()}
    sources = (records[run_id] for fields in learned for run_id in fields["run_ids"] if run_id in records)
    game_commands = [record.command for record in sources if not record.training]
    return list(dict.fromkeys([*game_commands, *(str(fields["command"]) for fields in learned)]))
