from quarto.game import Game as Game
from quarto.objects import Piece as Piece
from quarto.objects import Player as Player
from quarto.objects import Quarto as Quarto
from quarto.objects import abstractmethod as abstractmethod
from quarto.objects import copy as copy
from quarto.objects import np as np
from quarto.rules import CLASSIC as CLASSIC
from quarto.rules import Rules as Rules
from quarto.solver.solution import Solution as Solution
from quarto.solver.solution import SolvedTurn as SolvedTurn
from quarto.solver.solver import Solver as Solver
from quarto.solver.solver import solve as solve
from quarto.views import Position as Position

__all__ = ["Piece", "Player", "Quarto", "abstractmethod", "copy", "np"]

__version__: str
