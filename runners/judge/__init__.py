"""Judging how close to perfect agents play: which agents, their turns in solved positions, what is shown of them."""
