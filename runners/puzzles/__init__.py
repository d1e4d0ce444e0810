"""Puzzles: making them from annotated games, and setting them to people."""
