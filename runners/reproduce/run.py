"""Every published pairing played by our players: what the archive lacks is played, all of it is compared."""

from __future__ import annotations

import os
import shlex
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.table import Table

from analytics.published import Figure, figures, studies
from analytics.published.comparison import HEADINGS, NUMBERS, Reproduction, Row, markdown, noted, shown
from analytics.published.page import page
from analytics.report import style as drawing
from analytics.store.schema import MAX_PAIRS
from quarto.errors import FailureError, RequestError, nearest
from runners.arena.checks import check_range, rounding_notes
from runners.arena.experiment import interruptible
from runners.arena.machine import available_cores
from runners.arena.spec import MAX_SEED, version
from runners.arena.storage import Storage
from runners.reproduce.pairings import Meetings, Terms, trainings
from runners.reproduce.trainings import Learned, learn
from runners.terminal import console

GAMES = 10_000  # a pairing: intervals of a point at most, in a few minutes all together
INTERRUPTED = 130  # the shell's convention: 128 + SIGINT
NARROW = ("figure", "player", "opponent", "seat", "published", "text", "text_agrees", "code", "code_agrees", "note")


@dataclass(frozen=True)
class Wanted:
    """What is to be reproduced, and how."""

    studies: tuple[str, ...]
    terms: Terms
    markdown: Path | None
    html: Path | None

    @property
    def figures(self) -> list[Figure]:
        return [figure for figure in figures() if figure.study in self.studies]


DEFAULTS = {
    "study": "",  # all
    "games": str(GAMES),
    "seed": "1",
    "threads": "",  # one for each core
    "archive.root": str(Storage.root),
    "archive.other_code": Storage.other_code,
    "markdown": "",
    "html": "",
}


def wanted_of(words: Sequence[str], options: Mapping[str, str | None], typed: Sequence[str]) -> Wanted:
    """What is asked for by words such as ``study=C`` and by options, whose keys are those of ``DEFAULTS`` too.

    ``typed`` came after the program's name. Raises ``RequestError`` for the first value that makes no sense, before
    anything is touched.
    """
    given = _given(words, options)
    games = _whole("games", given["games"], 1, 2 * MAX_PAIRS)
    for note in rounding_notes("games", games, games + games % 2):
        console.say(note)
    return Wanted(
        studies=_studies(given["study"]),
        terms=Terms(
            games=games + games % 2,
            seed=_whole("seed", given["seed"], 0, MAX_SEED),
            threads=_whole("threads", given["threads"] or str(available_cores()), 1, 1024),
            storage=Storage(Path(given["archive.root"]), other_code=given["archive.other_code"]),
            command=shlex.join(typed),
        ),
        markdown=_writable(given["markdown"]),
        html=_writable(given["html"]),
    )


def _given(words: Sequence[str], options: Mapping[str, str | None]) -> dict[str, str]:
    """All keys with their values, those not given with their defaults."""
    found = {key: value for key, value in options.items() if value is not None}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals:
            raise RequestError(f"{word!r} is not key=value: write study={word} for one study")
        if key not in DEFAULTS:
            raise RequestError(f"key {key!r} does not exist{nearest(key, DEFAULTS)}")
        if key in found:
            raise RequestError(f"{key} is given twice: {key}={found[key]} and {word}")
        found[key] = value
    return DEFAULTS | found


def _studies(text: str) -> tuple[str, ...]:
    """``A,C`` as letters; all for nothing."""
    known = [study.study for study in studies()]
    chosen = [part.strip().upper() for part in text.split(",")] if text else known
    for study in chosen:
        if study not in known:
            raise RequestError(f"study {study!r} does not exist{nearest(study, known)}")
    return tuple(chosen)


def _whole(key: str, text: str, least: int, most: int) -> int:
    try:
        value = int(text)
    except ValueError as error:
        raise RequestError(f"{key}={text!r} is not a whole number") from error
    check_range(key, value, least, most)
    return value


