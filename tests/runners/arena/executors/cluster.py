"""A local Ray cluster, in a process of its own: ``python cluster.py`` prints its address, and reads what to do.

``lose`` kills a node that works as a machine that loses its power would, and starts another one. It ends when nothing
more can be read.
"""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

MEMORY = 80 << 20  # bytes of the object store of each node


def start() -> subprocess.Popen[str]:
    """The process; the first line of its output is the address."""
    environment = {**os.environ, "RAY_USAGE_STATS_ENABLED": "0", "RAY_DEDUP_LOGS": "0"}
    return subprocess.Popen(
        [sys.executable, __file__],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )


def main() -> None:
    """Keep two nodes that work, beside the head."""
    from ray.cluster_utils import Cluster

    head = {"num_cpus": 0, "object_store_memory": MEMORY, "include_dashboard": False}
    cluster: Any = Cluster(initialize_head=True, head_node_args=head)
    nodes = [cluster.add_node(num_cpus=1, object_store_memory=MEMORY) for _ in range(2)]
    say(cluster.address)
    for _ in sys.stdin:
        cluster.remove_node(nodes.pop(0), allow_graceful=False)
        say("lost")
        nodes.append(cluster.add_node(num_cpus=1, object_store_memory=MEMORY))
        say("started")
    cluster.shutdown()


def say(text: str) -> None:
    """Print a line at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
