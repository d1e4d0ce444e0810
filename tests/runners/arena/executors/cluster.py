"""A local Ray cluster in a process of its own: ``python cluster.py`` prints its address, and reads commands.

``lose`` kills a working node as a power failure would, and starts another one. The program ends when its input ends.
"""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

MEMORY = 80 << 20  # bytes of the object store of each node


def start() -> subprocess.Popen[str]:
    """Start the process, which prints the cluster's address as its first line."""
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
    """Keep two working nodes beside the head."""
    from ray.cluster_utils import Cluster

    head = {"num_cpus": 0, "object_store_memory": MEMORY, "include_dashboard": False}
    cluster: Any = Cluster(initialize_head=True, head_node_args=head)
    nodes = [cluster.add_node(num_cpus=1, object_store_memory=MEMORY) for _ in range(2)]
    print_line(cluster.address)
    for _ in sys.stdin:
        cluster.remove_node(nodes.pop(0), allow_graceful=False)
        print_line("lost")
        nodes.append(cluster.add_node(num_cpus=1, object_store_memory=MEMORY))
        print_line("started")
    cluster.shutdown()


def print_line(text: str) -> None:
    """Print a line at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
