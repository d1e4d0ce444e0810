"""``qarena rate``, ``crosstable`` and ``sprt``: ratings, head-to-head results and tests of strength."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from runners.cli.options import (
    ARCHIVE,
    HYDRA_ARGUMENTS,
    ArchiveOption,
    FormatOption,
    OutputOption,
    RunsOption,
    SprtOverrides,
    WhereOption,
)

if TYPE_CHECKING:
    from analytics.ratings.head_to_head import GameFilter

RulesName = Annotated[
    str | None, typer.Option("--rules", help="Only games under these rules; needed if there are several.")
]


def register(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    app.command()(rate)
    app.command()(crosstable)
    app.command(
        context_settings=HYDRA_ARGUMENTS, help="Play pairs until a sequential test decides which of two is stronger."
    )(sprt)


def rate(  # noqa: PLR0913, PLR0917  (each is an option of the command)
    archive: ArchiveOption = ARCHIVE,
    where: WhereOption = None,
    run: RunsOption = None,
    rules: RulesName = None,
    anchor: Annotated[
        str | None, typer.Option("--anchor", metavar="AGENT", help="The agent that ratings are relative to.")
    ] = None,
    anchor_elo: Annotated[
        float, typer.Option("--anchor-elo", help="The rating of the anchor; without an anchor, the mean of all.")
    ] = 0.0,
    samples: Annotated[int, typer.Option("--samples", min=0, max=100_000, help="Number of bootstrap samples.")] = 200,
    format: FormatOption = None,  # noqa: A002
    output: OutputOption = None,
) -> None:
    """Rate all agents in one fit: Elo with intervals, probabilities of being above another, value of the first seat."""
    from analytics import open_archive
    from analytics.ratings.head_to_head import head_to_head
    from analytics.ratings.ratings import rate as fit
    from runners.strength.tables import show_notes, show_ratings
    from runners.terminal.tables import output_of, write

    destination = output_of(format, output)  # before anything is counted
    with open_archive(archive) as opened:
        met = head_to_head(opened, _choice(where, run, rules))
    show_notes(met.notes)
    found = fit(met.tallies, anchor, anchor_elo, samples=samples)
    if destination.is_printed:
        show_ratings(met, found, anchor, anchor_elo)
    else:
        write(found.frame(), destination)


def crosstable(
    archive: ArchiveOption = ARCHIVE,
    where: WhereOption = None,
    run: RunsOption = None,
    rules: RulesName = None,
    by_seat: Annotated[
        bool, typer.Option("--by-seat", help="Separate results for each seat of the first agent.")
    ] = False,
    format: FormatOption = None,  # noqa: A002
    output: OutputOption = None,
) -> None:
    """All agents against each other: score, wins, draws and losses with their intervals."""
    from analytics import open_archive
    from analytics.ratings.head_to_head import head_to_head
    from runners.strength.tables import show_head_to_head, show_notes
    from runners.terminal.tables import output_of, write

    destination = output_of(format, output)  # before anything is counted
    with open_archive(archive) as opened:
        met = head_to_head(opened, _choice(where, run, rules))
    show_notes(met.notes)
    if destination.is_printed:
        show_head_to_head(met, by_seat)
    else:
        write(met.frame(by_seat), destination)


def _choice(where: str | None, runs: list[str] | None, rules: str | None) -> GameFilter:
    from analytics.ratings.head_to_head import GameFilter

    return GameFilter(where, tuple(runs or ()), rules)


def sprt(
    context: typer.Context,
    arguments: SprtOverrides = None,
    counts: Annotated[
        str | None,
        typer.Option("--counts", metavar="LL,LD,DD,WD,WW", help="Play nothing: test these counts of pairs."),
    ] = None,
) -> None:
    """Test which of two agents is the stronger one."""
    given = [*(arguments or []), *context.args]
    if counts is not None:
        from runners.strength.tables import show_counts

        show_counts(counts, given)
        return
    from runners.cli.flags import flags_first
    from runners.hydra_app.application import launch
    from runners.strength.sprt_application import SPRT

    flags, rest = flags_first(given)
    alone = [flag for flag in flags if flag not in ("--multirun", "-m")]
    raise typer.Exit(launch(SPRT, [*alone, *rest], ["sprt", *given], multirun=alone != flags))
