"""``qarena rate``, ``crosstable`` and ``sprt``: ratings, head-to-head results and tests of strength."""

from __future__ import annotations

from pathlib import PurePath
from typing import TYPE_CHECKING, Annotated

import typer

from runners.cli import options

if TYPE_CHECKING:
    from analytics.query.game_filter import GameFilter
    from analytics.ratings.head_to_head import HeadToHead

TrainingsOption = Annotated[
    bool, typer.Option("--trainings", help="Also games of trainings, which are left out unless --run names them.")
]
RulesName = Annotated[str | None, options.rules("Only games under these rules; needed if there are several.")]


def rate(  # noqa: PLR0913, PLR0917  (each is an option of the command)
    archive: options.Archive = options.ARCHIVE,
    where: options.Where = None,
    run: options.Runs = None,
    rules: RulesName = None,
    trainings: TrainingsOption = False,
    anchor: Annotated[
        str | None, typer.Option("--anchor", metavar="AGENT", help="The agent that ratings are relative to.")
    ] = None,
    anchor_elo: Annotated[
        float, typer.Option("--anchor-elo", help="The rating of the anchor; without an anchor, the mean of all.")
    ] = 0.0,
    samples: Annotated[int, typer.Option("--samples", min=0, max=100_000, help="Number of bootstrap samples.")] = 200,
    form: options.Format = None,
    output: options.Output = None,
    force: options.Force = False,
    wide: options.Wide = False,
) -> None:
    """Rate all agents in one fit: Elo with intervals.

    Also the probability of being above the next agent, and the value of the first seat.
    """
    from analytics.query.game_filter import GameFilter
    from analytics.ratings.ratings import rate as fit
    from runners.terminal.console import print_note
    from runners.terminal.results import show_ratings, unrated
    from runners.terminal.tables import output_of, write

    destination = output_of(form, output, force, wide)  # before anything is counted
    met = _met(archive, GameFilter(where, tuple(run or ()), rules, trainings=trainings))
    found = fit(met.tallies, anchor, anchor_elo, samples=samples, shared=met.shared)
    if destination.is_printed:
        show_ratings(met, found, anchor, anchor_elo, wide)
    else:
        write(found.frame(), destination)
        for line in unrated(found):
            print_note(line)


def crosstable(  # noqa: PLR0913, PLR0917  (each is an option of the command)
    archive: options.Archive = options.ARCHIVE,
    where: options.Where = None,
    run: options.Runs = None,
    rules: RulesName = None,
    trainings: TrainingsOption = False,
    by_seat: Annotated[
        bool, typer.Option("--by-seat", help="Separate results for each seat of the first agent.")
    ] = False,
    form: options.Format = None,
    output: options.Output = None,
    force: options.Force = False,
    wide: options.Wide = False,
) -> None:
    """Show the score of every agent against every other.

    With wins, draws and losses, and 95 % intervals.
    """
    from analytics.query.game_filter import GameFilter
    from runners.terminal.results import show_head_to_head
    from runners.terminal.tables import output_of, write

    destination = output_of(form, output, force, wide)  # before anything is counted
    met = _met(archive, GameFilter(where, tuple(run or ()), rules, trainings=trainings))
    if destination.is_printed:
        show_head_to_head(met, by_seat, wide)
    else:
        write(met.frame(by_seat), destination)


def _met(archive: PurePath, choice: GameFilter) -> HeadToHead:
    from analytics import open_archive
    from analytics.ratings.head_to_head import head_to_head
    from runners.terminal.console import print_note

    with open_archive(archive) as opened:
        met = head_to_head(opened, choice)
    for note in met.notes:
        print_note(note)
    return met


def sprt(
    context: typer.Context,
    arguments: options.SprtOverrides = None,
    counts: Annotated[
        str | None, typer.Option("--counts", metavar="LL,LD,DD,WD,WW", help="Play nothing: test these counts of pairs.")
    ] = None,
) -> None:
    """Play two agents until a test decides which is stronger."""
    given = [*(arguments or []), *context.args]
    if counts is not None:
        from runners.terminal.results import show_counts

        show_counts(counts, given)
        return
    from runners.hydra_app.launch import launch
    from runners.sprt.application import SPRT

    raise typer.Exit(launch(SPRT, "sprt", given))
