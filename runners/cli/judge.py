"""``qarena policy judge`` and ``positions``: how close to perfect agents play, and the positions that tell."""

from __future__ import annotations

from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Annotated

import typer

from runners.cli import options

if TYPE_CHECKING:
    from runners.judge.judging import JudgeOptions, Verdicts

SAMPLE = options.ROOT / "data" / "sample"
PAGE = ".md"  # the ending of a file that becomes the page of all agents


def judge(  # noqa: PLR0913, PLR0917  (each is an option of the command)
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME]…", help="A policy's name or id, or an agent's label: 'mcts(iterations=400)'."),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="All agents and all policies of the archive, too.")] = False,
    rules: Annotated[
        str | None,
        typer.Option(
            "--rules", help="The rules of the positions. Default: classic.", autocompletion=options.rules_options
        ),
    ] = None,
    positions: options.Positions = None,
    draws: options.Draws = 4,
    games: Annotated[int, typer.Option("--games", min=0, help="Games against the oracle, in pairs; 0: none.")] = 200,
    seed: Annotated[int, options.seed("Of the turns and the games.", 31)] = 1,
    threads: options.Threads = options.ALL_CORES,
    archive: options.Archive = options.ARCHIVE,
    config_dir: options.ConfigDir = None,
    form: options.Format = None,
    output: options.Output = None,
    force: options.Force = False,
    wide: options.Wide = False,
) -> None:
    """Judge how close to perfect policies and agents play.

    Shows optimal turns, exact regret, and draws against the oracle.

    Their turns in a fixed set of positions are looked up among the exact values of all turns. An --output that ends
    with .md becomes a page with a line on each: the leaderboard.
    """
    from runners.hosting.interruption import INTERRUPTED, interruptible
    from runners.hydra_app.config_dir import user_config_dir
    from runners.judge.judging import JudgeOptions, JudgeRequest, carry_out
    from runners.terminal.files import check_output
    from runners.terminal.tables import PRINTED, output_of

    is_page = output is not None and output.suffix == PAGE and form is None
    if output is not None and is_page:
        check_output(output, force)
    destination = PRINTED if is_page else output_of(form, output, force, wide)  # before anything is judged
    asked = JudgeOptions(draws, games, seed, threads)
    with user_config_dir(config_dir), interruptible() as stop:
        found = carry_out(JudgeRequest(names or [], archive, everything, rules, positions), asked, stop)
        if found is None:
            raise typer.Exit(INTERRUPTED)
        if output is not None and is_page:
            _write_page(found, asked, archive, output)
            return
    from runners.judge.shown import frame_of, show
    from runners.terminal.tables import write

    if destination.is_printed:
        show(found, wide)
    else:
        write(frame_of(found.verdicts), destination)


def _write_page(found: Verdicts, asked: JudgeOptions, archive: PurePath, path: Path) -> None:
    import sys

    from runners.judge.agents import bytes_of, commands_of
    from runners.judge.shown import Making, page
    from runners.terminal.files import write_file

    agents = [verdict.agent for verdict in found.verdicts]
    sizes = {agent.label: bytes_of(agent, archive, found.positions.rules) for agent in agents}
    command = ["qarena", *(word for word in sys.argv[1:] if word != "--force")]
    making = Making(command, sizes, commands_of(agents, archive))
    write_file(path, page(found, asked, making).encode())


def positions(  # noqa: PLR0913, PLR0917  (each is an option of the command)
    output: Annotated[Path, typer.Option("--output", help="The Parquet file to write.")],
    rules: Annotated[
        str, typer.Option("--rules", help="The rules of the positions.", autocompletion=options.rules_options)
    ] = "classic",
    each: Annotated[
        int, typer.Option("--each", min=1, max=4000, help="Positions of each source and number of pieces, at most.")
    ] = 500,
    seed: Annotated[int, options.seed("Of the draw.", 31)] = 2026,
    from_pieces: Annotated[
        int, typer.Option("--from-pieces", min=1, max=15, help="Leave out boards with fewer pieces.")
    ] = 1,
    archive: Annotated[
        Path, typer.Option("--archive", help="The archive of the logged games. Default: the sample that ships.")
    ] = SAMPLE,
    config_dir: options.ConfigDir = None,
    threads: options.Threads = options.ALL_CORES,
    megabytes: options.Memory = options.MIB_128,
    force: options.Force = False,
) -> None:
    """Make a set of solved positions for `policy judge`.

    Draws positions, solves every turn in them, and writes a Parquet file.

    Half are drawn from all positions up to symmetry, half from logged games. The same options give the same bytes.
    """
    from runners.arena.config_groups import load_rules
    from runners.hydra_app.config_dir import user_config_dir
    from runners.judge.positions import SetOptions, make_set
    from runners.terminal.files import check_output

    check_output(output, force)
    with user_config_dir(config_dir):
        asked = SetOptions(load_rules(rules), each, seed, range(from_pieces, 16), threads, megabytes)
        make_set(archive, asked, output)
