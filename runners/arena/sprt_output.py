"""A test of strength on the terminal: its progress during the games, its outcome, and the test of given counts."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from analytics.questions.columns import format_decimals
from analytics.statistics.sprt import (
    Hypotheses,
    SequentialTest,
    Strength,
    check_counts,
    estimate_strength,
    find_hypothesis_from_counts,
    log_likelihood_ratio,
)
from analytics.statistics.tally import Estimate
from analytics.store.texts import format_count_with_noun
from quarto.errors import RequestError, suggest_valid_names
from runners.terminal import console
from runners.terminal.console import show_progress_bar_or_notes

if TYPE_CHECKING:
    from runners.arena.sprt import OnPairs, SprtOutcome  # to test given counts, nothing that plays is needed

NOTE_SECONDS = 30.0  # between two lines of progress without a terminal, unless the number of pairs has doubled


@contextmanager
def show_progress(is_shown: bool, games: int) -> Iterator[OnPairs]:
    """Yield a function that shows the state of a test each time it is called.

    On a terminal, the state is a progress bar that ends at ``games``; elsewhere, it is an occasional line. If
    ``is_shown`` is false, the function does nothing.
    """
    if not is_shown:
        yield lambda _trial: None
        return
    with show_progress_bar_or_notes("testing", "games") as bar:
        if not bar.is_shown:
            yield _ProgressPrinter().print_if_doubled_or_overdue
            return
        bar.start(games)

        def report(trial: SequentialTest) -> None:
            bar.set_done(2 * trial.pairs)
            bar.set_description(format_llr_games_and_strength(trial))

        yield report


class _ProgressPrinter:
    """A printer of the state of a test, for output that is not a terminal."""

    def __init__(self) -> None:
        self._printed_pairs, self._printed_at = 0, time.monotonic()  # the number of pairs and the time of the last line

    def print_if_doubled_or_overdue(self, trial: SequentialTest) -> None:
        """Print the state of the test if the last printed line is out of date.

        The line is out of date once the number of pairs has doubled, or half a minute has passed, since it was printed.
        """
        now = time.monotonic()
        if trial.pairs and (trial.pairs >= 2 * self._printed_pairs or now - self._printed_at >= NOTE_SECONDS):
            console.print_note(format_llr_games_and_strength(trial))
            self._printed_pairs, self._printed_at = trial.pairs, now


def format_llr_games_and_strength(trial: SequentialTest) -> str:
    """Format the state of a test as one line: its log-likelihood ratio with bounds, its games and its nElo so far."""
    lower, upper = trial.hypotheses.bounds
    strength = (
        f", nElo {format_mean_and_half_width(estimate_strength(trial.counts).normalised_elo, 1)}" if trial.pairs else ""
    )
    games = format_count_with_noun(2 * trial.pairs, "game")
    return f"LLR {format_decimals(trial.ratio, 2)} ({format_decimals(lower, 2)} to {upper:.2f}) after {games}{strength}"


def print_outcome(outcome: SprtOutcome) -> None:
    """Print the estimates and the verdict of a test, the number of its games, and where they are stored."""
    trial = outcome.trial
    if not trial.pairs:
        console.print_note(f"run {outcome.experiment.run_id} has no games yet")
        return
    estimate_lines = format_test(trial.counts, trial.hypotheses, estimate_strength(trial.counts))
    for line in [*estimate_lines, *format_verdict(outcome), _format_games_seconds_and_run(outcome)]:
        console.print_line(line)


def format_verdict(outcome: SprtOutcome) -> list[str]:
    """Return lines that say which hypothesis explains the games better, or that the test is undecided.

    Accepting a hypothesis does not prove it.
    """
    trial, spec = outcome.trial, outcome.experiment.request.spec
    (agents,) = spec.pairing_labels
    games = f"after {format_count_with_noun(2 * trial.pairs, 'game')}"
    if decision := describe_decision(trial, agents):
        lines = [f"Decided {games}: {decision}."]
    elif trial.ended:
        lines = [f"Undecided {games}, as many as were allowed: games=… allows more."]
    else:
        lines = [f"Undecided so far, {games}."]
    if trial.pairs == max(trial.counts) and not spec.opening_plies:
        lines.append("All pairs had the same outcome, as between two deterministic agents: try opening_plies=2.")
    return lines


def describe_decision(trial: SequentialTest, agents: tuple[str, str]) -> str:
    """Describe what a test of two agents decided, without a full stop; return "" if it has decided nothing.

    Accepting a hypothesis rejects the other one, but proves neither.
    """
    zero, one = trial.hypotheses.elo0, trial.hypotheses.elo1
    above = f"{agents[0]} is above {agents[1]} by"
    decisions = {
        "elo1": f"{above} more than {zero:g} nElo; {one:g} nElo explain the games better",
        "elo0": f"{above} less than {one:g} nElo; {zero:g} nElo explain the games better",
    }
    return decisions.get(trial.accepted or "", "")


def _format_games_seconds_and_run(outcome: SprtOutcome) -> str:
    """Format the number of games that the command played, the time they took, and the run that holds all games."""
    where = f"run {outcome.experiment.run_id} in {outcome.experiment.request.storage.root}"
    if not outcome.played:
        return f"Nothing to play: {where} had all of them."
    return f"{format_count_with_noun(outcome.played, 'game')} in {outcome.seconds:.1f} s, every ply on disk; {where}."


def format_sweep_row(outcome: SprtOutcome) -> dict[str, str]:
    """Return the row that shows a test in the table of its sweep, as a mapping from headings to texts."""
    trial, ((first, second),) = outcome.trial, outcome.experiment.request.spec.pairing_labels
    return {
        "first": first,
        "second": second,
        "verdict": trial.accepted or "undecided",
        "games": f"{2 * trial.pairs:,}",
        "LLR": format_decimals(trial.ratio, 2),
        "nElo": format_mean_and_half_width(estimate_strength(trial.counts).normalised_elo, 1) if trial.pairs else "·",
    }


def print_test_of_counts(counts_text: str, hypothesis_settings: Sequence[str]) -> None:
    """Print the result of a sequential test whose pairs of games were counted elsewhere.

    ``counts_text`` has the numbers of pairs with the results LL,LD,DD,WD,WW, where W is a win, D a draw and L a loss.
    Each hypothesis setting is ``key=value``. Raises ``RequestError`` if the texts are not counts and hypotheses.
    """
    try:
        counts = check_counts([int(count) for count in counts_text.split(",")])
    except ValueError:
        raise RequestError(
            f"--counts {counts_text}: five whole numbers are needed: the pairs with results LL,LD,DD,WD,WW"
        ) from None
    names = Hypotheses.__struct_fields__
    hypotheses = Hypotheses(**dict(_parse_hypothesis(setting, names) for setting in hypothesis_settings))
    for line in format_test(counts, hypotheses, estimate_strength(counts)):
        console.print_line(line)


def _parse_hypothesis(setting: str, names: Sequence[str]) -> tuple[str, float]:
    key, _, value = setting.partition("=")
    if key not in names:
        raise RequestError(f"{setting!r} cannot be used with --counts{suggest_valid_names(key, names)}")
    try:
        return key, float(value)
    except ValueError:
        raise RequestError(f"{key}: {value!r} is not a number") from None


def format_test(counts: Sequence[int], hypotheses: Hypotheses, strength: Strength) -> list[str]:
    """Return lines with the counts of pairs, the log-likelihood ratio and its bounds, the verdict and the estimates."""
    ratio, (lower, upper) = log_likelihood_ratio(counts, hypotheses), hypotheses.bounds
    accepted = find_hypothesis_from_counts(counts, hypotheses)
    verdict = f"{accepted} is accepted" if accepted else "undecided"
    named_counts = zip(("LL", "LD", "DD", "WD", "WW"), counts, strict=True)
    hypotheses_text = ", ".join(f"{name}={getattr(hypotheses, name):g}" for name in hypotheses.__struct_fields__)
    bounds_text = f"bounds {format_decimals(lower, 4)} and {upper:.4f}"
    return [
        f"Pairs  {strength.pairs:,}: " + ", ".join(f"{name} {count:,}" for name, count in named_counts),
        f"LLR    {format_decimals(ratio, 4)}, {bounds_text}: {verdict} ({hypotheses_text})",
        f"nElo   {format_mean_and_half_width(strength.normalised_elo)}",
        f"Elo    {format_mean_and_half_width(strength.elo)}",
        f"LOS    {strength.superiority:.5f}",
    ]


def format_mean_and_half_width(estimate: Estimate, digits: int = 4) -> str:
    """Format an estimate as its mean ± half the width of its interval, both rounded to ``digits`` decimals."""
    mean = round(estimate.mean, digits) + 0.0  # no minus sign before 0
    half_width = (estimate.high - estimate.low) / 2
    return " ± ".join(
        f"{number:.{digits}f}".replace("inf", "∞") for number in (mean, half_width) if not math.isnan(number)
    )
