"""The program of a worker's process: ``python -m runners.executors.worker_process QUESTIONS ANSWERS LIFELINE``.

The arguments are numbers of open pipes. SETUP says which worker to make; each ASKED is a part that it carries out, in
messages ANSWERED and, at its end, READY; STOP asks it to end the part soon. All are JSON. On LIFELINE nothing is ever
written: when its other end closes, because the run has ended in whatever way, the kernel ends this process too.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from queue import SimpleQueue

from runners.contestants.framing import ANSWERED, ASKED, READY, SETUP, STOP, belong_to_run, read_message, write_message
from runners.executors.serving import carry_out


def main(questions: int, replies: int, lifeline: int) -> None:
    """Carry out parts until the questions end."""
    belong_to_run(lifeline)
    stop, writing, waiting = threading.Event(), threading.Lock(), SimpleQueue[tuple[int, bytes]]()

    def listen() -> None:
        """Hear STOP also while a part is carried out."""
        while True:
            try:
                kind, content = read_message(questions)
            except EOFError:
                os._exit(0)
            if kind == STOP:
                stop.set()
                continue
            if kind == ASKED:
                stop.clear()
            waiting.put((kind, content))

    def say(text: str) -> None:
        with writing:
            write_message(replies, ANSWERED, text.encode())

    threading.Thread(target=listen, daemon=True).start()
    setup = ""
    while True:
        kind, content = waiting.get()
        if kind == SETUP:
            setup = content.decode()
            continue
        carry_out(setup, json.loads(content), stop, say)
        with writing:
            write_message(replies, READY, b"")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
