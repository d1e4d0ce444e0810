"""Where tests find the project's own files."""

from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CONF = ROOT / "conf"
SAMPLE = ROOT / "data" / "sample"
ORACLES = ROOT / "tests" / "oracles.json"
