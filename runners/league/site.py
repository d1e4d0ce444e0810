"""``qarena league page``: a static site, without network and without scripts, with the results of a league."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import NamedTuple
from urllib.parse import quote

import polars as pl

from analytics.questions.columns import (
    MAX_OPPONENTS,
    Cell,
    Table,
    format_seconds,
    property_columns,
    text_column,
)
from analytics.questions.pairings import pairings_frame
from analytics.questions.strength_tables import describe_omissions
from analytics.report.frame_formats import write_rows
from analytics.report.rendering import render_template
from analytics.report.result import to_sentence
from analytics.report.sections.strength import CROSSTABLE_COLOURS, build_opponent_columns, build_standing_columns
from analytics.store.marker import check_outside_archives
from analytics.store.texts import format_count_with_noun
from quarto.errors import FailureError, RequestError
from runners.arena.code_fingerprints import project_version
from runners.league.league_file import League
from runners.league.player_page import PlayerGames, render_player_page
from runners.league.standings import (
    LeagueResults,
    build_standings_table,
    describe_league,
    list_entry_remarks,
    list_notes,
)
from runners.terminal.files import replace_file, write_file

MANIFEST = "data/files.txt"  # the files of a site, so that the next site can replace them
SUBFOLDERS, ENDINGS = ("players", "data"), (".html", ".csv", ".parquet")
DATA_FORMATS = {"csv": "spreadsheet", "parquet": "parquet"}  # formats by the ending of a file's name


class SiteTable(NamedTuple):
    """A table of the site's data, in several formats."""

    name: str
    text: str  # what it has

    def path(self, ending: str) -> str:
        """Return the path of the file with this ending, from the folder of the site."""
        return f"data/{self.name}.{ending}"


SITE_TABLES = (
    SiteTable("standings", "standings, a row for each entry"),
    SiteTable("matches", "matches, a row for each two entries"),
    SiteTable("games", "games, a row for each game"),
)


class Remark(NamedTuple):
    """What readers should know about an entry."""

    name: str
    link: str
    text: str


def write_site(results: LeagueResults, folder: Path) -> list[Path]:
    """Write the site of a league into ``folder``, which must be new, empty, or an earlier site.

    Files of an earlier site that the new one lacks are removed.

    Returns:
        The paths of all files of the site.

    Raises:
        RequestError: The folder has other files, or lies in an archive.
        FailureError: A file cannot be written.

    """
    old_names = check_site_folder(folder)
    names = dict[str, None]()
    try:
        for subfolder in SUBFOLDERS:
            (folder / subfolder).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FailureError(f"{error.filename or folder} cannot be written: {error.strerror or error}") from error
    for name, page in _render_pages(results):
        write_file(folder / name, page.encode())
        names[name] = None
    for file, rows in zip(SITE_TABLES, _select_data(results), strict=True):
        for ending, form in DATA_FORMATS.items():
            name = file.path(ending)
            with replace_file(folder / name) as temporary, temporary.open("wb") as out:
                write_rows(form, rows, lambda: None, out)
            names[name] = None
    write_file(folder / MANIFEST, "".join(f"{name}\n" for name in names).encode())
    _remove_files(folder, set(old_names) - names.keys())
    return [folder / name for name in names]


def check_site_folder(folder: Path) -> list[str]:
    """Return the names of the files of the site that is in ``folder`` already, if any.

    Raises ``RequestError`` if the folder has files but no site, or lies in an archive.
    """
    check_outside_archives(folder)
    if not folder.exists():
        return []
    if not folder.is_dir():
        raise RequestError(f"--output {folder} is a file: name a folder for the site")
    manifest = folder / MANIFEST
    if manifest.is_file():
        return manifest.read_text(encoding="utf-8", errors="replace").splitlines()
    if any(folder.iterdir()):
        raise RequestError(f"--output {folder} has files that are no site of a league: name a new folder")
    return []


def _remove_files(folder: Path, names: Iterable[str]) -> None:
    """Remove files of an earlier site. Names that this program cannot have written are ignored."""
    for name in names:
        path = PurePosixPath(name)
        if len(path.parts) == 2 and path.parts[0] in SUBFOLDERS and path.suffix in ENDINGS:
            (folder / path).unlink(missing_ok=True)


