"""Shared parts of players that learn from games."""
