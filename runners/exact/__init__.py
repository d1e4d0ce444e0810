"""Exact play at work: solving, annotating, judging agents, making and solving puzzles."""
