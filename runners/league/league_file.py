"""The file ``league.yaml``: who plays, by which rules, how often, and within which limits."""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Annotated, Any, NamedTuple

import msgspec
import yaml
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from analytics.store.files.backend import parse_location
from analytics.store.records import RecordError, convert_values
from analytics.store.texts import check_texts, to_line
from quarto.errors import RequestError, suggest_valid_names
from quarto.rules import Rules
from runners.config.schemas import MAX_PAIRS, SCHEDULES, OpeningPlies, Seed
from runners.config.yaml_options import build_invalid_yaml_error, load_rules

LEAGUE_FILE = "league.yaml"
ENTRIES_FOLDER = "entries"  # the folder of a league in which own agents are looked up
MAX_FILE_BYTES = 1 << 20
MAX_ENTRIES = 1000
NAME_PATTERN = re.compile(r"[^\W_][\w-]{0,39}")  # of an entry: part of file names and addresses
DURATION_PATTERN = re.compile(r"(\d+(?:\.\d+)?)\s*(s|min|h|d)")
SECONDS_BY_UNIT = {"s": 1, "min": 60, "h": 3600, "d": 86400}
PLANS = SCHEDULES
OPPONENTS = ("all", "anchors")  # that an entry may have
ISOLATIONS = ("sandbox", "process")


class Entry(msgspec.Struct, frozen=True):
    """A player of a league: its name, the agent that it is, whom it meets, and how often."""

    name: str
    settings: Mapping[str, Any]  # ``agent`` and its keys, as in ``agents=[…]`` of ``qarena run``
    meets: str | None = None  # one of ``OPPONENTS``; None: as the plan of the league says
    games: int | None = None  # of each of its matches, in place of the league's


class PlannedMatch(NamedTuple):
    """Two entries that play a match, and the number of its games."""

    first: str
    second: str
    games: int  # at most; even


class LeagueLimits(msgspec.Struct, frozen=True):
    """The limits of players that are not the project's own. None stands for no limit."""

    turn_seconds: Annotated[float, msgspec.Meta(gt=0)] | None = None
    game_seconds: Annotated[float, msgspec.Meta(gt=0)] | None = None
    megabytes: Annotated[int, msgspec.Meta(gt=0)] | None = None  # of each process
    processes: Annotated[int, msgspec.Meta(gt=0)] | None = None  # and threads, in the sandbox of a player

    def to_settings(self) -> dict[str, float]:
        """Return the limits that are set, as keys of an agent."""
        values = msgspec.structs.asdict(self)
        return {key: value for key, value in values.items() if value is not None}


class _LeagueFields(msgspec.Struct):
    """The keys of ``league.yaml``."""

    entries: list[dict[str, Any] | str]
    title: Annotated[str, msgspec.Meta(min_length=1, max_length=200)] = "Quarto league"
    rules: str = "classic"
    seed: Seed = 1
    opening_plies: OpeningPlies = 2
    plan: str = PLANS[0]
    anchors: list[str] = []
    games: Annotated[int, msgspec.Meta(ge=2, le=2 * MAX_PAIRS)] = 100
    budget: str | None = None
    limits: LeagueLimits = LeagueLimits()
    isolation: str = ISOLATIONS[0]
    archive: Annotated[str, msgspec.Meta(min_length=1)] = "archive"
    regret: bool = True


@dataclass(frozen=True)
class League:
    """A league as its file describes it."""

    folder: Path
    text: str  # of the file
    title: str
    rules: Rules
    seed: int
    opening_plies: int
    plan: str  # one of ``PLANS``
    anchors: tuple[str, ...]  # names of entries that every entry meets
    games: int  # of each match, at most; even; an entry may have a number of its own
    budget_seconds: float | None  # for all matches together
    limits: LeagueLimits
    isolation: str  # one of ``ISOLATIONS``
    root: PurePath  # of the archive
    regret: bool  # whether decisions are judged by exact values after playing
    entries: tuple[Entry, ...]

    @property
    def entries_folder(self) -> Path | None:
        """The folder with agents of the league's own, or None if it does not exist."""
        folder = self.folder / ENTRIES_FOLDER
        return folder if folder.is_dir() else None

    def list_planned_matches(self, names: Collection[str]) -> list[PlannedMatch]:
        """List the planned matches, the two names of each sorted, because their order is part of a run's id.

        Everybody meets the anchors. Two other entries meet if both meet all. If both have a number of games of their
        own, the smaller one counts.

        Args:
            names: The names of the entries that can play.

        """
        anchors, restricted = {*self.anchors}, {entry.name for entry in self.list_entries_that_meet_anchors_only()}
        games_by_entry = {entry.name: entry.games for entry in self.entries if entry.games is not None}
        planned = list[PlannedMatch]()
        for pair in itertools.combinations(names, 2):
            if anchors.intersection(pair) or restricted.isdisjoint(pair):
                games = min((games_by_entry[name] for name in pair if name in games_by_entry), default=self.games)
                planned.append(PlannedMatch(min(pair), max(pair), games))
        return planned

    def list_entries_that_meet_anchors_only(self) -> list[Entry]:
        """List the entries that meet nobody but the anchors. No anchor is among them."""
        default = "anchors" if self.plan == "gauntlet" else "all"
        return [
            entry for entry in self.entries if entry.name not in self.anchors and (entry.meets or default) == "anchors"
        ]


