"""The engine protocol of docs/engines.md, for adapters in Python: each passes a function that chooses a turn."""

import random
import sys

CELLS = [column + row for row in "1234" for column in "abcd"]


def serve(choose):
    """Answer positions until the input ends.

    ``choose(board, hand)`` gets 16 pieces or None, a1 first, and the piece to place or None. It returns the number of
    a cell or None, and the piece to give or None.
    """
    output, sys.stdout = sys.stdout, sys.stderr  # what the stranger's code prints is no answer
    positions = []
    for line in sys.stdin:
        word, *words = line.split()
        if word == "position":
            positions.append(words)
        elif word == "go":
            for rows, hand, seed in positions:
                random.seed(int(seed, 16))
                board = [None if digit == "." else int(digit, 16) for digit in rows.replace("/", "")]
                cell, gift = choose(board, None if hand == "-" else int(hand, 16))
                answer = ["-" if cell is None else CELLS[cell], "-" if gift is None else f"{gift:X}"]
                print("turn", *answer, file=output, flush=True)
            positions = []
        elif word == "quit":
            return
        else:  # quarto, rules
            print("ready", file=output, flush=True)