def _writable(text: str) -> Path | None:
    """A file that can be written as far as can be seen now: games are not to be played in vain."""
    if not text:
        return None
    path = Path(text)
    place = path if path.exists() else path.parent
    if path.is_dir() or not path.parent.is_dir() or not os.access(place, os.W_OK):
        reason = "is a folder" if path.is_dir() else "cannot be written" if path.parent.is_dir() else "has no folder"
        raise RequestError(f"{path} {reason}: name a file in a folder that exists and may be written to")
    return path


def reproduce(wanted: Wanted) -> int:
    """Play, compare, show and write; returns the exit code."""
    root = wanted.terms.storage.root
    with interruptible() as stop:
        lessons = _lessons(wanted, stop)
        meetings = Meetings(wanted.terms, lessons)
        meetings.arrange(wanted.figures)
        with console.progress(wanted=True) as progress:
            count = meetings.play(stop, progress) + sum(learned.played for learned in lessons.values())
    reproduction = Reproduction(tuple(meetings.comparison(figure) for figure in wanted.figures))
    show(reproduction)
    _write(wanted, reproduction)
    if stop.is_set():
        again = f"{console.program()} {wanted.terms.command}"
        console.say(f"interrupted; everything played is in the archive. To go on:\n  {again}")
        return INTERRUPTED
    done = f"{count:,} games played, all of them in {root}" if count else f"Nothing to play: {root} has all games"
    console.out().print(f"{done}.", markup=False, soft_wrap=True)
    return 0


def _lessons(wanted: Wanted, stop: threading.Event) -> dict[str, Learned]:
    """Train whom the figures need trained, until done or ``stop`` is set."""
    terms, lessons = wanted.terms, {}
    for training in trainings(wanted.figures):
        if stop.is_set():
            break
        overrides = f"{training} seed={terms.seed}"
        with console.progress(wanted=True) as progress:
            learned = learn(overrides, terms.storage, f"qarena {terms.command}", stop, progress)
        if learned:
            lessons[training] = learned
    return lessons


def show(reproduction: Reproduction) -> None:
    """The tables, a study each, then the notes."""
    for study, comparisons in reproduction.studies:
        rows = [reproduction.row(each) for each in comparisons]
        title = f"Study {study.study}: {study.title} (games won, in %)"
        names = [name for name in shown(rows) if name != "where"]
        console.show([_table(rows, names, title)], [_table(rows, [name for name in names if name in NARROW], title)])
    terminal = console.out()
    for number, note in enumerate(reproduction.notes, 1):
        terminal.print(f"{number:>2}  {noted(note)}", markup=False, soft_wrap=not terminal.is_terminal)
    terminal.print(f"{reproduction.summary()}.", markup=False, soft_wrap=True)


def _table(rows: Sequence[Row], names: Sequence[str], title: str) -> Table:
    columns = (
        console.Column(getattr(HEADINGS, name), [getattr(row, name) for row in rows], name in NUMBERS) for name in names
    )
    return console.tabulated([*columns], title)


def _made(wanted: Wanted) -> str:
    """How a report was made."""
    terms = wanted.terms
    return (
        f"Made by `qarena {terms.command}` (quarto-arena {version()}): {terms.games:,} games of each pairing, seed "
        f"{terms.seed}."
    )


def _write(wanted: Wanted, reproduction: Reproduction) -> None:
    """The files that were asked for. Raises ``FailureError`` if one cannot be written."""
    contents: dict[Path, str] = {}
    if wanted.markdown:
        contents[wanted.markdown] = markdown(reproduction, _made(wanted))
    if wanted.html:
        contents[wanted.html] = page(reproduction, _made(wanted), plots(reproduction))
    for path, content in contents.items():
        try:
            path.write_text(content, encoding="utf-8")
        except OSError as error:
            raise FailureError(f"cannot write {path}: {error.strerror or error}") from error


def plots(reproduction: Reproduction) -> Mapping[str, str]:
    """A picture of each study; none, and a line that says why, without the extra."""
    if not drawing.can_draw():
        console.say(f"the page has no plots; for them: {drawing.EXTRA}, in a clone -e '.[plots]'")
        return {}
    from analytics.published.panels import panels

    return panels(reproduction)
