"""Pages that show the exact value of every decision in a position or a game."""
