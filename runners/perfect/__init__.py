"""Solve, annotate."""
