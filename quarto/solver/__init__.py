"""Perfect play: exact values and distances of positions. Python calls ``solver.py``."""
