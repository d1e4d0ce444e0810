"""Many threads may convert values to a type that none has used before."""

from __future__ import annotations

import subprocess
import sys

# In a process of its own: a race in msgspec ends it.
RACING = """
import sys
import threading
from typing import Annotated
import msgspec
from analytics.conversion import known
sys.setswitchinterval(1e-6)
SMALL = Annotated[int, msgspec.Meta(ge=0)]
for number in range(200):
    fields = [(f"f{i}", tuple[SMALL, Annotated[int, msgspec.Meta(le=1000 * number + i)]]) for i in range(8)]
    kind, values = msgspec.defstruct(f"Kind{number}", fields), {f"f{i}": [1, i] for i in range(8)}
    around, barrier, found = msgspec.defstruct(f"Around{number}", [("kind", kind)]), threading.Barrier(4), []
    def convert(turn):
        barrier.wait()
        if turn % 2:
            found.append(msgspec.convert(values, known(kind)))
        else:
            found.append(msgspec.json.decode(msgspec.json.encode({"kind": values}), type=known(around)).kind)
    threads = [threading.Thread(target=convert, args=(turn,)) for turn in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [kind(**{name: tuple(pair) for name, pair in values.items()})] * 4, found
"""


def test_threads_may_be_the_first_to_use_a_type_all_at_once() -> None:
    subprocess.run([sys.executable, "-c", RACING], check=True, timeout=120)
