"""Tables with a file for each range of games: exact values of decisions, positions up to symmetry, evaluations."""
