"""A hostile engine: it attacks in each turn, and then answers."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import attacks  # type: ignore[import-not-found]  # beside it in the folder of the entry

CELLS = [column + row for row in "1234" for column in "abcd"]


def choose_turn(rows: str, hand: str) -> str:
    """Return the first legal turn as a line."""
    board = rows.replace("/", "")
    remaining = [piece for piece in "0123456789ABCDEF" if piece not in board and piece != hand] or ["-"]
    return f"turn {'-' if hand == '-' else CELLS[board.index('.')]} {remaining[0]}"


positions: list[list[str]] = []
for line in sys.stdin:
    command, *words = line.split()
    if command in ("quarto", "rules"):
        print("ready", flush=True)
    elif command == "position":
        positions.append(words)
    elif command == "go":
        for rows, hand, _ in positions:
            attacks.attack(sys.argv[1])
            print(choose_turn(rows, hand), flush=True)
        positions.clear()
    else:
        break
