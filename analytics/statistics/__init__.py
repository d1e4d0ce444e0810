"""Pure functions of counts: tallies, intervals, Davidson's model, the sequential test. No files."""
