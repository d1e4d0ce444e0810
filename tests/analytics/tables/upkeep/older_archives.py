"""The archive in ``format_2``, which a program of format 2 wrote, and its copy in another folder.

It has a run of two searches and a sweep of two runs, all with evaluations, which were called thoughts. It has a policy
that was learned from these, exact values, positions and first plies. The commands are in its records.
"""

from __future__ import annotations

import shutil
from pathlib import Path

FORMAT_2 = Path(__file__).parent / "format_2"
SEARCH_RUN, POLICY_ID = "47861a681ce7", "b306ba975e8b"
FINGERPRINTS = {  # of the games of each run
    SEARCH_RUN: "27459db89d6199de",
    "1c7d9c5df56c": "0e66535d12747409",
    "394a45772216": "30d81dee693cc5e1",
}
UNITS = {SEARCH_RUN: 8, "1c7d9c5df56c": 4, "394a45772216": 4}


def copy_format_2(target: Path) -> Path:
    """Copy the archive to a folder that does not exist, and return the folder."""
    return Path(shutil.copytree(FORMAT_2, target))
