from agents.base.agent import BatchAgent as BatchAgent
from agents.base.agent import GameAgent as GameAgent
from agents.base.agent import KernelAgent as KernelAgent
from agents.base.agent import Knowledge as Knowledge
from agents.base.agent import turn as turn
from quarto.views import BatchView as BatchView
from quarto.views import Position as Position

__all__ = [
    "BatchAgent",
    "BatchView",
    "GameAgent",
    "KernelAgent",
    "Knowledge",
    "Position",
    "__version__",
    "turn",
]

__version__: str
