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
from quarto.errors import RequestError, suggest_valid_names
from quarto.rules import CLASSIC, Rules
from runners.hosting.polito.player import PolitoPlayer, PolitoSubprocessPool

PACKAGE_FOLDER = Path(__file__).parent
SAMPLE, SAMPLE_PLAYER = PACKAGE_FOLDER / "sample", "players.RandomPlayer"
EXCLUDED_FOLDERS = ("__pycache__", "node_modules", "site-packages")  # their files are not the player's own


class Polito:
    """A player written for the ``quarto`` package of the Politecnico di Torino, run unmodified in subprocesses.

    Games proceed as in that package's ``run()``: the player is built with a game and ``kwargs``, and ``choose_piece``
    and ``place_piece`` are called in the same order. The player uses the ``quarto`` package in its folder or, if there
    is none, this project's ``quarto.objects``. The rules of the run decide which lines win, even if the player's own
    game object decides otherwise.

    Args:
        folder: Folder from which the player's own program runs.
        player: The player's class in a module of the folder, ``module.Class``.
        kwargs: Further arguments of the player's constructor.
        game: Class of the player's games, ``module.Class``, if it is not the package's.
        game_kwargs: Arguments of that class.
        python: Interpreter that runs the player; None means the interpreter that runs this project.
        reuse: Whether a single instance of the player plays all games, one after the other.
        most_asks: Number of illegal answers in a row after which a game is given up.
        limits: Limits of the subprocesses.

    Raises:
        RequestError: A folder, a player or a number is invalid.

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
        if folder is None and player is None:
            folder, player = str(SAMPLE), SAMPLE_PLAYER
        path = _require_and_resolve_folder(folder, player)
        if player is None or not _is_class_path(player):
            fault = "player is missing" if player is None else f"player={player} is not module.Class"
            raise RequestError(
                f"{fault}: it is the class that plays{suggest_valid_names(str(player), _list_player_classes(path))}"
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
            "python": None if python is None else _resolve_interpreter_path(python),
            "reuse": reuse,
            "most_asks": most_asks,
            "turn_seconds": limits.turn_seconds,
            "megabytes": limits.memory_megabytes,
        }
        self._limits = limits
        self._pool: PolitoSubprocessPool | None = None  # of the rules that were used last

    @property
    def data_files(self) -> list[Path]:
        """The files on which the player's turns depend.

        These are the Python sources in the player's folder, other files in that folder whose names occur in the
        sources, the modules from elsewhere that were imported to build the player, and this package's own modules.
        Raises ``RequestError`` if the player cannot be built.
        """
        folder = Path(self._setup["folder"])
        folder_files = [
            path
            for path in sorted(folder.rglob("*"))
            if path.is_file() and _is_outside_excluded_folders(path.relative_to(folder))
        ]
        sources = [path for path in folder_files if path.suffix == ".py"]
        texts = b"\n".join(path.read_bytes() for path in sources)
        named_files = [path for path in folder_files if path.suffix != ".py" and path.name.encode() in texts]
        # Only files, because a player in a sandbox may name a device that never ends.
        imported = [path for path in map(Path, self._load_pool(CLASSIC).facts.files) if path.is_file()]
        own_files = sorted({*sources, *named_files})  # sorted alike wherever the folder lies
        return [*own_files, *sorted({*imported} - {*own_files}), *sorted(PACKAGE_FOLDER.glob("*.py"))]

    def build_player(self, rules: Rules, label: str) -> PolitoPlayer:
        """Build the batch player.

        Raises ``RequestError`` if the player cannot be built or cannot play by these rules.
        """
        check_choosers(self.choosers, rules, label)
        pool = self._load_pool(rules)
        pool.label = label
        return PolitoPlayer(pool)

    def _load_pool(self, rules: Rules) -> PolitoSubprocessPool:
        setup = {**self._setup, "lines": rules.lines}
        if self._pool is None or self._pool.setup != setup:
            self._pool = PolitoSubprocessPool(setup, self._limits)
        return self._pool


def _require_and_resolve_folder(folder: str | None, player: str | None) -> Path:
    if folder is None:
        raise RequestError(f"folder is missing: player={player} is a class of a module in a folder, folder=DIR")
    path = Path(folder).expanduser().resolve()
    if not path.is_dir():
        raise RequestError(f"folder={folder} is not a folder; it is the one from which the player's own program runs")
    return path


def _is_class_path(text: str) -> bool:
    return "." in text and all(part.isidentifier() for part in text.split("."))


def _resolve_interpreter_path(executable: str) -> str:
    """Return the absolute path of an interpreter. Raises ``RequestError`` if it cannot be executed.

    Symbolic links are kept, because a virtual environment is recognised by its link.
    """
    path = Path(executable).expanduser().absolute()
    if not os.access(path, os.X_OK) or path.is_dir():
        raise RequestError(
            f"python={executable} is no program: name the interpreter that the player needs, ENV/bin/python"
        )
    return str(path)


def _is_outside_excluded_folders(path: Path) -> bool:
    return not any(part.startswith(".") or part in EXCLUDED_FOLDERS for part in path.parts)


def _list_player_classes(folder: Path) -> Iterator[str]:
    """Yield the path ``module.Class`` of each class in a folder's modules that has a method ``choose_piece``.

    Modules in the folder itself and in its direct subfolders are searched.
    """
    for path in sorted([*folder.glob("*.py"), *folder.glob("*/*.py")]):
        with suppress(SyntaxError, ValueError, OSError):
            for node in ast.parse(path.read_bytes()).body:
                method_names = {getattr(member, "name", "") for member in getattr(node, "body", ())}
                if isinstance(node, ast.ClassDef) and "choose_piece" in method_names:
                    yield ".".join((*path.relative_to(folder).with_suffix("").parts, node.name))
