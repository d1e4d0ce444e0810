"""What the pages of `qarena serve` show of an archive, and questions in SQL from strangers."""
