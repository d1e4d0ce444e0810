"""Exact play: solve positions, annotate games, show mistakes."""
