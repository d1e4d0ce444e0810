"""``qarena bench``, ``warm`` and ``perft``: for developers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from quarto.errors import RequestError
from runners.cli import options


def bench(  # noqa: PLR0913, PLR0917  (each is an option of the command)
    json: options.Json = None,
    force: options.Force = False,
    quick: Annotated[bool, typer.Option("--quick", help="Every figure from fewer games, in under a minute.")] = False,
    solver: Annotated[bool, typer.Option("--solver", help="Measure the solver instead.")] = False,
    questions: Annotated[bool, typer.Option("--questions", help="Measure questions to an archive instead.")] = False,
    turn: Annotated[
        str | None,
        typer.Option(
            metavar="AGENT", help="Measure only the turns of this agent, in microseconds by pieces on the board."
        ),
    ] = None,
    rules: Annotated[
        str | None, options.rules("With --turn: the rules. Default: classic, or rules that the agent plays.")
    ] = None,
    positions: Annotated[
        int | None, typer.Option(help="With --turn: positions of each number of pieces. Default: 500.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="With --turn: seed of the positions. Default: 1.")] = None,
) -> None:
    """Measure the speed on this machine.

    Games a second, bytes a row and memory, as ratios within one run; or the turns of one agent.
    """
    if json is not None:
        from runners.terminal.files import check_output

        check_output(json, force)
    if turn is not None:
        _bench_turn(turn, rules, 500 if positions is None else positions, 1 if seed is None else seed, json)
        return
    for name, value in (("--rules", rules), ("--positions", positions), ("--seed", seed)):
        if value is not None:
            raise RequestError(f"{name} {value} needs --turn AGENT: the other measurements have fixed conditions")
    chosen = {"solver": solver, "archive": questions}
    given = [name for name, wanted in chosen.items() if wanted]
    if len(given) > 1:
        raise RequestError("--solver and --questions measure different things: give one of them")
    from runners.speed.main import MEASUREMENTS, bench_table
    from runners.terminal.console import show
    from runners.terminal.files import is_printed
    from runners.terminal.tables import write_json

    figures = MEASUREMENTS[given[0] if given else "all"](quick)
    if not is_printed(json):
        show([bench_table(figures)])
    if json:
        write_json(figures, json)


def _bench_turn(name: str, rules: str | None, positions: int, seed: int, json: Path | None) -> None:
    from runners.arena.config import agent_named
    from runners.arena.config_groups import load_rules
    from runners.hosting.interruption import INTERRUPTED, interruptible
    from runners.speed.turn_times import show_turns, turn_times
    from runners.speed.warm import rules_played_by
    from runners.terminal.console import progress_bar
    from runners.terminal.files import is_printed
    from runners.terminal.tables import write_json

    agent = agent_named(name, trusted=True)
    chosen = load_rules(rules or rules_played_by(agent))
    with interruptible() as stop, progress_bar("timing", "turns") as bar:
        times = turn_times(agent, chosen, positions, seed, stop, bar)
    if not is_printed(json):
        show_turns(times)
    if json:
        write_json(times.figures(), json)
    if stop.is_set():
        raise typer.Exit(INTERRUPTED)


def warm() -> None:
    """Compile all kernels now, so that later commands start at once."""
    from runners.speed.warm import warm as compile_all

    for name, seconds in compile_all():
        typer.echo(f"{seconds:6.2f} s  {name}")


def perft(
    plies: Annotated[int, typer.Argument(help="Number of plies to count.")],
    rules: Annotated[str, options.rules("The rules to count under.")] = "classic",
) -> None:
    """Count positions after 0 to PLIES plies, exactly.

    Games that a line has ended are left out. Positions count up to symmetry.
    """
    from quarto.perft import perft as count
    from runners.arena.config_groups import load_rules
    from runners.perfect.tablebases import perft_table
    from runners.terminal.console import show

    show([perft_table(rules, count(load_rules(rules), plies))])
