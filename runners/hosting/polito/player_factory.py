"""The player's class, and the ``quarto`` package that it was written with, from the player's folder."""

from __future__ import annotations

import copy
import importlib
import importlib.machinery
import inspect
import os
import re
import sys
import sysconfig
import types
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from quarto.errors import RequestError, format_error_with_location, suggest_valid_names

ROOT = str(Path(__file__).parents[3])
OUR_PACKAGES = ("quarto", "runners")  # this project's packages, of which this process has imported modules
PACKAGE_NAMES = ("quarto", "agents", "analytics", "runners", "conf")  # names of this project's packages
GAME_METHODS = ("select", "place", "set_players")  # methods of a game that a run calls
# The attribute of a game with the current player, in versions of the package.
CURRENT_PLAYER_ATTRIBUTES = ("_current_player", "_Quarto__current_player", "current_player")


class PlayerFactory:
    """A factory that builds players of one class, each with a game."""

    def __init__(
        self, player_class: type[Any], objects_module: Any, game: type[Any] | None, setup: Mapping[str, Any]
    ) -> None:
        """Initialise the factory, and find out how the games name the current player.

        Args:
            player_class: Class of the player.
            objects_module: Module with ``Quarto`` and ``Player``.
            game: Class of the player's games; None means ``Quarto``.
            setup: The agent's parameters, see ``agent.Polito``.

        """
        self._player = player_class
        self._objects = objects_module
        self._game: type[Any] = game or objects_module.Quarto
        self._setup = setup
        # Found once, because inspecting a signature takes longer than a quick player's turns in a game.
        self._game_parameter = _find_game_parameter_unless_first(player_class, setup["kwargs"])
        game = self._build_game()
        self.current_player_attribute = next(
            (name for name in CURRENT_PLAYER_ATTRIBUTES if hasattr(game, name)), CURRENT_PLAYER_ATTRIBUTES[0]
        )

    def build_game_and_player(self, seat: int) -> tuple[Any, Any]:
        """Build a new game and the player in this seat. Raises what the player's constructor raises."""
        game, kwargs, name = self._build_game(), copy.deepcopy(self._setup["kwargs"]), self._game_parameter
        player = self._player(game, **kwargs) if name is None else self._player(**{**kwargs, name: game})
        self.seat_player(game, player, seat)
        return game, player

    def _build_game(self) -> Any:
        return self._game(**copy.deepcopy(self._setup["game_kwargs"]))

    def describe_missing_library_or_attribute(self, error: BaseException) -> str:
        """Return advice if ``error`` says that a library or a Python attribute of the game is missing, else "".

        The advice is worded to be appended to a message.
        """
        return (
            _describe_missing_library(error, self._setup)
            if isinstance(error, ModuleNotFoundError)
            else self.describe_missing_game_attribute(error)
        )

    def describe_missing_game_attribute(self, error: BaseException) -> str:
        """Return advice if ``error`` says that the game object lacks a Python attribute, else "".

        The advice is worded to be appended to a message.
        """
        match = re.match(r"'(\w+)' object has no attribute '(\w+)'", str(error))
        if not (isinstance(error, AttributeError) and match and match.group(1) == self._game.__name__):
            return ""
        other_classes = [
            (not hasattr(value, match.group(2)), f"{module.__name__}.{name}")
            for module in list_player_modules()
            for name, value in vars(module).items()
            if value is not self._game and _defines_class(module, value, GAME_METHODS)
        ]
        example = f", such as game={min(other_classes)[1]}" if other_classes else ""
        return (
            f"; its games are of the class {self._game.__module__}.{self._game.__name__}: if the player's own program "
            f"makes games of another class, name it, game=module.Class{example}"
        )

    def seat_player(self, game: Any, player: Any, seat: int) -> None:
        """Tell a game who its players are: ``player``, and an opponent that is never called.

        The opponent is an instance of the package's own class ``Player``. It is a copy of ``player`` instead if
        ``Player`` cannot be built from a game alone, or if the game uses a Python attribute of its players that only
        ``player`` has.
        """
        try:
            opponent = self._objects.Player(game)
        except Exception:  # noqa: BLE001  (a folder's own package may raise anything)
            opponent = copy.copy(player)
        try:
            self._set_players(game, player, opponent, seat)
        except AttributeError:
            self._set_players(game, player, copy.copy(player), seat)

    @staticmethod
    def _set_players(game: Any, player: Any, opponent: Any, seat: int) -> None:
        game.set_players((opponent, player) if seat else (player, opponent))


