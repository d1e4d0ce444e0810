"""Chosen games in the form of another tool: what can be asked for, and a file or folder that is whole or not there."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, NamedTuple

from analytics.exchange import to_minari
from analytics.exchange.sequence import Passage, in_order
from analytics.exchange.to_csv import write_games, write_plies
from analytics.exchange.to_d3rlpy import write_d3rlpy
from analytics.exchange.to_rlds import rows_of, write_rlds
from analytics.exchange.to_text import write_text
from analytics.exchange.turns import PERSPECTIVES, Episodes, View, episodes_of
from analytics.query.database import OpenArchive
from analytics.query.selection import select
from analytics.store.atomic import temporary_beside
from quarto.errors import FailureError, RequestError, nearest

TABLES, EPISODES = ("text", "csv"), ("minari", "d3rlpy", "rlds")
FORMS = (*TABLES, *EPISODES)
ROWS = ("plies", "games")

Watch = Callable[[int], None]  # is told how many games more have been written


@dataclass(frozen=True)
class Wish:
    """What is to be exported, and how. Raises ``RequestError`` for options that do not go together."""

    form: str
    where: str | None = None
    perspective: str | None = None  # a key of PERSPECTIVES; csv by plies: mover, if it is not said
    sample: int | None = None
    seed: int = 1
    rows: str = "plies"  # of csv: plies or games
    imposed: bool = False  # imposed turns too
    masks: bool = False  # legal actions too

    def __post_init__(self) -> None:
        for name, value, known in (("format", self.form, FORMS), ("rows", self.rows, ROWS)):
            if value not in known:
                raise RequestError(f"--{name} {value} is not known{nearest(value, known)}")
        if self.perspective is not None and self.perspective not in PERSPECTIVES:
            raise RequestError(
                f"--perspective {self.perspective} is not known{nearest(self.perspective, PERSPECTIVES)}"
            )
        if self.sample is not None and self.sample < 1:
            raise RequestError(f"--sample {self.sample} is no number of games: ask for at least 1, or leave it out")
        self._check_form()

    def _check_form(self) -> None:
        """Raises ``RequestError`` for a perspective that is missing, and for options that say nothing of the form."""
        if self.form in EPISODES and self.perspective is None:
            raise RequestError(
                f"format {self.form} needs --perspective, which says whose rewards they are: seat_0 or seat_1 "
                "(that seat's turns; the other one is part of its world), or mover (every turn, for who takes it)"
            )
        form = f"csv by {self.rows}" if self.form == "csv" else self.form
        unused = {
            "--perspective": self.perspective is not None and form in ("text", "csv by games"),
            "--rows games": self.rows == "games" and self.form != "csv",
            "--imposed": self.imposed and self.form in TABLES,
            "--masks": self.masks and self.form in TABLES,
        }
        for name, given in unused.items():
            if given:
                raise RequestError(f"{name} says nothing of format {form}: leave it out")

    def view(self, mover_chooses: bool) -> View:
        """What is told of games."""
        return View(PERSPECTIVES[self.perspective or "mover"], self.imposed, self.masks, mover_chooses)


class Done(NamedTuple):
    """What was written."""

    games: int
    episodes: int | None = None  # of forms that have them
    steps: int | None = None


def export(opened: OpenArchive, wish: Wish, output: Path, force: bool = False, watch: Watch | None = None) -> Done:
    """Write chosen games to ``output``, a new file (a folder for minari); with ``force`` one that is there is replaced.

    Raises ``RequestError`` for a path that cannot be meant, a condition that is none, or games that are not there, and
    changes nothing then; ``FailureError`` for what is damaged or cannot be written, and leaves nothing.
    """
    check_output(opened.archive.root, wish, output, force)
    passages = _chosen(opened, wish, watch)
    with _aside(output, force) as (path, room):
        if wish.form in TABLES:
            with path.open("xb") as out:
                return Done(_write_table(passages, wish, out))
        return _write_episodes(passages, wish, path, room, output)


def export_to(opened: OpenArchive, wish: Wish, out: BinaryIO) -> Done:
    """Write chosen games as text or csv to a stream. Raises as ``export`` does."""
    if wish.form not in TABLES:
        raise RequestError(f"format {wish.form} cannot be written to a pipe: name a file with --output")
    return Done(_write_table(_chosen(opened, wish, None), wish, out))


def check_output(root: Path, wish: Wish, output: Path, force: bool) -> None:
    """Raises ``RequestError`` for a path that is not to be written to."""
    if output.resolve().is_relative_to(root.resolve()):
        raise RequestError(f"--output {output} lies in archive {root}, which is only written to by runs: name another")
    if not output.parent.is_dir():
        raise RequestError(f"--output {output}: there is no folder {output.parent}; make it, or name another")
    if wish.form == "minari":
        to_minari.library()
        to_minari.check_name(output.name)
    if not output.exists() and not output.is_symlink():
        return
    if not force:
        raise RequestError(f"--output {output} exists: name another, or replace it with --force")
    same = output.is_dir() and to_minari.is_dataset(output) if wish.form == "minari" else output.is_file()
    if not same:
        kind = "a Minari dataset" if wish.form == "minari" else "a file"
        raise RequestError(f"--output {output} exists and is not {kind}, so --force does not replace it: name another")


def _chosen(opened: OpenArchive, wish: Wish, watch: Watch | None) -> Iterator[Passage]:
    """The games, counted as they pass. What is wrong with the request is raised here, before anything is written."""
    selection = select(opened, wish.where)
    if wish.sample is not None and wish.sample > selection.games:
        raise RequestError(f"--sample {wish.sample:,} of {selection.games:,} games: ask for fewer, or leave it out")

    def passing() -> Iterator[Passage]:
        for passage in in_order(selection, wish.sample, wish.seed):
            yield passage
            if watch:
                watch(len(passage.chosen.game_id))

    return passing()


def _write_table(passages: Iterable[Passage], wish: Wish, out: BinaryIO) -> int:
    """Games written."""
    games = 0

    def counted() -> Iterator[Passage]:
        nonlocal games
        for passage in passages:
            games += len(passage.chosen.game_id)
            yield passage

    if wish.form == "text":
        write_text(counted(), out)
    elif wish.rows == "games":
        write_games(counted(), out)
    else:
        write_plies(counted(), wish.perspective or "mover", out)
    return games


def episodes(opened: OpenArchive, wish: Wish) -> Iterator[tuple[Passage, Episodes]]:
    """Chosen games as arrays, some thousands at a time, for who needs no file. Raises as ``export`` does."""
    return _episodes(_chosen(opened, wish, None), wish)


def _episodes(passages: Iterable[Passage], wish: Wish) -> Iterator[tuple[Passage, Episodes]]:
    for passage in passages:
        opening, games, rules = passage.chosen.opening, passage.chosen.games, passage.record.rules
        yield passage, episodes_of(opening, games, wish.view(rules.mover_chooses), rules.tables)


def _write_episodes(passages: Iterable[Passage], wish: Wish, path: Path, room: Path, output: Path) -> Done:
    games, count, steps = 0, 0, 0

    def parts() -> Iterator[tuple[Passage, Episodes]]:
        nonlocal games, count, steps
        for passage, part in _episodes(passages, wish):
            games += len(passage.chosen.game_id)
            count += len(part.steps)
            steps += len(part.actions)
            if len(part.steps):
                yield passage, part

    if wish.form == "minari":
        named = ((part, of.chosen.game_id[part.game], of.record.run_id) for of, part in parts())
        about = {"dataset_id": output.name, "description": description(wish)}
        to_minari.write_minari(named, wish.imposed, wish.masks, path, about)
    elif wish.form == "d3rlpy":
        write_d3rlpy((part for _, part in parts()), wish.imposed, wish.masks, path, room)
    else:
        frames = (rows_of(of, part, wish.view(of.record.rules.mover_chooses), wish.imposed) for of, part in parts())
        write_rlds(frames, path, room)
    if not count:
        raise RequestError(f"none of the {games:,} games has a known turn of {wish.perspective}: see --imposed")
    return Done(games, count, steps)


def description(wish: Wish) -> str:
    """What a dataset is, in a sentence, for those who find it without its maker."""
    chosen = f"games where {wish.where}" if wish.where else "all games"
    drawn = f", {wish.sample} of them drawn by seed {wish.seed}" if wish.sample is not None else ""
    return (
        f"Quarto, {chosen} of an archive{drawn}; rewards for {wish.perspective}, at the end only. Observation: the "
        "piece on each of 16 cells, then that in hand, -1 for none. Action: 17 * cell + gift, 16 where there is none."
    )


@contextmanager
def _aside(output: Path, force: bool) -> Iterator[tuple[Path, Path]]:
    """A path to write to, and a folder for what is needed meanwhile; at the end the path becomes ``output``."""
    room = temporary_beside(output)
    try:
        (room / "parts").mkdir(parents=True)
        path = room / output.name
        yield path, room / "parts"
        if force and output.is_dir() and not output.is_symlink():
            output.rename(room / "replaced")
        path.rename(output)
    except OSError as error:
        raise FailureError(f"cannot write {output}: {error.strerror or error}") from error
    finally:
        shutil.rmtree(room, ignore_errors=True)
