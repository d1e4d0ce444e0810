"""The folder of a player as students have it: ``players.py``, which the agent ``polito`` plays by default."""
