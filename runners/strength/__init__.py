"""Tables of ratings, and the sequential test of strength."""
