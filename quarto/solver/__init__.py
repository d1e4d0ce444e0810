"""Perfect play: exact values and distances of positions. ``solver.py`` is what Python calls."""
