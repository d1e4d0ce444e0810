"""The agent that stands for a player written for the ``quarto`` package of the Politecnico di Torino."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from agents.base.agent import AgentLimits
from agents.base.player import check_choosers
from quarto.errors import RequestError, describe_valid_names
from quarto.rules import CLASSIC, Rules
from runners.hosting.polito.player import PolitoPlayer, PolitoSubprocessPool

PACKAGE_FOLDER = Path(__file__).parent
SAMPLE, SAMPLE_PLAYER = PACKAGE_FOLDER / "sample", "players.RandomPlayer"
EXCLUDED_FOLDERS = ("__pycache__", "node_modules", "site-packages")  # folders below a player's that are not its own


class Polito:
    """A player of that package, unmodified, in child processes: ``player``, a class in a module of ``folder``.

    Its games are as by that package's ``run()``. It is made with a game and ``kwargs``; ``choose_piece`` and
    ``place_piece`` are called in the same order. It uses the package that its folder has, else
    ``quarto.objects``. Which lines win is decided by the rules of the run, whatever its own game says.
    """

    choosers = ("opponent",)

    def __init__(  # noqa: PLR0913, PLR0917  (the keys of its yaml)
        self,
        folder: str | None = None,
        player: str | None = None,
        kwargs: Mapping[str, Any] | None = None,
        game: str | None = None,
        game_kwargs: Mapping[str, Any] | None = None,
        python: str | None = None,
        reuse: bool = False,
        most_asks: int = 1000,
        limits: AgentLimits | None = None,
    ) -> None:
        """Raises ``RequestError`` for a folder, a player or a number that is not possible."""
        if folder is None and player is None:
            folder, player = str(SAMPLE), SAMPLE_PLAYER
        path = _resolve_folder(folder, player)
        if player is None or not _is_class_path(player):
            said = "player is missing" if player is None else f"player={player} is not module.Class"
            raise RequestError(
                f"{said}: it is the class that plays{describe_valid_names(str(player), _list_player_classes(path))}"
            )
        if game is not None and not _is_class_path(game):
            raise RequestError(f"game={game} is not module.Class: it is the class of the games that the player plays")
        for key, value in (("kwargs", kwargs), ("game_kwargs", game_kwargs)):
            if not isinstance(value or {}, Mapping):
                raise RequestError(f"{key}={value} is not a mapping such as '{{depth: 2}}'")
        if game is None and game_kwargs:
            raise RequestError(f"game_kwargs={game_kwargs} has no effect: name the class too, game=module.Class")
        if most_asks < 1:
            raise RequestError(f"most_asks={most_asks} is not a number of 1 or more")
        limits = limits or AgentLimits()
        self._setup: dict[str, Any] = {
            "folder": str(path),
            "player": player,
            "kwargs": dict(kwargs or {}),
            "game": game,
            "game_kwargs": dict(game_kwargs or {}),
            "python": None if python is None else _resolve_interpreter(python),
            "reuse": reuse,
            "most_asks": most_asks,
            "turn_seconds": limits.turn_seconds,
            "megabytes": limits.megabytes,
        }
        self._pool: PolitoSubprocessPool | None = None  # for the rules whose lines it has

    @property
    def data_files(self) -> list[Path]:
        """The sources that decide how it plays, and the files below its folder that these name.

        Of other folders, those modules that were imported to make it. Raises ``RequestError`` if it cannot be made.
        """
        folder = Path(self._setup["folder"])
        below = [
            path for path in sorted(folder.rglob("*")) if path.is_file() and _is_own_file(path.relative_to(folder))
        ]
        sources = [path for path in below if path.suffix == ".py"]
        texts = b"\n".join(path.read_bytes() for path in sources)
        named = [path for path in below if path.suffix != ".py" and path.name.encode() in texts]
        imported = [Path(file) for file in self._load_pool(CLASSIC).facts.files]
        own = sorted({*sources, *named})  # in this order wherever the folder lies
        return [*own, *sorted({*imported} - {*own}), *sorted(PACKAGE_FOLDER.glob("*.py"))]

    def build_player(self, rules: Rules, label: str) -> PolitoPlayer:
        """Its player. Raises ``RequestError`` if it cannot be made or does not play the rules."""
        check_choosers(self.choosers, rules, label)
        reserve = self._load_pool(rules)
        reserve.label = label
        return PolitoPlayer(reserve)

    def _load_pool(self, rules: Rules) -> PolitoSubprocessPool:
        setup = {**self._setup, "lines": rules.lines}
        if self._pool is None or self._pool.setup != setup:
            self._pool = PolitoSubprocessPool(setup)
        return self._pool


def _resolve_folder(folder: str | None, player: str | None) -> Path:
    if folder is None:
        raise RequestError(f"folder is missing: player={player} is a class of a module in a folder, folder=DIR")
    path = Path(folder).expanduser().resolve()
    if not path.is_dir():
        raise RequestError(f"folder={folder} is not a folder; it is the one from which the player's own program runs")
    return path


def _is_class_path(text: str) -> bool:
    return "." in text and all(part.isidentifier() for part in text.split("."))


def _resolve_interpreter(python: str) -> str:
    """The path of an interpreter; it stays a link, by which a virtual environment knows itself."""
    path = Path(python).expanduser().absolute()
    if not os.access(path, os.X_OK) or path.is_dir():
        raise RequestError(f"python={python} is no program: name the interpreter that the player needs, ENV/bin/python")
    return str(path)


def _is_own_file(path: Path) -> bool:
    return not any(part.startswith(".") or part in EXCLUDED_FOLDERS for part in path.parts)


def _list_player_classes(folder: Path) -> Iterator[str]:
    """The classes of a folder's modules that have a ``choose_piece``, two levels deep, as ``module.Class``."""
    for path in sorted([*folder.glob("*.py"), *folder.glob("*/*.py")]):
        with suppress(SyntaxError, ValueError, OSError):
            for node in ast.parse(path.read_bytes()).body:
                calls = {getattr(each, "name", "") for each in getattr(node, "body", ())}
                if isinstance(node, ast.ClassDef) and "choose_piece" in calls:
                    yield ".".join((*path.relative_to(folder).with_suffix("").parts, node.name))
