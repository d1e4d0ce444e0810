"""A player's folder as students have it: ``players.py`` has the player of the agent ``polito`` by default."""
