"""Questions to the archive: SQL, selections of games, results, ratings, openings, mistakes."""
