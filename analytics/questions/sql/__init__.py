"""SQL over an archive: DuckDB, the views, conditions, limits."""
