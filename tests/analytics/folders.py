"""The content of a folder."""

from pathlib import Path


def snapshot(root: Path) -> dict[Path, bytes]:
    """Every file below a folder with its content."""
    return {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
