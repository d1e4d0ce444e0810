"""Serve pages for playing, analysing, browsing and SQL queries: the package behind `qarena serve`."""
