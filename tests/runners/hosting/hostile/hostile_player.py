"""A hostile player of the package ``quarto``."""

import os
import random

import attacks

from quarto import Player

OWN_PROCESS = os.getpid()  # a fork of it plays the trial game


class HostilePlayer(Player):
    """It attacks whenever it gives a piece, and then answers."""

    def __init__(self, quarto, attack="read_secret"):
        super().__init__(quarto)
        self.attack = attack

    def choose_piece(self):
        if os.getpid() == OWN_PROCESS:
            attacks.attack(self.attack)
        return random.randrange(16)

    def place_piece(self):
        return random.randrange(4), random.randrange(4)
