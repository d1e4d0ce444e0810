"""The page that answers questions in SQL."""
