"""The commands of leagues: ``qarena league new``, ``check``, ``play``, ``table`` and ``page``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from runners.cli import options

league_group = options.create_command_group("league", "Let all entries of a course meet, and publish the results.")

Folder = Annotated[Path, Argument(metavar="DIR", help="The folder of the league, with league.yaml.")]
TrustAgents = Annotated[
    bool, Option("--trust-agents", help="Without a sandbox: let entries run as you, with all your rights.")
]


@league_group.command("new")
def create_league(folder: Annotated[Path, Argument(metavar="DIR", help="A new folder.")]) -> None:
    """Create a league: a commented league.yaml, and a folder for entries."""
    from runners.league.new_league import create_and_describe_league_files
    from runners.terminal.console import find_program, format_shell_line, print_line

    files = create_and_describe_league_files(folder)
    width = max(len(str(path)) for path in files)
    for path, description in files.items():
        print_line(f"{path!s:<{width}}  {description}")
    print_line("List your entries in league.yaml, then check them, play, and look:")
    for words in (["check"], ["play"], ["table"], ["page", "--output", f"{folder}_site"]):
        print_line(f"  {find_program()} {format_shell_line(['league', words[0], str(folder), *words[1:]])}")


@league_group.command("check")
def check_league(
    folder: Folder,
    names: Annotated[
        list[str] | None, Argument(metavar="ENTRY", help="Names of entries; without any, all are checked.")
    ] = None,
    seconds: Annotated[float, Option(min=1, help="Time limit for each entry.")] = 60,
    trust_agents: TrustAgents = False,
) -> None:
    """Check each entry, and write what is wrong beside it, in checks/NAME.txt.

    Entries are checked as by 'qarena agents check'. A broken entry does not stop the others. The exit code is 1 if
    anything is wrong.
    """
    from runners.league.checking import check_entries, list_summary_lines, select_entries
    from runners.league.entries import isolate_entries, open_league
    from runners.terminal.console import print_line, print_note

    checks = []
    with open_league(folder) as league, isolate_entries(league, trust_agents) as (isolation, note):
        if note:
            print_note(f"note: {note}")
        width = max(len(entry.name) for entry in select_entries(league, names or ()))
        for check in check_entries(league, isolation, seconds, names or ()):
            print_line(f"{'ok' if check.is_fine else 'FAIL':<5}{check.name:<{width}}  {check.summary}")
            checks.append(check)
        for line in list_summary_lines(league, checks):
            print_line(line)
    if not all(check.is_fine for check in checks):
        raise typer.Exit(1)


@league_group.command("play")
def play_league(
    folder: Folder,
    threads: options.Threads = options.ALL_CORES,
    executor: options.Executor = options.EXECUTOR,
    ray_address: options.RayAddress = None,
    trust_agents: TrustAgents = False,
) -> None:
    """Play what the league lacks. Stop it at any time, and give the command again.

    Each two entries play a match, which is a run of its own in the league's archive. A new entry plays its matches and
    nothing else, and so does an entry whose code has changed.
    """
    from runners.config.requests import load_executor
    from runners.hosting.interruption import exit_code
    from runners.league.entries import isolate_entries, open_league
    from runners.league.judging import play_and_judge
    from runners.league.playing import LeaguePlayOptions
    from runners.terminal.console import print_line, print_note

    command = f"qarena {options.format_command_line_without_program()}"
    with open_league(folder) as league, isolate_entries(league, trust_agents) as (isolation, note):
        if note:
            print_note(f"note: {note}")
        play_options = LeaguePlayOptions(isolation, threads, load_executor(executor, ray_address), command)
        summary = play_and_judge(league, play_options)
    for line in summary.lines:
        print_line(line)
    if summary.stopped:
        raise typer.Exit(exit_code())


@league_group.command("table")
@options.add_output_options
def rank_league(folder: Folder, table: options.Table) -> None:
    """Print the standings: ratings, scores, exact regret, times of turns, forfeits."""
    from runners.league.standings import build_standings_result, open_league_results
    from runners.terminal.tables import output_result

    with open_league_results(folder) as results:
        output_result(build_standings_result(results), table)


@league_group.command("page")
def publish_league(
    folder: Folder,
    output: Annotated[
        Path, Option("--output", metavar="SITE", help="A folder for the site; an earlier site is replaced.")
    ],
) -> None:
    """Write a static site with the standings, a page for each entry, and the data, for any web space."""
    from runners.league.site import check_site_folder, write_site
    from runners.league.standings import open_league_results
    from runners.terminal.console import print_line

    check_site_folder(output)
    with open_league_results(folder) as results:
        files = write_site(results, output)
    print_line(f"{len(files)} files, of which the first page is {output / 'index.html'}")
