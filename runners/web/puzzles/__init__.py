"""The puzzle pages: the list of puzzles, a puzzle, and positions of games in which one looks for the better turn."""
