"""The contents of an archive for the pages of `qarena serve`, and questions in SQL from strangers."""
