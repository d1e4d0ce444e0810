"""Export of selected games to the formats of other tools. The file or folder appears only when it is complete."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, BinaryIO, NamedTuple

from analytics.exchange import data_package, formats
from analytics.exchange.episodes import EpisodeOptions, Episodes, build_episodes
from analytics.exchange.export_blocks import NAMED_PERSPECTIVES, ExportBlock, read_export_blocks
from analytics.exchange.formats import ExportTarget
from analytics.questions.selection import select_games
from analytics.questions.sql.database import OpenArchive
from analytics.store.files.local_files import temporary_beside
from analytics.store.marker import check_outside_archives
from analytics.store.texts import format_count_with_noun
from quarto.errors import FailureError, RequestError, suggest_valid_names

DATASET = "dataset"  # the form of a folder of tables
FORMS = (*formats.TABLE_FORMATS, *formats.EPISODE_FORMATS, DATASET)
ROWS = ("plies", "games")

OnWritten = Callable[[int], None]  # called with the number of games written since the last call


@dataclass(frozen=True)
class ExportRequest:
    """A request to export games: which games, in which format, and with which options of the format.

    Options that contradict each other raise ``RequestError``.
    """

    form: str
    where: str | None = None
    perspective: str | None = None  # one of NAMED_PERSPECTIVES; default for csv by plies: mover
    sample: int | None = None
    seed: int = 1
    rows: str = "plies"  # what a row of CSV holds: a ply or a game
    imposed: bool = False  # include imposed turns
    masks: bool = False  # include legal actions
    licence: str = "unknown"  # licence of a dataset, as the Hub names it

    def __post_init__(self) -> None:
        named = (
            ("format", self.form, FORMS),
            ("rows", self.rows, ROWS),
            ("perspective", self.perspective, NAMED_PERSPECTIVES),
        )
        for name, value, valid_names in named:
            if value is not None and value not in valid_names:
                raise RequestError(f"--{name} {value} is not known{suggest_valid_names(value, valid_names)}")
        if self.sample is not None and self.sample < 1:
            raise RequestError(f"--sample {self.sample} is not a number of games: ask for at least 1, or leave it out")
        self._check_form()

    def _check_form(self) -> None:
        """Raise ``RequestError`` if an option that the format needs is missing, or if a given option has no effect.

        Episode formats need a perspective, which says whose rewards they contain. The licence of a dataset must be
        written as the Hugging Face Hub writes names of licences, such as ``cc-by-4.0``.
        """
        if self.form in formats.EPISODE_FORMATS and self.perspective is None:
            raise RequestError(
                f"format {self.form} needs --perspective, which says whose rewards they are: seat_0 or seat_1 "
                "(the turns of that seat; the opponent is part of the environment), first (those of the first agent of "
                "the pairing, in either seat) or mover (all turns, each for its mover)"
            )
        is_text = self.form == "text"
        is_table = self.form in formats.TABLE_FORMATS
        form = f"csv by {self.rows}" if is_table and not is_text else self.form
        unused = {
            "--perspective": self.perspective is not None and form in ("text", "csv by games"),
            "--rows games": self.rows == "games" and (is_text or not is_table),
            "--imposed": self.imposed and is_table,
            "--masks": self.masks and is_table,
            "--license": self.licence != "unknown" and self.form != DATASET,
        }
        if self.form == DATASET:
            if not data_package.LICENCE_NAME.fullmatch(self.licence):
                raise RequestError(
                    f"--license {self.licence!r} is not the name of a licence on the Hub: write one such as cc0-1.0, "
                    "cc-by-4.0 or mit"
                )
            unused |= {
                "--perspective": self.perspective is not None,
                "--sample": self.sample is not None,
                "--imposed": self.imposed,
                "--masks": self.masks,
            }
        for name, is_given in unused.items():
            if is_given:
                raise RequestError(f"{name} has no effect on format {form}: leave it out")


class ExportSummary(NamedTuple):
    """The numbers of games, episodes and steps that were written."""

    games: int
    episodes: int | None = None  # None for text, csv and datasets
    steps: int | None = None


def write_export(
    opened: OpenArchive,
    request: ExportRequest,
    output: Path,
    force: bool = False,
    on_written: OnWritten | None = None,
    minari_metadata: Mapping[str, Any] = MappingProxyType({}),
) -> ExportSummary:
    """Write the selected games to ``output``: a new file or, for the formats ``minari`` and ``dataset``, a new folder.

    With ``force``, an existing export is replaced. ``on_written`` is called with the number of games written since its
    last call; it is never called for the format ``dataset``. ``minari_metadata`` adds to the metadata of a Minari
    dataset, or overrides its usual values.

    Raises ``RequestError`` before anything is written if a path or condition is wrong, or if the requested sample is
    larger than the number of selected games. Also raises it if an episode format is requested and no game has a step.
    Raises ``FailureError`` if a file is damaged or ``output`` cannot be written. After an error, nothing new is left at
    ``output``.
    """
    _check_output(request, output, force)
    if request.form == DATASET:
        chosen = select_games(opened, request.where)
        with _rename_to_output_on_success(output, force) as (path, _):
            path.mkdir()
            data_package.write_dataset(chosen, path, request.licence)
        return ExportSummary(chosen.games)
    games, chunks = _count_and_read_blocks(opened, request, on_written)
    with _rename_to_output_on_success(output, force) as (path, room):
        if request.form in formats.TABLE_FORMATS:
            with path.open("xb") as out:
                _write_table(chunks, request, out)
            return ExportSummary(games)
        metadata = {"dataset_id": output.name, "description": describe_dataset(request), **minari_metadata}
        episodes, steps = _write_episodes(chunks, request, ExportTarget(path, room, metadata))
        if not episodes:
            raise RequestError(
                f"no known turn of {request.perspective} in {format_count_with_noun(games, 'game')}: see --imposed"
            )
        return ExportSummary(games, episodes, steps)


def write_export_to_stream(opened: OpenArchive, request: ExportRequest, out: BinaryIO) -> ExportSummary:
    """Write the selected games to a binary stream as text or CSV. Raises the errors of ``write_export``."""
    if request.form not in formats.TABLE_FORMATS:
        raise RequestError(f"format {request.form} cannot be written to a pipe: name a file with --output")
    games, chunks = _count_and_read_blocks(opened, request, None)
    _write_table(chunks, request, out)
    return ExportSummary(games)


def _check_output(request: ExportRequest, output: Path, force: bool) -> None:
    """Raise ``RequestError`` if the export may not be written to ``output``.

    An existing ``output`` is replaced only with ``force``, and only if it is an export in the same format. For a
    dataset, an empty folder is accepted even without ``force``.
    """
    check_outside_archives(output)
    if not output.parent.is_dir():
        raise RequestError(f"--output {output}: there is no folder {output.parent}; make it, or name another")
    if request.form == "minari":
        formats.check_minari_name_and_library(output.name)
    if not output.exists() and not output.is_symlink():
        return
    is_same = {"minari": formats.has_only_minari_dataset, DATASET: data_package.has_only_exported_dataset}.get(
        request.form
    )
    if request.form == DATASET and output.is_dir() and not any(output.iterdir()):
        return
    if not force:
        raise RequestError(f"--output {output} exists: name another, or replace it with --force")
    same = output.is_file() if is_same is None else output.is_dir() and is_same(output)
    if not same:
        kind = {"minari": "a Minari dataset", DATASET: "an exported dataset alone"}.get(request.form, "a file")
        raise RequestError(f"--output {output} exists and is not {kind}, so --force does not replace it: name another")


def _count_and_read_blocks(
    opened: OpenArchive, request: ExportRequest, on_written: OnWritten | None
) -> tuple[int, Iterator[ExportBlock]]:
    """Return the number of games to export, and an iterator over blocks of these games.

    Errors in the request are raised by this call, not by the iterator. After each block, ``on_written`` is called with
    the block's number of games.
    """
    selection = select_games(opened, request.where)
    if request.sample is not None and request.sample > selection.games:
        raise RequestError(f"--sample {request.sample:,} of {selection.games:,} games: ask for fewer, or leave it out")

    def yield_blocks() -> Iterator[ExportBlock]:
        for chunk in read_export_blocks(selection, request.sample, request.seed):
            yield chunk
            if on_written:
                on_written(len(chunk.range_games.game_id))

    return request.sample or selection.games, yield_blocks()


def _write_table(blocks: Iterable[ExportBlock], request: ExportRequest, out: BinaryIO) -> None:
    """Write games to a binary stream in a table format: text or CSV."""
    out.writelines(formats.TABLE_FORMATS[request.form](blocks, request.rows == "games", request.perspective or "mover"))


def read_episodes(opened: OpenArchive, request: ExportRequest) -> Iterator[tuple[ExportBlock, Episodes]]:
    """Yield blocks of at most ``BLOCK_GAMES`` selected games, each with the episodes of its games.

    Raises the errors of ``write_export``.
    """
    _, blocks = _count_and_read_blocks(opened, request, None)
    return _build_episodes(blocks, request)


def _build_episodes(blocks: Iterable[ExportBlock], request: ExportRequest) -> Iterator[tuple[ExportBlock, Episodes]]:
    for block in blocks:
        seat, rules = block.perspective_seat_or_both(request.perspective or "mover"), block.record.rules
        options = EpisodeOptions(seat, request.imposed, request.masks, rules.mover_chooses)
        yield block, build_episodes(block.range_games.opening, block.range_games.games, options, rules.tables)


class EpisodeCounts(NamedTuple):
    """The numbers of episodes and steps that were written."""

    episodes: int
    steps: int


def _write_episodes(blocks: Iterable[ExportBlock], request: ExportRequest, target: ExportTarget) -> EpisodeCounts:
    """Write games as episodes in the requested format, and return the numbers of episodes and steps."""
    count, steps = 0, 0

    def count_and_yield_nonempty_blocks() -> Iterator[tuple[ExportBlock, Episodes]]:
        nonlocal count, steps
        for block, episodes in _build_episodes(blocks, request):
            count += len(episodes.steps)
            steps += len(episodes.actions)
            if len(episodes.steps):
                yield block, episodes

    formats.EPISODE_FORMATS[request.form](count_and_yield_nonempty_blocks(), target)
    return EpisodeCounts(count, steps)


def describe_dataset(request: ExportRequest) -> str:
    """Describe which games and values a dataset of episodes holds, for the metadata of the dataset."""
    chosen = f"games where {request.where}" if request.where else "all games"
    drawn = f", {request.sample} of them drawn by seed {request.seed}" if request.sample is not None else ""
    return (
        f"Quarto, {chosen} of an archive{drawn}; rewards for {request.perspective}, at the end only. Observation: the "
        "piece on each of 16 cells, then that in hand, -1 for none. Action: 17 * cell + gift, 16 where there is none."
    )


class TemporaryOutput(NamedTuple):
    """The path at which an export is written until it is complete, and a folder for intermediate files."""

    path: Path
    scratch: Path


@contextmanager
def _rename_to_output_on_success(output: Path, force: bool) -> Iterator[TemporaryOutput]:
    """Yield a path to write to and a folder for intermediate files; if all goes well, rename the path to ``output``.

    After an error, ``output`` is unchanged. The intermediate files are removed in any case. Raises ``FailureError`` if
    writing fails.
    """
    room = temporary_beside(output)
    try:
        path, scratch = room / output.name, room / "parts"
        scratch.mkdir(parents=True)
        yield TemporaryOutput(path, scratch)
        if force and output.is_dir() and not output.is_symlink():
            _replace_folder_or_restore(path, output)
        else:
            path.rename(output)
    except OSError as error:
        raise FailureError(f"cannot write {output}: {error.strerror or error}") from error
    finally:
        shutil.rmtree(room, ignore_errors=True)


def _replace_folder_or_restore(new: Path, output: Path) -> None:
    """Replace the folder ``output`` with ``new``.

    If that fails, restore the old folder and raise ``OSError``.
    """
    before = temporary_beside(output)  # not in the room, which is removed whatever happens
    output.rename(before)
    try:
        new.rename(output)
    except BaseException:
        before.rename(output)
        raise
    shutil.rmtree(before, ignore_errors=True)
