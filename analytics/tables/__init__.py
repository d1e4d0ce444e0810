"""The tables of an archive beyond its games: derived, compacted, merged, verified."""
