"""Players written for the ``quarto`` package of the Politecnico di Torino, in child processes.

``agent`` and ``player`` are the run's side. ``game_server`` and what it imports are the child's side. They need the
standard library of Python 3.7 only, so that a player may have an old interpreter, and a child starts quickly.
"""