def simulate_main_in_folder(folder: str) -> None:
    """Set up this process as if the ``main.py`` of a folder were running.

    This sets the working directory, the module path, the arguments and ``__main__``. This project's modules are removed
    from ``sys.modules``, so that the player can import modules of its own that have the same names.
    """
    for name in [name for name in sys.modules if name.partition(".")[0] in OUR_PACKAGES]:
        del sys.modules[name]
    os.chdir(folder)
    sys.path.insert(0, folder)
    sys.meta_path.insert(0, _FolderFinder(folder, PACKAGE_NAMES))
    sys.meta_path.append(_FolderFinder(ROOT, ("quarto",)))
    sys.argv = [str(Path(folder, "main.py"))]
    sys.modules["__main__"] = _MainModule("__main__")


class _FolderFinder:
    """A finder of packages with given names in a folder, which may be subfolders without an ``__init__.py``.

    Without this finder, Python would not choose such a subfolder if a package of the same name with an ``__init__.py``
    were anywhere on its path.
    """

    def __init__(self, folder: str, names: Sequence[str]) -> None:
        self._folder = folder
        self._names = names

    def find_spec(self, name: str, *_: Any) -> importlib.machinery.ModuleSpec | None:
        return importlib.machinery.PathFinder.find_spec(name, [self._folder]) if name in self._names else None


class _MainModule(types.ModuleType):
    """A stand-in for the ``main.py`` of the folder, which looks up missing names in the folder's other modules.

    A player may have pickled objects under such names when its program ran as ``main.py``.
    """

    def __getattr__(self, name: str) -> Any:
        for module in list_player_modules():
            if name in vars(module):
                return vars(module)[name]
        raise AttributeError(f"module '__main__' has no attribute {name!r}")


def _defines_class(module: types.ModuleType, value: Any, method_names: Sequence[str]) -> bool:
    """Return whether a value is a class that a module itself defines and that has the given methods."""
    is_own = isinstance(value, type) and value.__module__ == module.__name__
    return is_own and all(callable(getattr(value, method_name, None)) for method_name in method_names)


def load_player_factory(setup: Mapping[str, Any]) -> PlayerFactory:
    """Load a player's class and the class of its games from the folder that ``simulate_main_in_folder`` set up.

    ``setup`` holds the parameters of ``agent.Polito``. Raises ``RequestError`` for a class that does not exist, and for
    arguments that a class does not take.
    """
    player_class = _load_named_class_with_methods(setup, "player", ("choose_piece", "place_piece"))
    name = _find_game_parameter_unless_first(player_class, setup["kwargs"])
    if name is None:
        _check_kwargs(player_class, "kwargs", setup["player"], setup["kwargs"], "quarto")
    else:
        _check_kwargs(player_class, "kwargs", setup["player"], setup["kwargs"], **{name: "quarto"})
    game_class = None
    if setup["game"] is not None:
        game_class = _load_named_class_with_methods(setup, "game", GAME_METHODS)
        _check_kwargs(game_class, "game_kwargs", setup["game"], setup["game_kwargs"])
    return PlayerFactory(player_class, _find_game_module_or_package(player_class), game_class, setup)


def _load_named_class_with_methods(setup: Mapping[str, Any], key: str, method_names: Sequence[str]) -> type[Any]:
    """Load the class that ``setup`` names as ``module.Class`` under ``key``.

    Raises ``RequestError`` if there is no such class or if it lacks one of the methods.
    """
    path: str = setup[key]
    module_name, _, class_name = path.rpartition(".")
    module = _import_module(setup, f"{key}={path}", module_name)
    loaded_class = getattr(module, class_name, None)
    if not isinstance(loaded_class, type):
        class_paths = [
            f"{module_name}.{name}" for name, value in vars(module).items() if hasattr(value, method_names[0])
        ]
        class_paths += [
            f"{m.__name__}.{class_name}"
            for m in list_player_modules()
            if _defines_class(m, vars(m).get(class_name), method_names)
        ]
        raise RequestError(
            f"{key}={path}: module '{module_name}' has no class {class_name!r}{suggest_valid_names(path, class_paths)}"
        )
    for method_name in method_names:
        if not callable(getattr(loaded_class, method_name, None)):
            raise RequestError(f"{key}={path}: the class has no method {method_name}()")
    return loaded_class