def _render_pages(results: LeagueResults) -> Iterator[tuple[str, str]]:
    """Yield the name and the content of each page."""
    games = PlayerGames(results) if results.has_games else None
    yield "index.html", _render_index(results)
    for entry in results.league.entries:
        yield f"players/{entry.name}.html", render_player_page(results, games, entry.name)


def _render_index(results: LeagueResults) -> str:
    league = results.league
    links = {entry.name: f"players/{quote(entry.name)}.html" for entry in league.entries}
    return render_template(
        "league.html",
        title=league.title,
        summary=describe_league(results),
        standings=build_standings_table(results.standings, "Best first", links),
        notes=list(map(to_sentence, list_notes(results))),
        remarks=[Remark(name, links[name], text) for name, text in list_entry_remarks(results).items()],
        crosstable=_build_crosstable_table(results, links) if results.has_games else None,
        settings=Table("Settings", property_columns(_describe_settings(results))),
        league_file=league.text,
        files=SITE_TABLES,
    )


def _build_crosstable_table(results: LeagueResults, links: Mapping[str, str]) -> Table:
    """Build the table of the scores of all entries against each of the best."""
    frame = results.crosstable.to_frame(MAX_OPPONENTS)
    agents = [Cell(name, prefix=f"{place} ", link=links[name]) for place, name in enumerate(frame["agent"], 1)]
    # The standings have the rest. On a telephone the opponents come into view first.
    score, win, draw, loss, *_ = build_standing_columns(frame)
    opponents = build_opponent_columns(frame, results.data.results_summed_over_runs)
    columns = [text_column("entry", agents), score, *opponents, win, draw, loss]
    legend = " ".join(
        [CROSSTABLE_COLOURS, *map(to_sentence, describe_omissions(frame.height, "entries", frame.height))]
    )
    return Table("Scores against each other, in %; a draw counts half", columns, legend=legend)


def _describe_settings(results: LeagueResults) -> dict[str, str]:
    """Describe how the league was played: the settings, the versions of the program, and when."""
    league, records = results.league, results.data.records.values()
    games = sorted(results.data.selection.counts)
    limits = ", ".join(f"{key} {value:g}" for key, value in league.limits.to_settings().items())
    days = sorted({record.created[:10] for record in records})
    versions = sorted(
        {f"{record.code.get('version', '?')}, Python {record.code.get('python', '?')}" for record in records}
    )
    return {
        "rules": league.rules.name,
        "seed": f"{league.seed}",
        "imposed plies": f"{league.opening_plies}",
        "plan": _describe_plan(league),
        "games of a match": "none yet" if not games else "–".join(f"{n:,}" for n in sorted({games[0], games[-1]})),  # noqa: RUF001
        "limits": f"{limits}; none for agents of this program" if limits else "none",
        "played": " to ".join(sorted({days[0], days[-1]})) if days else "not yet",
        "seconds of play": format_seconds(sum(record.seconds for record in records)),
        "versions": "; ".join(f"qarena {version}" for version in versions) or f"qarena {project_version()}",
    }


def _describe_plan(league: League) -> str:
    """Describe who met whom."""
    restricted, anchors = len(league.list_entries_that_meet_anchors_only()), ", ".join(league.anchors)
    if league.plan == "gauntlet" and restricted == len(league.entries) - len(league.anchors):
        return f"gauntlet against {anchors}"
    entries = format_count_with_noun(restricted, "entry meets", "entries meet")
    return league.plan.replace("_", " ") + (f"; {entries} only {anchors}" if restricted else "")


def _select_data(results: LeagueResults) -> Iterator[pl.LazyFrame]:
    """Yield the rows of each of ``SITE_TABLES``."""
    yield results.standings.lazy()
    runs = pl.DataFrame(
        [(note.first, note.second, note.run_id) for note in results.match_notes],
        dict.fromkeys(("first", "second", "run_id"), pl.String()),
        orient="row",
    )
    matches = pairings_frame(results.data.results_summed_over_runs if results.has_games else [])
    yield matches.join(runs, on=("first", "second"), how="left", maintain_order="left").lazy()
    yield results.data.opened.scan("games").filter(pl.col("run_id").is_in([*results.data.records]))
