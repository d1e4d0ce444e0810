"""The console script: our packages are checked before anything is imported from them.

A package of another distribution that has one of our names would otherwise end in a traceback about a module that it
does not have.
"""

from __future__ import annotations

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

SHADOWING_FILE = Path(__file__).resolve().parents[2] / "analytics" / "shadowing.py"


def main() -> None:
    """Run ``qarena`` or, if another package hides one of ours, print which one and exit with code 2."""
    if message := describe_hidden_package():
        print(f"error: {message}", file=sys.stderr)  # noqa: T201  (what prints errors is not importable now)
        raise SystemExit(2)
    from runners.cli.main import main

    main()


def describe_hidden_package() -> str:
    """Return a sentence about a package that hides one of ours, with a remedy, or "" if no package is hidden.

    The sentence comes from ``analytics.shadowing``. That module is loaded from its file, because an import would take
    it from whatever package is called ``analytics``.
    """
    spec = spec_from_file_location("shadowing", SHADOWING_FILE)
    if spec is None or spec.loader is None:
        raise ImportError(f"{SHADOWING_FILE} is no module")
    shadowing = module_from_spec(spec)
    spec.loader.exec_module(shadowing)
    return str(shadowing.describe_hidden_package())
