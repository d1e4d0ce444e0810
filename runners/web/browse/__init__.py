"""Pages that show what is in the archive."""
