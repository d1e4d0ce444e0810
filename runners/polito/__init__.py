"""Players written for the ``quarto`` package of the Politecnico di Torino, in processes of their own.

``agent`` and ``player`` are the run's side. ``program`` and what it imports are the side of the process: they need the
standard library and NumPy only, so that it starts quickly and no name of ours hides one of the player's.
"""
