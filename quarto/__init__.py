"""The game of Quarto: rules, positions, symmetries, randomness, notation. NumPy and numba only, no I/O."""
