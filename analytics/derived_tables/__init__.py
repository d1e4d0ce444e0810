"""Tables derived from the shards of an archive: exact values of decisions, positions up to symmetry."""
