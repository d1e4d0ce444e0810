"""`qarena benchmark score`: Minari's normalised score against an opponent, and exact regret, of policies and agents.

The normalised score is (return - least) / (greatest - least), where the references are the mean returns of a random and
of a perfect player. A return is that of one episode: 1 won, 0 drawn, -1 lost.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path, PurePath
from typing import Any, NamedTuple

import polars as pl

from analytics.exact.position_set import PositionSet, find_shipped_set_path, read_position_set
from analytics.questions.columns import ResultColumn, format_percent, rank_and_agent_columns
from analytics.statistics.tally import Estimate, Tally, score, wilson_interval
from quarto.errors import RequestError
from quarto.rules import CLASSIC
from runners.arena.spec import AgentSpec
from runners.config.agents import agent_from_label, load_agent
from runners.exact.verdicts import AgentVerdict, JudgeOptions, judge_agent, play_against_and_tally, select_agents
from runners.hosting.guarded_agent import silence_forfeit_log
from runners.hosting.interruption import exit_code, stop_on_signal
from runners.terminal import console
from runners.terminal.console import show_progress_bar
from runners.terminal.files import TableOutput
from runners.terminal.tables import output_frame

RANDOM_PLAYER, EXPERT_PLAYER = "random", "oracle"  # the players whose returns are the references
OPPONENT = "semi_random"  # unless another one is named
REFERENCE_GAMES = 4_000
REFERENCE_SECONDS = 2.4  # of processor time that references against semi_random take, measured
FEW_PAIRS = 30  # the variance of fewer says little: they may all have ended alike
REFERENCE_SEED = (1 << 31) - 1  # of their openings, which neither datasets nor judged games have


class ReferenceReturns(NamedTuple):
    """The mean returns between which scores are 0 and 1."""

    least: float
    greatest: float

    def normalise(self, returns: Estimate) -> Estimate:
        """A mean return and its interval as Minari's normalised score. The references are taken as exact."""
        width = self.greatest - self.least
        mean, low, high = ((each - self.least) / width for each in returns)
        return Estimate(mean, low, high)


def build_player_spec(label: str) -> AgentSpec:
    """An agent that plays without a policy, by its label."""
    return agent_from_label(label) if "(" in label else load_agent(label)


def compute_mean_return(tally: Tally) -> Estimate:
    """The first agent's mean return, -1 to 1, with its 95 % interval over pairs.

    Of fewer than ``FEW_PAIRS`` it is Wilson's for as many wins and losses, the scores that vary most.
    """
    share, low, high = score(tally, by_pairs=True)
    if tally.pair_count < FEW_PAIRS:
        low, high = wilson_interval(share * tally.pair_count, tally.pair_count)
    return Estimate(2 * share - 1, 2 * low - 1, 2 * high - 1)


def measure_references(opponent: AgentSpec, threads: int, stop: threading.Event) -> ReferenceReturns:
    """The references against an opponent under classic rules: the same for the same code on any number of threads."""
    options = JudgeOptions(games=REFERENCE_GAMES, seed=REFERENCE_SEED, threads=threads)
    least, greatest = (
        compute_mean_return(play_against_and_tally(opponent, build_player_spec(name), CLASSIC, options, stop)[0]).mean
        for name in (RANDOM_PLAYER, EXPERT_PLAYER)
    )
    return ReferenceReturns(least, greatest)


class ScoreRequest(NamedTuple):
    """The agents to score, and by what."""

    names: Sequence[str]
    opponent: str
    root: PurePath  # of the archive that has the policies
    file: Path | None = None  # of the positions; None: the set that ships


class AgentScore(NamedTuple):
    """The score of one agent."""

    verdict: AgentVerdict  # without games against the oracle
    tally: Tally  # against the opponent
    returns: Estimate  # mean return of a game
    score: Estimate  # normalised

    @property
    def turn_figures(self) -> dict[str, Any]:
        """The figures of all turns in the fixed positions."""
        whole = (pl.col("kind") == "turn") & pl.col("source").is_null() & pl.col("pieces").is_null()
        return self.verdict.figures.row(by_predicate=whole, named=True)


class BenchmarkScores(NamedTuple):
    """Scores against one opponent, in the order of the request."""

    agent_scores: list[AgentScore]
    opponent: str
    references: ReferenceReturns
    positions: int


