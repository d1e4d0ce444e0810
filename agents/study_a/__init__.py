"""Study A's program (``lorenzobellino/quarto-player``) as it runs, shared by the players that follow it."""
