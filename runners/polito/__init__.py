"""Players written for the ``quarto`` package of the Politecnico di Torino, in child processes.

``agent`` and ``player`` are the run's side. ``program`` and what it imports are the child's side. They need the
standard library and NumPy only, so that a child starts quickly and no name of ours hides one of the player's.
"""
