"""An engine in plain Python: it wins if it can, else gives a piece that cannot win at once, else any piece.

qarena run engine random a.command='python3 runners/hosting/engines/examples/careful.py' games=1000
"""

DIGITS = "0123456789ABCDEF"
CELLS = [column + row for row in "1234" for column in "abcd"]


def parse_cells(line: str) -> list[int]:
    """Return the numbers of the cells in a word such as a1b1c1d1."""
    return [CELLS.index(line[start : start + 2]) for start in range(0, 8, 2)]


def finishes_line(board: dict[int, int], lines: list[list[int]], piece: int, cell: int) -> bool:
    """Return whether ``piece`` would finish one of ``lines`` if it were placed on ``cell``.

    A line is finished if its four pieces all have the same bit set, or the same bit clear. ``board`` maps occupied
    cells to their pieces.
    """
    for line in lines:
        pieces = [board[line_cell] for line_cell in line if line_cell in board]
        if cell in line and len(pieces) == 3:
            set_in_all, set_in_any = piece, piece
            for other in pieces:
                set_in_all, set_in_any = set_in_all & other, set_in_any | other
            if set_in_all or set_in_any != 15:
                return True
    return False


class SeededRandom:
    """A generator of random numbers that depend only on the seed of a position (xorshift)."""

    def __init__(self, seed: int) -> None:
        self.state = seed or 1

    def choose(self, choices: list[int]) -> int:
        self.state ^= self.state << 13 & 0xFFFFFFFFFFFFFFFF
        self.state ^= self.state >> 7
        self.state ^= self.state << 17 & 0xFFFFFFFFFFFFFFFF
        return choices[self.state % len(choices)]


def can_win(board: dict[int, int], lines: list[list[int]], piece: int) -> bool:
    """Return whether a piece finishes a line on any empty cell."""
    return any(finishes_line(board, lines, piece, cell) for cell in range(16) if cell not in board)


def choose_gift(board: dict[int, int], lines: list[list[int]], remaining: list[int], generator: SeededRandom) -> int:
    """Choose a piece for the opponent: a safe piece if there is one, or else any remaining piece."""
    safe = [piece for piece in remaining if not can_win(board, lines, piece)]
    return generator.choose(safe or remaining)


def choose_turn(position: str, lines: list[list[int]], mover_chooses: bool) -> str:
    """Choose a turn for ``position``, and return it as a line of the protocol, such as ``turn b1 A``.

    ``position`` has the form ``ROWS HAND SEED``. ``mover_chooses`` says that the rules let the mover choose the piece.
    """
    rows, hand, seed = position.split()
    board = {cell: DIGITS.index(digit) for cell, digit in enumerate(rows.replace("/", "")) if digit != "."}
    free = [cell for cell in range(16) if cell not in board]
    remaining = [piece for piece in range(16) if piece not in board.values() and DIGITS[piece] != hand]
    generator = SeededRandom(int(seed, 16))
    if hand == "-" and not mover_chooses:
        return f"turn - {DIGITS[choose_gift(board, lines, remaining, generator)]}"
    hands = remaining if hand == "-" else [DIGITS.index(hand)]
    winning = [(piece, cell) for piece in hands for cell in free if finishes_line(board, lines, piece, cell)]
    piece, cell = winning[0] if winning else (generator.choose(hands), generator.choose(free))
    if mover_chooses:
        return f"turn {CELLS[cell]} {DIGITS[piece]}"
    board[cell] = piece
    return f"turn {CELLS[cell]} {DIGITS[choose_gift(board, lines, remaining, generator)] if remaining else '-'}"


def main() -> None:
    """Read lines and answer them until the input ends or a line says ``quit``."""
    positions: list[str] = []
    lines: list[list[int]] = []
    mover_chooses = False
    while True:
        try:
            word, _, rest = input().partition(" ")
        except EOFError:
            return
        if word == "quarto":
            print("name careful\nready", flush=True)
        elif word == "rules":
            lines = [parse_cells(line) for line in rest.split()[2:]]
            mover_chooses = rest.split()[1] == "mover"
            print("ready", flush=True)
        elif word == "position":
            positions.append(rest)
        elif word == "go":
            for position in positions:  # with a limit of time each turn goes out at once
                print(choose_turn(position, lines, mover_chooses), flush=rest != "")
            print(end="", flush=True)
            positions = []
        elif word == "quit":
            return


if __name__ == "__main__":
    main()
