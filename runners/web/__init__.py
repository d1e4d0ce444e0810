"""`qarena serve`: pages for playing, analysing, browsing and asking, made on this machine and shown in a browser."""
