"""`qarena benchmark score`: the normalised score against an opponent, and exact regret, of policies and agents.

Minari's normalised score is (return - least) / (greatest - least), where ``least`` and ``greatest`` are the mean
returns of a random and of a perfect player. The return of a game is 1 if it is won, 0 if drawn, -1 if lost.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path, PurePath
from typing import Any, NamedTuple

import polars as pl

from analytics.exact.position_set import PositionSet, find_existing_shipped_set, read_position_set
from analytics.questions.columns import ResultColumn, format_decimals, format_percent, numbered_agent_columns
from analytics.statistics.tally import Estimate, Tally, score, wilson_interval
from analytics.store.texts import format_count_with_noun
from quarto.errors import RequestError
from quarto.rules import CLASSIC
from runners.arena.spec import AgentSpec
from runners.config.agents import agent_from_label, load_agent
from runners.exact.verdicts import AgentVerdict, JudgeOptions, judge_agent, play_against, select_agents
from runners.hosting.guarded_agent import silence_forfeit_log
from runners.hosting.interruption import exit_code, stop_on_signal_then_interrupt_then_exit
from runners.terminal import console
from runners.terminal.console import show_progress_bar_or_notes
from runners.terminal.files import TableOutput
from runners.terminal.tables import output_frame

RANDOM_PLAYER, EXPERT_PLAYER = "random", "oracle"  # the players whose mean returns are the references
OPPONENT = "semi_random"  # unless the user names another one
REFERENCE_GAMES = 4_000
REFERENCE_SECONDS = 2.4  # processor time for the references against semi_random, measured
FEW_PAIRS = 30  # the variance of fewer pairs says little, because they may all have ended alike
REFERENCE_SEED = (1 << 31) - 1  # of the reference games, whose openings differ from those of all other games


class ReferenceReturns(NamedTuple):
    """The mean returns of a random player and of a perfect player, which define the scores 0 and 1."""

    least: float
    greatest: float

    def scale_from_zero_to_one(self, returns: Estimate) -> Estimate:
        """Convert a mean return and its interval to Minari's normalised score.

        The references are treated as exact, so their own intervals do not widen the result.
        """
        width = self.greatest - self.least
        mean, low, high = ((value - self.least) / width for value in returns)
        return Estimate(mean, low, high)


def build_player_spec(label: str) -> AgentSpec:
    """Build the spec of an agent that needs no policy, from its label."""
    return agent_from_label(label) if "(" in label else load_agent(label)


def compute_mean_return(tally: Tally) -> Estimate:
    """Compute the first agent's mean return, from -1 to 1, with a 95 % interval that treats each pair as one sample.

    With fewer than ``FEW_PAIRS`` pairs, the measured variance says little. The interval is then Wilson's, which treats
    each pair as either won or lost, because such results have the largest variance.
    """
    share, low, high = score(tally, by_pairs=True)
    if tally.pair_count < FEW_PAIRS:
        low, high = wilson_interval(share * tally.pair_count, tally.pair_count)
    return Estimate(2 * share - 1, 2 * low - 1, 2 * high - 1)


def measure_references(opponent: AgentSpec, threads: int, stop: threading.Event) -> ReferenceReturns:
    """Measure the mean returns of random play and of perfect play against an opponent under classic rules.

    The result may change with the code, but not with the number of threads.
    """
    options = JudgeOptions(games=REFERENCE_GAMES, seed=REFERENCE_SEED, threads=threads)
    least, greatest = (
        compute_mean_return(play_against(opponent, build_player_spec(name), CLASSIC, options, stop).tally).mean
        for name in (RANDOM_PLAYER, EXPERT_PLAYER)
    )
    return ReferenceReturns(least, greatest)


class ScoreRequest(NamedTuple):
    """The agents to score, their opponent, and the set of positions in which their regret is measured."""

    names: Sequence[str]
    opponent: str
    root: PurePath  # of the archive that holds the policies
    file: Path | None = None  # of the positions; None: the set that comes with this project


class AgentScore(NamedTuple):
    """The score and the regret of one agent."""

    verdict: AgentVerdict  # without games against the oracle
    tally: Tally  # against the opponent
    returns: Estimate  # mean return of a game
    score: Estimate  # normalised

    @property
    def turn_figures(self) -> dict[str, Any]:
        """The figures for all turns that the agent took in the set of positions, by column name.

        They are one row of the ``figures`` in ``verdict``, the judgement of the agent.
        """
        is_total = (pl.col("kind") == "turn") & pl.col("source").is_null() & pl.col("pieces").is_null()
        return self.verdict.figures.row(by_predicate=is_total, named=True)


class BenchmarkScores(NamedTuple):
    """The scores of agents against one opponent, in the order in which the request names the agents."""

    agent_scores: list[AgentScore]
    opponent: str
    references: ReferenceReturns
    positions: int


def score_all_agents_unless_stopped(
    request: ScoreRequest, options: JudgeOptions, stop: threading.Event
) -> BenchmarkScores | None:
    """Score agents, or return None if ``stop`` is set before all of them are scored.

    Raises ``RequestError`` if an agent, a policy or a file does not exist, if the positions belong to rules other than
    classic, or if perfect play against the opponent scores no better than random play.
    """
    positions = read_position_set(find_existing_shipped_set(CLASSIC.name) if request.file is None else request.file)
    if positions.rules != CLASSIC:
        raise RequestError(
            f"{request.file} holds positions of rules {positions.rules.name!r}: the benchmark is of classic rules"
        )
    agents, notes = select_agents(request.names, request.root, CLASSIC, include_all=False)
    (opponent,), more = select_agents([request.opponent], request.root, CLASSIC, include_all=False)
    for note in dict.fromkeys((*notes, *more)):
        console.print_note(note)
    with silence_forfeit_log():
        references = measure_references(opponent, options.threads, stop)
        if not (stop.is_set() or references.greatest > references.least):
            raise RequestError(f"against {opponent.label} perfect play gains nothing: name another opponent")
        scores = _score_until_stopped(agents, opponent, references, positions, options, stop)
    if stop.is_set():
        return None
    for score_of_agent in scores:
        for note in score_of_agent.verdict.notes:
            console.print_note(note)
    return BenchmarkScores(scores, opponent.label, references, len(positions.logged))


def _score_until_stopped(
    agents: Sequence[AgentSpec],
    opponent: AgentSpec,
    references: ReferenceReturns,
    positions: PositionSet,
    options: JudgeOptions,
    stop: threading.Event,
) -> list[AgentScore]:
    """Score the agents one by one; if ``stop`` is set, return the scores that are already complete."""
    scores = []
    with show_progress_bar_or_notes("scoring", "turns") as bar:
        bar.start(len(agents) * options.turns_per_position * len(positions.logged))
        for agent in agents if not stop.is_set() else ():
            bar.set_description(agent.label)
            verdict = judge_agent(agent, positions, options._replace(games=0), stop, bar.advance)
            games, notes = play_against(opponent, agent, CLASSIC, options, stop)
            if verdict is None or stop.is_set():
                break
            returns = compute_mean_return(games)
            verdict = verdict._replace(notes=[*verdict.notes, *notes])
            scores.append(AgentScore(verdict, games, returns, references.scale_from_zero_to_one(returns)))
    return scores


def build_score_frame(scores: BenchmarkScores) -> pl.DataFrame:
    """Build a frame with one row per agent, in the order of the request."""
    return pl.DataFrame(
        [
            {
                "agent": agent_score.verdict.agent.label,
                "opponent": scores.opponent,
                "games": agent_score.tally.games,
                "wins": agent_score.tally.wins,
                "draws": agent_score.tally.draws,
                "losses": agent_score.tally.losses,
                "mean_return": agent_score.returns.mean,
                "ref_min_score": scores.references.least,
                "ref_max_score": scores.references.greatest,
                "score": agent_score.score.mean,
                "score_low": agent_score.score.low,
                "score_high": agent_score.score.high,
                "optimal": agent_score.turn_figures["optimal"],
                "regret": agent_score.turn_figures["regret"],
                "regret_low": agent_score.turn_figures["regret_low"],
                "regret_high": agent_score.turn_figures["regret_high"],
                "turns_a_second": agent_score.verdict.turns_a_second,
            }
            for agent_score in scores.agent_scores
        ]
    )


def print_scores(scores: BenchmarkScores, wide: bool | None = None) -> None:
    """Print one line for each agent, with the best score first."""
    ranks = sorted(scores.agent_scores, key=lambda row: (-row.score.mean, row.verdict.agent.label))
    games, regrets = [row.tally for row in ranks], [row.turn_figures for row in ranks]
    columns = [
        *numbered_agent_columns([row.verdict.agent.label for row in ranks]),
        ResultColumn("score", [format_decimals(row.score.mean, 3) for row in ranks]),
        ResultColumn(
            "95 % interval",
            [f"{format_decimals(row.score.low, 3)} to {format_decimals(row.score.high, 3)}" for row in ranks],
            drop_priority=1,
        ),
        ResultColumn("win", [format_percent(row.wins / row.games) for row in games], drop_priority=3),
        ResultColumn("draw", [format_percent(row.draws / row.games) for row in games], drop_priority=4),
        ResultColumn("loss", [format_percent(row.losses / row.games) for row in games], drop_priority=3),
        ResultColumn("regret", [f"{row['regret']:.4f}" for row in regrets]),
        ResultColumn(
            "95 % interval",
            [f"{row['regret_low']:.4f} to {row['regret_high']:.4f}" for row in regrets],
            drop_priority=2,
        ),
        ResultColumn("optimal, %", [format_percent(row["optimal"]) for row in regrets], drop_priority=5),
    ]
    low, high = scores.references
    against = f"v {scores.opponent} (random {low:.3f} is 0, oracle {high:.3f} is 1)"
    console.print_tables(
        [
            console.build_escaped_table(
                columns, f"Score {against}; regret in {format_count_with_noun(scores.positions, 'position')}"
            )
        ],
        wide=wide,
    )


def score_and_output(request: ScoreRequest, options: JudgeOptions, table: TableOutput) -> int:
    """Score policies and agents, print the scores or write them to a file, and return the exit code.

    Raises the same errors as ``score_all_agents_unless_stopped``.
    """
    with stop_on_signal_then_interrupt_then_exit() as stop:
        scores = score_all_agents_unless_stopped(request, options, stop)
    if scores is None:
        console.print_note("interrupted: nothing is scored; run the same command again")
        return exit_code()
    if table.is_table_for_people_on_stdout:
        print_scores(scores, table.wide)
    else:
        output_frame(build_score_frame(scores), table)
    return 0
