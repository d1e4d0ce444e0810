"""Players written for the ``quarto`` package of the Politecnico di Torino, in subprocesses.

``agent`` and ``player`` run in the run's process; ``game_server`` and the modules that it imports run in the
subprocess. The latter need only the standard library of Python 3.7, so that a player may have an old interpreter and a
subprocess starts quickly.
"""
