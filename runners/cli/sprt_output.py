"""A test of strength on the terminal: its progress while it is played, and its outcome."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from analytics.statistics.sprt import (
    Hypotheses,
    SequentialTest,
    Strength,
    checked_counts,
    decision,
    log_likelihood_ratio,
    strength,
)
from analytics.statistics.tally import Estimate
from quarto.errors import RequestError, nearest
from runners.terminal import console
from runners.terminal.console import progress_bar

if TYPE_CHECKING:
    from runners.arena.sprt import OnPairs, SprtOutcome  # counts are tested without what plays

SECONDS = 30.0  # between two lines where there is no terminal, unless the pairs have doubled


@contextmanager
def showing(progress: bool, games: int) -> Iterator[OnPairs]:
    """A function that shows the state of a test: as a bar on a terminal, elsewhere as a line now and then."""
    if not progress:
        yield lambda _trial: None
        return
    with progress_bar("testing", "games") as bar:
        if not bar.is_shown:
            yield _ProgressLines().report
            return
        bar.start(games)

        def report(trial: SequentialTest) -> None:
            bar.reach(2 * trial.pairs)
            bar.describe(state_of(trial))

        yield report


class _ProgressLines:
    """Prints the state of a test whenever its pairs have doubled, or half a minute has passed."""

    def __init__(self) -> None:
        self._pairs, self._since = 0, time.monotonic()

    def report(self, trial: SequentialTest) -> None:
        moment = time.monotonic()
        if trial.pairs and (trial.pairs >= 2 * self._pairs or moment - self._since >= SECONDS):
            console.print_note(state_of(trial))
            self._pairs, self._since = trial.pairs, moment


def state_of(trial: SequentialTest) -> str:
    """The state of a test: games, the log-likelihood ratio at the last look with its bounds, the strength so far."""
    lower, upper = trial.hypotheses.bounds
    known = f", nElo {with_half_width(strength(trial.counts).normalised_elo, 1)}" if trial.pairs else ""
    return f"LLR {trial.ratio:.2f} ({lower:.2f} to {upper:.2f}) after {2 * trial.pairs:,} games{known}"


def show(outcome: SprtOutcome) -> None:
    """Print a test's verdict, its number of games, and where they are stored."""
    trial = outcome.trial
    if not trial.pairs:
        console.print_note(f"run {outcome.run.run_id} has no games yet")
        return
    measured = described(trial.counts, trial.hypotheses, strength(trial.counts))
    for line in [*measured, *_verdict(outcome), _games_played(outcome)]:
        console.print_line(line)


def _verdict(outcome: SprtOutcome) -> list[str]:
    """The decision in words: the hypothesis that the games reject. Accepting one does not say that it is true."""
    trial, spec = outcome.trial, outcome.run.request.spec
    ((first, second),) = spec.labels
    zero, one = trial.hypotheses.elo0, trial.hypotheses.elo1
    games = f"after {2 * trial.pairs:,} games"
    above = f"Decided {games}: {first} is above {second} by"
    sentences = {
        "elo1": f"{above} more than {zero:g} nElo; {one:g} nElo explain the games better.",
        "elo0": f"{above} less than {one:g} nElo; {zero:g} nElo explain the games better.",
        None: f"Undecided {games}, as many as were allowed: games=… allows more.",
    }
    lines = [sentences[trial.accepted] if trial.ended else f"Undecided so far, {games}."]
    if trial.pairs == max(trial.counts) and not spec.opening_plies:
        lines.append("All pairs had the same outcome, as between two deterministic agents: try opening_plies=2.")
    return lines


def _games_played(outcome: SprtOutcome) -> str:
    where = f"run {outcome.run.run_id} in {outcome.run.request.storage.root}"
    if not outcome.played:
        return f"Nothing to play: {where} had all of them."
    return f"{outcome.played:,} games in {outcome.seconds:.1f} s, every ply on disk; {where}."


def row(outcome: SprtOutcome) -> dict[str, str]:
    """The row of a job in the table of its sweep."""
    trial, ((first, second),) = outcome.trial, outcome.run.request.spec.labels
    return {
        "first": first,
        "second": second,
        "verdict": trial.accepted or "undecided",
        "games": f"{2 * trial.pairs:,}",
        "LLR": f"{trial.ratio:.2f}",
        "nElo": with_half_width(strength(trial.counts).normalised_elo, 1) if trial.pairs else "·",
    }


def show_counts(text: str, settings: Sequence[str]) -> None:
    """Print the test of given counts. Raises ``RequestError`` for anything but counts and hypotheses."""
    try:
        counts = checked_counts([int(count) for count in text.split(",")])
    except ValueError:
        raise RequestError(
            f"--counts {text}: five whole numbers are needed: the pairs with results LL,LD,DD,WD,WW"
        ) from None
    names = Hypotheses.__struct_fields__
    hypotheses = Hypotheses(**dict(_hypothesis(setting, names) for setting in settings))
    for line in described(counts, hypotheses, strength(counts)):
        console.print_line(line)


def _hypothesis(setting: str, names: Sequence[str]) -> tuple[str, float]:
    key, _, value = setting.partition("=")
    if key not in names:
        raise RequestError(f"{setting!r} cannot be used with --counts{nearest(key, names)}")
    try:
        return key, float(value)
    except ValueError:
        raise RequestError(f"{key}: {value!r} is not a number") from None


def described(counts: Sequence[int], hypotheses: Hypotheses, found: Strength) -> list[str]:
    """Counts, the ratio with its bounds, and estimates, as lines of text."""
    ratio, (lower, upper) = log_likelihood_ratio(counts, hypotheses), hypotheses.bounds
    accepted = decision(counts, hypotheses)
    verdict = f"{accepted} is accepted" if accepted else "undecided"
    named = zip(("LL", "LD", "DD", "WD", "WW"), counts, strict=True)
    tested = ", ".join(f"{name}={getattr(hypotheses, name):g}" for name in hypotheses.__struct_fields__)
    return [
        f"Pairs  {found.pairs:,}: " + ", ".join(f"{name} {count:,}" for name, count in named),
        f"LLR    {ratio:.4f}, bounds {lower:.4f} and {upper:.4f}: {verdict} ({tested})",
        f"nElo   {with_half_width(found.normalised_elo)}",
        f"Elo    {with_half_width(found.elo)}",
        f"LOS    {found.superiority:.5f}",
    ]


def with_half_width(estimate: Estimate, digits: int = 4) -> str:
    """A value ± half the width of its interval."""
    mean = round(estimate.mean, digits) + 0.0  # no minus sign before 0
    reach = (estimate.high - estimate.low) / 2
    return " ± ".join(f"{number:.{digits}f}".replace("inf", "∞") for number in (mean, reach) if not math.isnan(number))
