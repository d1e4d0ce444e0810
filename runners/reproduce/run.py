"""Published pairings played by our agents: games that the archive lacks are played, then all results are compared."""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from pathlib import Path

from analytics.published import PublishedFigure, figures, studies
from analytics.published.comparison import Reproduction, document, noted, page
from analytics.store.schema import MAX_PAIRS
from quarto.errors import RequestError, nearest
from runners.arena.code import version
from runners.arena.schemas import MAX_SEED, check_range, rounding_notes
from runners.hosting.interruption import INTERRUPTED, interruptible
from runners.reproduce.pairings import Pairings, PlaySettings, TrainingResult, train, trainings
from runners.terminal import console
from runners.terminal.console import progress_bar
from runners.terminal.files import write_file

NARROW = ("figure", "player", "opponent", "seat", "published", "text", "text_agrees", "code", "code_agrees", "note")


@dataclass(frozen=True)
class ReproduceRequest:
    """The studies to reproduce, how to play them, and the files to write."""

    studies: tuple[str, ...]
    settings: PlaySettings
    markdown: Path | None
    html: Path | None

    @property
    def figures(self) -> list[PublishedFigure]:
        """The published figures of these studies."""
        return [figure for figure in figures() if figure.study in self.studies]


def checked(study: str | None, settings: PlaySettings, markdown: Path | None, html: Path | None) -> ReproduceRequest:
    """The request that the options of the command make; an odd number of games becomes the next even one.

    ``study`` is a list such as ``A,C``, or None for all studies. Raises ``RequestError`` for the first invalid value,
    before any file is touched.
    """
    check_range("--games", settings.games, 1, 2 * MAX_PAIRS)
    check_range("--seed", settings.seed, 0, MAX_SEED)
    check_range("--threads", settings.threads, 1, 1024)
    chosen = _studies(study)
    games = settings.games + settings.games % 2
    for note in rounding_notes("--games", settings.games, games):
        console.print_note(note)
    return ReproduceRequest(chosen, replace(settings, games=games), markdown, html)


def _studies(text: str | None) -> tuple[str, ...]:
    """The letters in ``A,C``; those of all studies for None."""
    known = [study.study for study in studies()]
    chosen = known if text is None else [part.strip().upper() for part in text.split(",")]
    for study in chosen:
        if study not in known:
            raise RequestError(f"study {study!r} does not exist{nearest(study, known)}")
    return tuple(chosen)


def reproduce(request: ReproduceRequest) -> int:
    """Play, compare, show and write; returns the exit code."""
    root = request.settings.storage.root
    with interruptible() as stop:
        trained = _trained(request, stop)
        pairings = Pairings(request.settings, trained)
        pairings.prepare(request.figures)
        with progress_bar("playing", "games") as progress:
            count = pairings.play(stop, progress) + sum(result.played for result in trained.values())
    reproduction = Reproduction(tuple(pairings.comparison(figure) for figure in request.figures))
    show(reproduction)
    _write(request, reproduction)
    if stop.is_set():
        again = f"{console.program()} {request.settings.command}"
        console.print_note(f"interrupted; all games played so far are in the archive. To continue:\n  {again}")
        return INTERRUPTED
    done = f"{count:,} games played, all of them in {root}" if count else f"Nothing to play: {root} has all games"
    console.print_line(f"{done}.")
    return 0


def _trained(request: ReproduceRequest, stop: threading.Event) -> dict[str, TrainingResult]:
    """The results of the trainings that the figures need, by overrides; fewer than all if ``stop`` is set."""
    settings, results = request.settings, {}
    for training in trainings(request.figures):
        if stop.is_set():
            break
        overrides = f"{training} seed={settings.seed}"
        with progress_bar("playing", "games") as progress:
            result = train(overrides, settings.storage, f"qarena {settings.command}", stop, progress)
        if result:
            results[training] = result
    return results


def show(reproduction: Reproduction) -> None:
    """Print a table for each study, then the notes and the summary."""
    for study, comparisons in reproduction.studies:
        columns = {name: each for name, each in reproduction.columns(comparisons).items() if name != "where"}
        title = f"Study {study.study}: {study.title} (games won, in %)"
        narrow = [each for name, each in columns.items() if name in NARROW]
        console.show([console.tabulated([*columns.values()], title)], [console.tabulated(narrow, title)])
    terminal = console.out()
    for number, note in enumerate(reproduction.notes, 1):
        terminal.print(f"{number:>2}  {noted(note)}", markup=False, soft_wrap=not terminal.is_terminal)
    console.print_line(f"{reproduction.summary()}.")


def _made(settings: PlaySettings) -> str:
    """The command and the settings behind a report, in a sentence."""
    return (
        f"Made by `qarena {settings.command}` (quarto-arena {version()}): {settings.games:,} games of each pairing, "
        f"seed {settings.seed}."
    )


def _write(request: ReproduceRequest, reproduction: Reproduction) -> None:
    """Write the requested files. Raises ``FailureError`` if one cannot be written."""
    made = _made(request.settings)
    contents: dict[Path, str] = {}
    if request.markdown:
        contents[request.markdown] = document(reproduction, made)
    if request.html:
        from analytics.published.panels import panels

        contents[request.html] = page(reproduction, made, panels(reproduction))
    for path, content in contents.items():
        write_file(path, content.encode())
