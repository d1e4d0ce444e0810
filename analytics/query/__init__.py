"""Questions to the archive: DuckDB, views, conditions, chosen games as arrays, named queries, openings, mistakes."""
