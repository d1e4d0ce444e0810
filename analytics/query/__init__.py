"""Questions to the archive: chosen games as arrays, named queries, openings, mistakes."""
