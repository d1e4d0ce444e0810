"""``qarena benchmark``: datasets for offline learning, and scores of what was learned from them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from runners.cli import options

app = options.group("benchmark", "Make datasets for offline learning, and score policies.")


@app.command("make")
def make(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder of the datasets.")],
    datasets: Annotated[
        list[str] | None, typer.Option("--dataset", metavar="NAME", help="Only this one; may be repeated.")
    ] = None,
    games: Annotated[
        int, typer.Option("--games", min=1, max=1 << 28, help="Of each training part; a tenth more for validation.")
    ] = 100_000,
    seed: Annotated[int, options.seed("Of all games.", 30)] = 2026,
    permalink: Annotated[
        str | None, typer.Option("--permalink", help="Where this code is, for the metadata. Default: its version.")
    ] = None,
    threads: options.Threads = options.ALL_CORES,
) -> None:
    """Make the datasets.

    random-v0, medium-v0, expert-v0 and mixed-v0, in Minari's format and as archives.

    The same options give the same bytes. An interrupted command goes on where it ended.
    """
    from runners.benchmark.datasets import chosen, parts_of
    from runners.benchmark.make import MakeRequest
    from runners.benchmark.make import make as carry_out
    from runners.hosting.interruption import INTERRUPTED, interruptible
    from runners.hydra_app.config_dir import user_config_dir

    with user_config_dir(None), interruptible() as stop:
        parts = parts_of(chosen(datasets or []), games, seed)
        if not carry_out(MakeRequest(folder, parts, threads, f"qarena {options.typed()}", permalink), stop):
            typer.echo("interrupted: the same command goes on from here", err=True)
            raise typer.Exit(INTERRUPTED)


@app.command("score")
def score(  # noqa: PLR0913, PLR0917  (each is an option of the command)
    names: Annotated[
        list[str],
        typer.Argument(metavar="NAME…", help="A policy's name or id, or an agent's label: 'mcts(iterations=400)'."),
    ],
    opponent: Annotated[
        str, typer.Option("--opponent", help="The agent to play against: a label, or a policy's name.")
    ] = "semi_random",
    games: Annotated[int, typer.Option("--games", min=2, help="Against the opponent, in pairs.")] = 2_000,
    draws: options.Draws = 4,
    positions: options.Positions = None,
    seed: Annotated[int, options.seed("Of the games and the turns.", 31)] = 1,
    threads: options.Threads = options.ALL_CORES,
    archive: options.Archive = options.ARCHIVE,
    config_dir: options.ConfigDir = None,
    form: options.Format = None,
    output: options.Output = None,
    force: options.Force = False,
    wide: options.Wide = False,
) -> None:
    """Score policies and agents.

    Minari's normalised score against an opponent, and exact regret in fixed positions.

    A score of 0 is that of random play against this opponent, 1 that of perfect play.
    """
    from runners.benchmark.score import ScoreRequest, carry_out, frame_of, show
    from runners.hosting.interruption import INTERRUPTED, interruptible
    from runners.hydra_app.config_dir import user_config_dir
    from runners.judge.judging import JudgeOptions
    from runners.terminal.tables import output_of, write

    destination = output_of(form, output, force, wide)  # before anything is played
    with user_config_dir(config_dir), interruptible() as stop:
        found = carry_out(
            ScoreRequest(names, opponent, archive, positions), JudgeOptions(draws, games, seed, threads), stop
        )
    if found is None:
        raise typer.Exit(INTERRUPTED)
    if destination.is_printed:
        show(found, wide)
    else:
        write(frame_of(found), destination)