def score_agents(request: ScoreRequest, options: JudgeOptions, stop: threading.Event) -> BenchmarkScores | None:
    """Score agents; None once ``stop`` is set. Raises ``RequestError`` for what is not there or plays other rules."""
    positions = read_position_set(find_shipped_set_path(CLASSIC.name) if request.file is None else request.file)
    if positions.rules != CLASSIC:
        raise RequestError(
            f"{request.file} holds positions of rules {positions.rules.name!r}: the benchmark is of classic rules"
        )
    agents, notes = select_agents(request.names, request.root, CLASSIC, include_all=False)
    (opponent,), more = select_agents([request.opponent], request.root, CLASSIC, include_all=False)
    for note in dict.fromkeys((*notes, *more)):
        console.print_note(note)
    with silence_forfeit_log():
        known = measure_references(opponent, options.threads, stop)
        if not (stop.is_set() or known.greatest > known.least):
            raise RequestError(f"against {opponent.label} perfect play gains nothing: name another opponent")
        scored = _score_each(agents, opponent, known, positions, options, stop)
    if stop.is_set():
        return None
    for each in scored:
        for note in each.verdict.notes:
            console.print_note(note)
    return BenchmarkScores(scored, opponent.label, known, len(positions.logged))


def _score_each(
    agents: Sequence[AgentSpec],
    opponent: AgentSpec,
    references: ReferenceReturns,
    positions: PositionSet,
    options: JudgeOptions,
    stop: threading.Event,
) -> list[AgentScore]:
    """The score of each agent, as many as there are before ``stop`` is set."""
    scored = []
    with show_progress_bar("scoring", "turns") as bar:
        bar.start(len(agents) * options.turns_per_position * len(positions.logged))
        for agent in agents if not stop.is_set() else ():
            bar.set_description(agent.label)
            verdict = judge_agent(agent, positions, options._replace(games=0), stop, bar.advance)
            games, notes = play_against_and_tally(opponent, agent, CLASSIC, options, stop)
            if verdict is None or stop.is_set():
                break
            returns = compute_mean_return(games)
            verdict = verdict._replace(notes=[*verdict.notes, *notes])
            scored.append(AgentScore(verdict, games, returns, references.normalise(returns)))
    return scored


def build_score_frame(scores: BenchmarkScores) -> pl.DataFrame:
    """One row for each agent."""
    return pl.DataFrame(
        [
            {
                "agent": each.verdict.agent.label,
                "opponent": scores.opponent,
                "games": each.tally.games,
                "wins": each.tally.wins,
                "draws": each.tally.draws,
                "losses": each.tally.losses,
                "mean_return": each.returns.mean,
                "ref_min_score": scores.references.least,
                "ref_max_score": scores.references.greatest,
                "score": each.score.mean,
                "score_low": each.score.low,
                "score_high": each.score.high,
                "optimal": each.turn_figures["optimal"],
                "regret": each.turn_figures["regret"],
                "regret_low": each.turn_figures["regret_low"],
                "regret_high": each.turn_figures["regret_high"],
                "turns_a_second": each.verdict.turns_a_second,
            }
            for each in scores.agent_scores
        ]
    )


def print_scores(scores: BenchmarkScores, wide: bool | None = None) -> None:
    """Print a line on each agent, the best score first."""
    ranks = sorted(scores.agent_scores, key=lambda each: (-each.score.mean, each.verdict.agent.label))
    games, regrets = [each.tally for each in ranks], [each.turn_figures for each in ranks]
    columns = [
        *rank_and_agent_columns([each.verdict.agent.label for each in ranks]),
        ResultColumn("score", [f"{each.score.mean:.3f}" for each in ranks]),
        ResultColumn(
            "95 % interval", [f"{each.score.low:.3f} to {each.score.high:.3f}" for each in ranks], drop_priority=1
        ),
        ResultColumn("win", [format_percent(each.wins / each.games) for each in games], drop_priority=3),
        ResultColumn("draw", [format_percent(each.draws / each.games) for each in games], drop_priority=4),
        ResultColumn("loss", [format_percent(each.losses / each.games) for each in games], drop_priority=3),
        ResultColumn("regret", [f"{each['regret']:.4f}" for each in regrets]),
        ResultColumn(
            "95 % interval",
            [f"{each['regret_low']:.4f} to {each['regret_high']:.4f}" for each in regrets],
            drop_priority=2,
        ),
        ResultColumn("optimal, %", [format_percent(each["optimal"]) for each in regrets], drop_priority=5),
    ]
    low, high = scores.references
    against = f"v {scores.opponent} (random {low:.3f} is 0, oracle {high:.3f} is 1)"
    console.print_tables(
        [console.build_table(columns, f"Score {against}; regret in {scores.positions:,} positions")], wide=wide
    )


def score_and_output(request: ScoreRequest, options: JudgeOptions, table: TableOutput) -> int:
    """Score policies and agents, and print or write the scores. Return the exit code. Raises as ``score_agents``."""
    with stop_on_signal() as stop:
        found = score_agents(request, options, stop)
    if found is None:
        console.print_note("interrupted: nothing is scored; run the same command again")
        return exit_code()
    if table.is_printed:
        print_scores(found, table.wide)
    else:
        output_frame(build_score_frame(found), table)
    return 0
