"""A hostile agent in Python."""

import attacks


class HostileAgent:
    """It attacks in each turn, and then answers."""

    def __init__(self, attack="read_secret"):
        self.attack = attack

    def choose(self, position, rng):
        attacks.attack(self.attack)
        return position.free[0], position.available[0] if position.available else -1
