"""The results of the pairings of a run, from its tallies."""
