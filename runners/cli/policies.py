"""The commands on policies, ``qarena train``, ``policy`` and ``benchmark``: learn, judge, compare and score them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from runners.cli import options
from runners.hosting import interruption
from runners.terminal.files import TERMINAL_OUTPUT, build_table_output

policy_group = options.create_command_group("policy", "Learn policies from logged games; list, compare, judge them.")
benchmark_group = options.create_command_group("benchmark", "Make datasets for offline learning, and score policies.")

POLICY = Argument(help="Its name or id.")


@options.add_hydra_options
def train(launch: options.Launch, arguments: options.Overrides = None) -> None:
    """Train a player and store its policy."""
    from runners.learning.training.application import TRAIN

    launch(TRAIN, arguments)


@policy_group.command("ls")
@options.add_output_options
def ls(table: options.Table, archive: options.Archive = options.ARCHIVE) -> None:
    """List the policies."""
    from runners.learning.policies.output import output_policies

    output_policies(archive, table)


@policy_group.command("show")
@options.add_config_dir_option
def show(policy: Annotated[str, POLICY], archive: options.Archive = options.ARCHIVE) -> None:
    """Show a policy: its kind, method and games.

    The card also says where the policy comes from: runs, condition, code, and the policies that played its games.
    """
    from runners.learning.policies.output import print_policy_and_lineage

    print_policy_and_lineage(archive, policy)


@policy_group.command(
    "build", help=f"Derive a policy from logged games. Kinds: {', '.join(options.list_group_options('kind'))}."
)
@options.add_hydra_options
def build(
    launch: options.Launch,
    arguments: options.Overrides = None,
    where: Annotated[
        str | None, Option(metavar="CONDITION", help="In SQL, on the view games. Default: all games.")
    ] = None,
) -> None:
    """Learn a policy from logged games.

    `--where` is a condition in SQL that selects the games; without it, the policy learns from all games.
    """
    from analytics.store.labels import quote_for_hydra
    from runners.learning.policies.application import BUILD

    launch(BUILD, [*(arguments or []), *([] if where is None else [f"where={quote_for_hydra(where)}"])])


@policy_group.command("import")
def import_(
    file: Annotated[Path, Argument(help="A Parquet or CSV file: position (or plies), cell, gift, value.")],
    settings: Annotated[
        list[str] | None, Argument(metavar="KEY=VALUE…", help="kind and name; rules, scale and conflicts.")
    ] = None,
    archive: options.Archive = options.ARCHIVE,
) -> None:
    """Make a policy from a table that was learned elsewhere.

    The table has a value for each turn, from -1 (lost) to 1 (won). The settings are:

    - `kind`: mc_afterstate, fitted_q or q_table
    - `name`: the policy's name (default: the file's name)
    - `rules`: the rules of the positions (default: classic)
    - `scale`: a factor for the values (default: 1)
    - `conflicts`: what to do if turns that are equal up to symmetry have different values: refuse, mean or first
      (default: refuse)
    """
    from runners.learning.policies.table_import import import_policy, parse_settings_with_defaults

    import_policy(
        archive,
        file,
        parse_settings_with_defaults(settings or []),
        f"qarena {options.format_command_line_without_program()}",
    )


@policy_group.command("rebuild")
@options.add_config_dir_option
def rebuild(
    policy: Annotated[str, POLICY],
    archive: options.Archive = options.ARCHIVE,
    threads: options.Threads = options.ALL_CORES,
    trust_agents: options.TrustAgents = False,
) -> None:
    """Learn a policy again from the same games, and compare the two.

    The exit code is 0 if the policy is identical to the last bit, and 1 if it differs.
    """
    from runners.learning.policies.output import rebuild_and_print

    raise typer.Exit(rebuild_and_print(archive, policy, threads, trust_agents))


@policy_group.command("compare")
@options.add_config_dir_option
def compare(
    one: Annotated[str, Argument(help="A policy's name or id.")],
    other: Annotated[str, Argument(help="The name or id of another one.")],
    archive: options.Archive = options.ARCHIVE,
) -> None:
    """Compare the tables of two policies.

    The answer gives the rows that both tables have, the differences, and how often both policies choose the same turn.
    """
    from runners.learning.policies.comparison import print_comparison

    print_comparison(archive, one, other)


@policy_group.command("judge")
@options.add_config_dir_option
def judge(  # noqa: PLR0913, PLR0917  (each is an option of the command)
    names: Annotated[
        list[str] | None,
        Argument(metavar="[NAME]…", help="A policy's name or id, or an agent's label: 'mcts(iterations=400)'."),
    ] = None,
    everything: Annotated[bool, Option("--all", help="All agents and all policies of the archive, too.")] = False,
    rules: Annotated[str | None, options.rules_option("The rules of the positions. Default: classic.")] = None,
    positions: options.Positions = None,
    draws: options.DrawsPerPosition = 4,
    games: Annotated[int, Option(min=0, help="Games against the oracle, in pairs; 0: none.")] = 200,
    seed: Annotated[int, options.seed_option("Of the turns and the games.", 31)] = 1,
    threads: options.Threads = options.ALL_CORES,
    archive: options.Archive = options.ARCHIVE,
    form: options.Format = None,
    output: options.Output = None,
    force: options.Force = False,
    wide: options.Wide = False,
) -> None:
    """Judge how close policies and agents come to perfect play.

    The table shows the share of optimal turns, the exact regret, and the draws against `oracle`, the agent that plays
    by exact values.

    The turns in a fixed set of positions are compared with the exact values of all turns. If --output ends with .md,
    the command writes a page with a line for each policy or agent: the leaderboard.
    """
    from runners.exact.verdict_tables import judge_and_output
    from runners.exact.verdicts import JudgeOptions, JudgeRequest

    page_file = output if output and output.suffix == ".md" and form is None else None
    options.check_output_files(force, page_file)
    table = TERMINAL_OUTPUT if page_file else build_table_output(form, output, force, wide)  # before anything is judged
    request = JudgeRequest(names or [], archive, everything, rules, positions)
    raise typer.Exit(judge_and_output(request, JudgeOptions(draws, games, seed, threads), page_file, table))


@policy_group.command("positions")
@options.add_config_dir_option
def positions(  # noqa: PLR0913, PLR0917  (each is an option of the command)
    output: Annotated[Path, Option(help="The Parquet file to write.")],
    rules: Annotated[str, options.rules_option("The rules of the positions.")] = "classic",
    stratum_size: Annotated[
        int, Option("--each", min=1, max=4000, help="Positions of each source and number of pieces, at most.")
    ] = 500,
    seed: Annotated[int, options.seed_option("Of the draw.", 31)] = 2026,
    from_pieces: Annotated[int, Option(min=1, max=15, help="Leave out boards with fewer pieces.")] = 1,
    archive: options.Archive = options.ARCHIVE,
    threads: options.Threads = options.ALL_CORES,
    megabytes: options.SolverMemory = options.MIB_128,
    force: options.Force = False,
) -> None:
    """Make a set of solved positions for `policy judge`.

    The command draws positions, solves every turn in them, and writes a Parquet file. Half of the positions are drawn
    from all positions up to symmetry, half from logged games. The same options give the same bytes.
    """
    from runners.config.yaml_options import load_rules
    from runners.exact.verdicts import PositionSetOptions, create_position_set

    options.check_output_files(force, output)
    set_options = PositionSetOptions(load_rules(rules), stratum_size, seed, range(from_pieces, 16), threads, megabytes)
    create_position_set(archive, set_options, output)


@benchmark_group.command("make")
def make(
    folder: Annotated[Path, Argument(metavar="DIR", help="The folder of the datasets.")],
    datasets: Annotated[
        list[str] | None, Option("--dataset", metavar="NAME", help="Only this one; may be repeated.")
    ] = None,
    games: Annotated[
        int, Option(min=1, max=1 << 28, help="Of each training part; a tenth more for validation.")
    ] = 100_000,
    seed: Annotated[int, options.seed_option("Of all games.", 30)] = 2026,
    permalink: Annotated[str | None, Option(help="Where this code is, for the metadata. Default: its version.")] = None,
    threads: options.Threads = options.ALL_CORES,
) -> None:
    """Make the datasets for offline learning.

    They are random-v0, medium-v0, expert-v0 and mixed-v0, in Minari's format and as archives.

    The same options give the same bytes. After an interruption, the same command continues.
    """
    from runners.learning.benchmark.datasets import (
        DatasetRequest,
        create_datasets_unless_stopped,
        list_splits,
        select_datasets,
    )

    with interruption.stop_on_signal_then_interrupt_then_exit() as stop:
        parts = list_splits(select_datasets(datasets or []), games, seed)
        if not create_datasets_unless_stopped(
            DatasetRequest(
                folder, parts, threads, f"qarena {options.format_command_line_without_program()}", permalink
            ),
            stop,
        ):
            typer.echo("interrupted: the same command goes on from here", err=True)
            raise typer.Exit(interruption.exit_code())


@benchmark_group.command("score")
@options.add_config_dir_option
@options.add_output_options
def score(  # noqa: PLR0913, PLR0917  (each is an option of the command)
    table: options.Table,
    names: Annotated[
        list[str], Argument(metavar="NAME…", help="A policy's name or id, or an agent's label: 'mcts(iterations=400)'.")
    ],
    opponent: Annotated[str, Option(help="The agent to play against: a label, or a policy's name.")] = "semi_random",
    games: Annotated[int, Option(min=2, help="Against the opponent, in pairs.")] = 2_000,
    draws: options.DrawsPerPosition = 4,
    positions: options.Positions = None,
    seed: Annotated[int, options.seed_option("Of the games and the turns.", 31)] = 1,
    threads: options.Threads = options.ALL_CORES,
    archive: options.Archive = options.ARCHIVE,
) -> None:
    """Score policies and agents.

    The figures are Minari's normalised score against an opponent, and exact regret in fixed positions.

    Random play against this opponent would score 0, and perfect play 1.
    """
    from runners.exact.verdicts import JudgeOptions
    from runners.learning.benchmark.score import ScoreRequest, score_and_output

    request = ScoreRequest(names, opponent, archive, positions)
    raise typer.Exit(score_and_output(request, JudgeOptions(draws, games, seed, threads), table))