def read_league(folder: Path) -> League:
    """Read and check the file of the league in ``folder``.

    Raises ``RequestError`` if there is no such file, or if it is not valid.
    """
    path = folder / LEAGUE_FILE
    text = _read_text(path)
    fields = _parse_fields(path, text)
    entries = tuple(_list_entries(path, fields.entries))
    _check_anchors(path, fields, entries)
    return League(
        folder=folder,
        text=text,
        title=to_line(fields.title),
        rules=_load_rules(path, fields.rules),
        seed=fields.seed,
        opening_plies=fields.opening_plies,
        plan=fields.plan,
        anchors=tuple(fields.anchors),
        games=fields.games,
        budget_seconds=None if fields.budget is None else _parse_duration(path, fields.budget),
        limits=fields.limits,
        isolation=fields.isolation,
        root=_resolve_archive(folder, fields.archive),
        regret=fields.regret,
        entries=entries,
    )


def _parse_fields(path: Path, text: str) -> _LeagueFields:
    """Parse the keys of the file, and check each of them on its own, except the entries."""
    values = _parse_yaml(path, text)
    _check_keys(f"{path}", values, _LeagueFields.__struct_fields__)
    _check_keys(f"{path}: limits", values.get("limits") or {}, LeagueLimits.__struct_fields__)
    try:
        fields = convert_values({key: value for key, value in values.items() if value is not None}, _LeagueFields)
    except RecordError as error:
        raise RequestError(f"{path}: {error}") from error
    _check_choice(path, "plan", fields.plan, PLANS)
    _check_choice(path, "isolation", fields.isolation, ISOLATIONS)
    _check_even(f"{path}", fields.games)
    return fields


