"""Figures for a notebook and for reports: functions of an archive and a condition that return Altair's charts.

For each there is a function that returns its data as a frame (``crosstable_frame``, …) and needs no extra.
"""

from __future__ import annotations

from analytics.report.figures.learning import learning_curves
from analytics.report.figures.lengths import game_lengths
from analytics.report.figures.openings import gifts, openings_board
from analytics.report.figures.strength import crosstable, mistakes, ratings

__all__ = ["crosstable", "game_lengths", "gifts", "learning_curves", "mistakes", "openings_board", "ratings"]
