"""Exact play: tablebases (files, building, verifying), what they show of the game, and annotating stored decisions."""
