"""Figures for a notebook and for reports: functions of an archive and a condition that return Altair's charts.

Beneath each is a function that returns its frame (``crosstable_frame``, …) and needs no extra.
"""

from __future__ import annotations

from analytics.figures.learning import learning_curve
from analytics.figures.lengths import game_lengths
from analytics.figures.openings import gifts, openings_board
from analytics.figures.regret import mistakes
from analytics.figures.strength import crosstable, ratings

__all__ = ["crosstable", "game_lengths", "gifts", "learning_curve", "mistakes", "openings_board", "ratings"]
