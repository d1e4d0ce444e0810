"""Measured figures as tables."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from analytics.results.columns import ResultColumn
from runners.arena.config_groups import flat
from runners.terminal import console
from runners.terminal.console import TerminalTable

if TYPE_CHECKING:
    from runners.speed.turn_times import TurnTimes


TARGET = "target_"  # prefix of the name of a figure that is the target of another one


def bench_table(figures: Mapping[str, Any]) -> TerminalTable:
    """Figures as a flat table, each beside its target if it has one."""
    found = dict(flat(figures))
    shown = [name for name in found if not name.rpartition(".")[2].startswith(TARGET)]
    targets = [re.sub(r"[^.]*$", TARGET + r"\g<0>", name, count=1) for name in shown]
    columns = [
        ResultColumn("figure", shown, right=False),
        ResultColumn("value", [_figure(found[name]) for name in shown]),
        ResultColumn("target", [_figure(found[target]) if target in found else "" for target in targets]),
    ]
    return console.tabulated(columns, "bench")


def show_turns(times: TurnTimes) -> None:
    """Print the microseconds of an agent's turns by pieces on the board, beside what a study published."""
    rows, known = times.rows(), times.published()
    pieces = ResultColumn("pieces", [f"{number}" for number in rows])
    counts = ResultColumn("positions", [f"{len(times.samples[number]):,}" for number in rows])
    measured = [
        ResultColumn(name.replace("_", " "), [_figure(row[name]) for row in rows.values()])
        for name in next(iter(rows.values()), {})
    ]
    medians = {f"study D, {language}": median for language, median in known.get("medians", {}).items()}
    beside = [
        ResultColumn(name, [_figure(median) if number == known["pieces"] else "" for number in rows])
        for name, median in medians.items()
    ]
    title = f"{times.agent.label}, {times.rules.name} rules: microseconds a turn takes (quartiles as in R, type 7)"
    narrow = [console.tabulated([pieces, *measured], title)]
    if medians:
        headings = [ResultColumn(name, [_figure(median)]) for name, median in medians.items()]
        narrow.append(console.tabulated(headings, f"Published medians, {known['pieces']} pieces"))
    console.show([console.tabulated([pieces, counts, *measured, *beside], title)], narrow)


def _figure(value: Any) -> str:
    if isinstance(value, float) and abs(value) < 100:
        return f"{value:,.3f}"
    return f"{value:,.0f}" if isinstance(value, int | float) else str(value)