def _import_module(setup: Mapping[str, Any], subject: str, name: str) -> types.ModuleType:
    folder = setup["folder"]
    try:
        return importlib.import_module(name)
    except BaseException as error:  # a module may raise anything while it is imported
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        if missing and (name == missing or name.startswith(f"{missing}.")):
            hint = suggest_valid_names(name, _list_modules(folder))
            raise RequestError(f"{subject}: {folder} has no module {name!r}{hint}") from error
        remedy = _describe_missing_library(error, setup) if isinstance(error, ModuleNotFoundError) else ""
        raise RequestError(
            f"{subject}: module {name!r} cannot be imported: {format_error_with_location(error)}{remedy}"
        ) from error


def _describe_missing_library(error: ModuleNotFoundError, setup: Mapping[str, Any]) -> str:
    library = str(error.name).partition(".")[0]
    if setup["python"]:
        return f"; install {library} for python={setup['python']}"
    return f"; install {library} beside quarto-arena, or name an environment that has it: python=ENV/bin/python"


def _list_modules(folder: str) -> list[str]:
    """Return the names of the modules in a folder, two levels deep."""
    files = [path.relative_to(folder) for pattern in ("*.py", "*/*.py") for path in Path(folder).glob(pattern)]
    return [".".join(path.with_suffix("").parts) for path in files if path.name != "__init__.py"]


def _find_game_module_or_package(player: type[Any]) -> Any:
    """Return the module that has ``Quarto`` and ``Player``.

    This is the module of the player's base class ``Player`` if it has ``Quarto`` too, otherwise the package ``quarto``
    or its module ``quarto.objects``.
    """
    for base in player.__mro__[1:]:
        module = sys.modules.get(base.__module__)
        if base.__name__ == "Player" and hasattr(module, "Quarto"):
            return module
    package = importlib.import_module("quarto")
    return package if hasattr(package, "Quarto") else importlib.import_module("quarto.objects")


def _check_kwargs(
    constructor: type[Any], key: str, name: str, kwargs: Mapping[str, Any], *positional: str, **keywords: str
) -> None:
    try:
        signature = inspect.signature(constructor)
    except ValueError:  # the class is not written in Python
        return
    try:
        signature.bind(*positional, **{**kwargs, **keywords})
    except TypeError as error:
        game = "a game and " if positional or keywords else ""
        raise RequestError(f"{key}={dict(kwargs)}: {name}{signature} is called with {game}these: {error}") from error


def _find_game_parameter_unless_first(player: type[Any], kwargs: Mapping[str, Any]) -> str | None:
    """Return the name of the constructor's parameter that takes the game: the first one that is not in ``kwargs``.

    Returns None if this is the constructor's very first parameter. The game is then passed as a positional argument,
    because the name of that parameter may be unknown or may not work as a keyword.
    """
    try:
        parameters = [*inspect.signature(player).parameters.values()]
    except ValueError:  # the class is not written in Python
        return None
    if not parameters or parameters[0].name not in kwargs:
        return None
    named_kinds = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY
    return next((p.name for p in parameters if p.kind in named_kinds and p.name not in kwargs), None)


def list_player_modules() -> Iterator[types.ModuleType]:
    """Yield the imported modules that belong to the player.

    These modules are not installed, and belong neither to the standard library nor to this project.
    """
    paths = sysconfig.get_paths()
    library_folders = tuple(paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib"))
    for module in list(sys.modules.values()):
        file = vars(module).get("__file__")
        if isinstance(file, str) and not file.startswith(
            (*library_folders, *(f"{ROOT}/{name}/" for name in OUR_PACKAGES))
        ):
            yield module