def _read_text(path: Path) -> str:
    if not path.is_file():
        raise RequestError(
            f"{path.parent} is no league, because it has no {LEAGUE_FILE}: 'qarena league new DIR' makes one"
        )
    try:
        with path.open("rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
        if len(content) > MAX_FILE_BYTES:
            raise RequestError(f"{path} has more than {MAX_FILE_BYTES:,} bytes: a list of entries needs far fewer")
        return content.decode()
    except UnicodeDecodeError as error:
        raise RequestError(
            f"{path} is not text in UTF-8 ({error.reason} at byte {error.start}): save it as such"
        ) from error
    except OSError as error:
        raise RequestError(f"{path} cannot be read: {error.strerror or error}") from error


def _parse_yaml(path: Path, text: str) -> dict[str, Any]:
    """Parse the text of the file. Aliases are refused, because a few lines of them may stand for a huge value."""
    try:
        if any(isinstance(token, yaml.AliasToken) for token in yaml.scan(text)):
            raise RequestError(f"{path} has an alias (*NAME): write the value itself")
        config = OmegaConf.create(text)
        values = OmegaConf.to_container(config, resolve=False)
        check_texts(values)
    except yaml.YAMLError as error:
        raise build_invalid_yaml_error(str(path), error) from error
    except (ValueError, RecursionError, OmegaConfBaseException) as error:
        raise RequestError(f"{path} is not valid: {to_line(str(error) or type(error).__name__)}") from error
    if not isinstance(values, dict):
        raise RequestError(f"{path} holds no keys: write KEY: VALUE, one a line")
    return {str(key): value for key, value in values.items()}


def _check_keys(subject: str, values: Any, valid_keys: tuple[str, ...]) -> None:
    for key in values if isinstance(values, dict) else ():
        if key not in valid_keys:
            raise RequestError(f"{subject} has no key {key!r:.80}{suggest_valid_names(str(key), valid_keys)}")


def _check_choice(path: Path, key: str, value: str, valid: tuple[str, ...]) -> None:
    if value not in valid:
        raise RequestError(f"{path}: {key}: {value!r:.80} does not exist{suggest_valid_names(value, valid)}")


def _check_even(subject: str, games: int) -> None:
    if games % 2:
        raise RequestError(
            f"{subject}: games: {games} is odd, and games come in pairs with the seats swapped: write {games + 1}"
        )


def _load_rules(path: Path, name: str) -> Rules:
    try:
        return load_rules(name)
    except RequestError as error:
        raise RequestError(f"{path}: {error}") from error


def _resolve_archive(folder: Path, text: str) -> PurePath:
    location = parse_location(text)
    return folder / location if isinstance(location, Path) else location


def _parse_duration(path: Path, text: str) -> float:
    match = DURATION_PATTERN.fullmatch(text.strip())
    if match is None or not float(match[1]):
        raise RequestError(f"{path}: budget: {text!r:.80} is not a time: write a number and s, min, h or d, such as 2h")
    return float(match[1]) * SECONDS_BY_UNIT[match[2]]


def _list_entries(path: Path, items: list[dict[str, Any] | str]) -> Iterator[Entry]:
    """Yield the entries. Raises ``RequestError`` for too few or too many, and for invalid or repeated names."""
    if not 2 <= len(items) <= MAX_ENTRIES:
        raise RequestError(
            f"{path}: entries: a league has 2 to {MAX_ENTRIES:,} entries, and this one has {len(items):,}"
        )
    entries = [_build_entry(path, number, item) for number, item in enumerate(items, 1)]
    counts = Counter(_fold_name(entry.name) for entry in entries)
    for entry in entries:
        if counts[_fold_name(entry.name)] > 1:
            raise RequestError(
                f"{path}: entries: {counts[_fold_name(entry.name)]} entries are named '{entry.name}' (capital letters "
                "do not count): give each a name of its own, name: …"
            )
    yield from entries


def _fold_name(name: str) -> str:
    """Return what names of the same files have in common: some file systems ignore capitals and composed letters."""
    return unicodedata.normalize("NFKC", name).casefold()


def _build_entry(path: Path, number: int, item: dict[str, Any] | str) -> Entry:
    """Build an entry. A text alone names an agent, and is the name of the entry too."""
    settings = {"agent": item} if isinstance(item, str) else {str(key): value for key, value in item.items()}
    name = settings.pop("name", settings.get("agent"))
    meets, games = settings.pop("meets", None), settings.pop("games", None)
    if not isinstance(name, str) or not NAME_PATTERN.fullmatch(name):
        raise RequestError(
            f"{path}: entry {number}: name: {name!r:.80} cannot be the name of an entry: write at most 40 letters, "
            "digits, '_' and '-', of which the first is a letter or a digit"
        )
    if not isinstance(settings.get("agent"), str):
        raise RequestError(
            f"{path}: entry '{name}' names no agent: write agent: polito, agent: engine, or the name of another agent"
        )
    subject = f"{path}: entry '{name}'"
    if meets is not None and meets not in OPPONENTS:
        raise RequestError(f"{subject}: meets: {meets!r:.80} is neither {' nor '.join(OPPONENTS)}")
    if games is not None:
        if type(games) is not int or not 2 <= games <= 2 * MAX_PAIRS:
            raise RequestError(f"{subject}: games: {games!r:.80} is no even number from 2 to {2 * MAX_PAIRS:,}")
        _check_even(subject, games)
    return Entry(name, settings, meets, games)


def _check_anchors(path: Path, fields: _LeagueFields, entries: Collection[Entry]) -> None:
    names, restricted = [entry.name for entry in entries], [entry.name for entry in entries if entry.meets == "anchors"]
    for anchor in fields.anchors:
        if anchor not in names:
            raise RequestError(f"{path}: anchors: {anchor!r:.80} is no entry{suggest_valid_names(anchor, names)}")
        if anchor in restricted:
            raise RequestError(
                f"{path}: entry '{anchor}': meets: anchors is not for an anchor, which all meet: remove it"
            )
    if fields.anchors and fields.plan != "gauntlet" and not restricted:
        raise RequestError(
            f"{path}: anchors have no effect with plan: {fields.plan}: write plan: gauntlet, or meets: anchors for an "
            "entry, or remove them"
        )
    if restricted and not fields.anchors:
        raise RequestError(f"{path}: entry '{restricted[0]}': meets: anchors needs anchors, the names of entries")
    if fields.plan == "gauntlet" and not fields.anchors:
        raise RequestError(f"{path}: plan: gauntlet needs anchors, the names of entries that all others meet")
