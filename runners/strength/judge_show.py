"""Verdicts on agents as tables for the terminal, as a frame, and as the page of all agents (the leaderboard)."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import polars as pl

from analytics.statistics.intervals import Estimate
from runners.strength.judging import OPENING_PLIES, Judgement, JudgeOptions, Verdict
from runners.terminal import console
from runners.terminal.console import Column, interval, percent

PARTS = ("placement", "gift")  # of a turn
PAGE = """# How close to perfect: all agents

```
{command}
```

Each turn was looked up in [a set of {positions:,} positions][set] with the exact value of every turn ({rules} rules);
every agent took {draws} {turns} in each position. [Policies](policies.md#how-close-to-perfect) has what the
figures mean, and how to judge a policy of your own.

[set]: ../data/README.md#positionsclassicparquet

- **optimal** is the share of turns that keep the exact value of the position, in %.
- **regret** is the mean loss of exact value in half-points, 0 to 2: of a turn, of its placement and of its gift.
  The 95 % interval of a turn's is at most ± {reach:.3f}.
- **draws** are those against `oracle`, in % of {games:,} games after {plies} imposed plies, with the 95 % interval. All
  other games are lost.
- **turns/s** is what one thread takes in a second in these positions, the best of {draws} measurements (processor
  time; of a player with a process of its own, by the clock); **bytes** is the size of the policy or tablebase that it
  plays by.

"""


def frame_of(verdicts: Sequence[Verdict]) -> pl.DataFrame:
    """One row for each agent, kind, source and number of pieces; the games against the oracle are in each of them."""
    frames = []
    for verdict in verdicts:
        low = verdict.draws or Estimate(0.0, 0.0, 0.0)
        games = verdict.games.games
        known = {"draws": low.mean, "draws_low": low.low, "draws_high": low.high}
        columns: Mapping[str, Any] = {
            "oracle_games": games,
            **{name: value if games else None for name, value in known.items()},
            "turns_a_second": verdict.turns_a_second,
        }
        kinds = {name: pl.Int64 if name == "oracle_games" else pl.Float64 for name in columns}
        added = [pl.lit(value, kinds[name]).alias(name) for name, value in columns.items()]
        frames.append(verdict.figures.select(pl.lit(verdict.agent.label).alias("agent"), pl.all(), *added))
    return pl.concat(frames)


def show(judged: Judgement, wide: bool | None = None) -> None:
    """Print a line on each agent, then its decisions by pieces on the board."""
    ranks, positions = ranked(judged.verdicts), judged.positions
    totals = [_total(each, "turn") for each in ranks]
    columns = [
        *console.ranked([each.agent.label for each in ranks]),
        Column("optimal, %", [percent(row["optimal"]) for row in totals]),
        Column("regret", [f"{row['regret']:.4f}" for row in totals]),
        Column("95 % interval", [_regret_interval(row) for row in totals], spare=2),
        *(Column(f"of {kind}s", [_regret(_total(each, kind)) for each in ranks], spare=1) for kind in PARTS),
    ]
    if any(each.draws for each in ranks):
        draws = [each.draws or Estimate(0.0, 0.0, 0.0) for each in ranks]
        columns += [
            Column("draws, %", [percent(each.mean) for each in draws]),
            Column("95 % interval", [interval(each) for each in draws], spare=3),
        ]
    where = f"{len(positions.logged):,} positions ({positions.rules.name} rules)"
    title = f"Turns in {where}: regret in half-points, draws v oracle"
    console.show([console.tabulated(columns, title)], wide=wide)
    console.show([console.tabulated(_by_pieces(ranks), "By pieces on the board")], wide=wide)


def ranked(verdicts: Sequence[Verdict]) -> list[Verdict]:
    """Verdicts by the mean regret of a turn, the least first; then by the label."""
    return sorted(verdicts, key=lambda each: (_total(each, "turn")["regret"], each.agent.label))


def _total(verdict: Verdict, kind: str) -> dict[str, Any]:
    """The figures of all decisions of a kind; empty if there was none."""
    whole = verdict.figures.filter(pl.col("kind") == kind, pl.col("source").is_null(), pl.col("pieces").is_null())
    return next(whole.iter_rows(named=True), {})


def _regret(row: Mapping[str, Any]) -> str:
    return f"{row['regret']:.4f}" if row else "–"  # noqa: RUF001  (an en dash: there is none)


def _regret_interval(row: Mapping[str, Any]) -> str:
    return f"{row['regret_low']:.4f}–{row['regret_high']:.4f}"  # noqa: RUF001


def _by_pieces(ranks: Sequence[Verdict]) -> list[Column]:
    """Columns with a row for each agent and number of pieces on the board."""
    labels: list[str] = []
    rows: list[tuple[int, dict[str, dict[str, Any]]]] = []
    for verdict in ranks:
        kinds: dict[int, dict[str, dict[str, Any]]] = {}
        for row in verdict.figures.filter(pl.col("pieces").is_not_null()).iter_rows(named=True):
            kinds.setdefault(row["pieces"], {})[row["kind"]] = row
        labels += [verdict.agent.label] * len(kinds)
        rows += sorted(kinds.items())
    figures = [
        column
        for kind in PARTS
        for column in (
            Column(f"{kind}s", [f"{row[kind]['decisions']:,}" if kind in row else "–" for _, row in rows], spare=1),  # noqa: RUF001
            Column("optimal, %", [percent(row[kind]["optimal"]) if kind in row else "–" for _, row in rows]),  # noqa: RUF001
            Column("regret", [_regret(row.get(kind, {})) for _, row in rows]),
        )
    ]
    return [Column("agent", labels, right=False), Column("pieces", [str(pieces) for pieces, _ in rows]), *figures]


class Making(NamedTuple):
    """The commands and facts with which the page and its agents were made."""

    command: Sequence[str]  # of the page
    sizes: Mapping[str, int | None]  # bytes that an agent plays by, by label
    commands: Sequence[str]  # of the policies and their games


def page(judged: Judgement, options: JudgeOptions, making: Making) -> str:
    """The leaderboard as Markdown."""
    head = PAGE.format(
        command=shlex.join(making.command),
        positions=len(judged.positions.logged),
        rules=judged.positions.rules.name,
        draws=options.draws,
        turns="turns" if options.draws > 1 else "turn",
        games=options.games,
        plies=OPENING_PLIES,
        reach=max(_total(each, "turn")["regret_high"] - _total(each, "turn")["regret"] for each in judged.verdicts),
    )
    headings = "agent | optimal | regret | of placements | of gifts | draws | 95 % interval | turns/s | bytes"
    lines = [f"| | {headings} |", "|---:|---|" + "---:|" * 8]
    for place, verdict in enumerate(ranked(judged.verdicts), 1):
        kinds = {kind: _total(verdict, kind) for kind in ("turn", *PARTS)}
        draws, size = verdict.draws, making.sizes[verdict.agent.label]
        cells = [
            f"{place}",
            f"`{verdict.agent.label}`",
            percent(kinds["turn"]["optimal"]),
            *(_regret(row) for row in kinds.values()),
            percent(draws.mean) if draws else "",
            interval(draws) if draws else "",
            f"{float(f'{verdict.turns_a_second:.2g}'):,.0f}",
            f"{size:,}" if size else "",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    made = ["", "## The policies", "", "```", *making.commands, "```"] if making.commands else []
    return head + "\n".join([*lines, *made]) + "\n"
