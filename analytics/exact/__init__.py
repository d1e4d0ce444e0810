"""Exact values: tablebases, sets of solved positions, annotations of logged decisions, puzzles, theory."""
