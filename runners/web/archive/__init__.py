"""Contents of an archive as the pages of `qarena serve` show them, and SQL queries from untrusted visitors."""
