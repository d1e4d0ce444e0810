"""What a person sees of a test: how it stands while it is played, and what it came to."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from analytics.statistics.sprt import Trial, strength
from runners.strength.sprt_play import Found, Watcher
from runners.strength.tables import around, described
from runners.terminal import console

SECONDS = 30.0  # between two lines where there is no terminal, unless the pairs have doubled


@contextmanager
def watching(wanted: bool, games: int) -> Iterator[Watcher]:
    """Somebody to be told how a test stands: a bar on a terminal, elsewhere a line now and then."""
    terminal = Console(stderr=True)
    if not wanted:
        yield _not_wanted
    elif terminal.is_terminal:
        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("games"),
        )
        with Progress(*columns, console=terminal, transient=True) as bar:
            task = bar.add_task("testing", total=games)
            yield lambda trial: bar.update(task, completed=2 * trial.pairs, description=standing(trial))
    else:
        yield _Lines().tell


def _not_wanted(_trial: Trial) -> None:
    """Nobody wants to know."""


class _Lines:
    """Says how a test stands whenever its pairs have doubled, or half a minute has passed."""

    def __init__(self) -> None:
        self._pairs, self._since = 0, time.monotonic()

    def tell(self, trial: Trial) -> None:
        moment = time.monotonic()
        if trial.pairs and (trial.pairs >= 2 * self._pairs or moment - self._since >= SECONDS):
            console.say(standing(trial))
            self._pairs, self._since = trial.pairs, moment


def standing(trial: Trial) -> str:
    """How a test stands: games, the ratio at the last look between its bounds, and what is known of strength."""
    lower, upper = trial.hypotheses.bounds
    known = f", nElo {around(strength(trial.counts).normalised_elo, 1)}" if trial.pairs else ""
    return f"LLR {trial.ratio:.2f} ({lower:.2f} to {upper:.2f}) after {2 * trial.pairs:,} games{known}"


def show(found: Found) -> None:
    """What a test came to, from how many games, and where they are."""
    trial, out = found.trial, console.out()
    if not trial.pairs:
        console.say(f"run {found.contest.experiment.run_id} has no games yet")
        return
    for line in [*described(trial.counts, trial.hypotheses, strength(trial.counts)), *_verdict(found), _took(found)]:
        out.print(line, markup=False, soft_wrap=True)


def _verdict(found: Found) -> list[str]:
    """The decision in words."""
    trial, (first, second) = found.trial, found.contest.request.run.spec.labels[0]
    zero, one = trial.hypotheses.elo0, trial.hypotheses.elo1
    games = f"after {2 * trial.pairs:,} games"
    said = {
        "elo1": f"Decided {games}: {first} is above {second} by {one:g} nElo or more, rather than by {zero:g} or less.",
        "elo0": f"Decided {games}: {first} is above {second} by {zero:g} nElo or less, rather than by {one:g} or more.",
        None: f"Undecided {games}, as many as were allowed: games=… allows more.",
    }
    lines = [said[trial.accepted] if trial.ended else f"Undecided so far, {games}."]
    if trial.pairs == max(trial.counts) and not found.contest.request.run.spec.opening_plies:
        lines.append("All pairs went the same way, as those of two agents without chance do: try opening_plies=2.")
    return lines


def _took(found: Found) -> str:
    experiment = found.contest.experiment
    where = f"run {experiment.run_id} in {experiment.request.storage.root}"
    if not found.played:
        return f"Nothing to play: {where} had all of them."
    return f"{found.played:,} games in {found.seconds:.1f} s, every ply on disk; {where}."


def row(found: Found) -> dict[str, str]:
    """The row of a job in the table of its sweep."""
    trial, (first, second) = found.trial, found.contest.request.run.spec.labels[0]
    return {
        "first": first,
        "second": second,
        "verdict": trial.accepted or "undecided",
        "games": f"{2 * trial.pairs:,}",
        "LLR": f"{trial.ratio:.2f}",
        "nElo": around(strength(trial.counts).normalised_elo, 1) if trial.pairs else "·",
    }
