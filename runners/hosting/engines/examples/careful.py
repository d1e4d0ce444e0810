"""An engine in plain Python: it wins if it can, else gives a piece that cannot win at once, else any piece.

qarena run engine random a.command='python3 runners/hosting/engines/examples/careful.py' games=1000
"""

DIGITS = "0123456789ABCDEF"
CELLS = [column + row for row in "1234" for column in "abcd"]


def parse_cells(line: str) -> list[int]:
    """Return the numbers of the cells in a word such as a1b1c1d1."""
    return [CELLS.index(line[start : start + 2]) for start in range(0, 8, 2)]


def list_threats(board: dict[int, int], lines: list[list[int]]) -> list[tuple[int, int, int]]:
    """Return the lines that lack one piece: the empty cell, then the bits set in all three pieces, then those clear.

    ``board`` maps occupied cells to their pieces.
    """
    threats = []
    for line in lines:
        empty = [cell for cell in line if cell not in board]
        if len(empty) == 1:
            first, second, third = (board[cell] for cell in line if cell in board)
            threats.append((empty[0], first & second & third, ~(first | second | third) & 15))
    return threats


def list_winning_cells(threats: list[tuple[int, int, int]], piece: int) -> list[int]:
    """Return the cells on which ``piece`` finishes a line: its four pieces then share a bit that is set, or clear."""
    return [cell for cell, set_in_all, clear_in_all in threats if piece & set_in_all or ~piece & clear_in_all]


class SeededRandom:
    """A generator of random numbers that depend only on the seed of a position (xorshift)."""

    def __init__(self, seed: int) -> None:
        self.state = seed or 1

    def choose(self, choices: list[int]) -> int:
        self.state ^= self.state << 13 & 0xFFFFFFFFFFFFFFFF
        self.state ^= self.state >> 7
        self.state ^= self.state << 17 & 0xFFFFFFFFFFFFFFFF
        return choices[self.state % len(choices)]


def choose_gift(board: dict[int, int], lines: list[list[int]], remaining: list[int], generator: SeededRandom) -> int:
    """Choose a piece for the opponent: a safe piece if there is one, or else any remaining piece."""
    threats = list_threats(board, lines)
    safe = [piece for piece in remaining if not list_winning_cells(threats, piece)]
    return generator.choose(safe or remaining)


def choose_turn(position: str, lines: list[list[int]], mover_chooses: bool) -> str:
    """Choose a turn for ``position``, and return it as a line of the protocol, such as ``turn b1 A``.

    ``position`` has the form ``ROWS HAND SEED``. ``mover_chooses`` says that the rules let the mover choose the piece.
    """
    rows, hand, seed = position.split()
    board = {cell: DIGITS.index(digit) for cell, digit in enumerate(rows.replace("/", "")) if digit != "."}
    free = [cell for cell in range(16) if cell not in board]
    used = {*board.values(), DIGITS.find(hand)}
    remaining = [piece for piece in range(16) if piece not in used]
    generator = SeededRandom(int(seed, 16))
    if hand == "-" and not mover_chooses:
        return f"turn - {DIGITS[choose_gift(board, lines, remaining, generator)]}"
    hands = remaining if hand == "-" else [DIGITS.index(hand)]
    threats = list_threats(board, lines)
    winning = [(piece, cell) for piece in hands for cell in sorted(list_winning_cells(threats, piece))]
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
