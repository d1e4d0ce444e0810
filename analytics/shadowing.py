"""Other packages that hide this project's packages on the import path. Imports the standard library only."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

PACKAGES = ("quarto", "agents", "analytics", "conf", "runners")
DISTRIBUTION = "quarto-arena"
INSTALLATION_FOLDERS = ("site-packages", "dist-packages")
ROOT = Path(__file__).resolve().parents[1]  # of the project, or of where it is installed


def check_own_packages_not_hidden() -> None:
    """Raise ``ImportError``, with a message of one line, if another package hides one of this project's packages."""
    if message := describe_hidden_package():
        raise ImportError(message)


def describe_hidden_package() -> str:
    """Describe the first package of this project that another package hides, and the remedy.

    Return an empty string if no package is hidden. The names of the packages are common: with ``PYTHONPATH=.``, Python
    would import a user's own folder ``agents`` in place of the project's. If two distributions in one folder have
    packages of the same name, the distribution that was installed later has replaced files of the other one.
    """
    for name in PACKAGES:
        spec = find_spec(name)
        places = [*(spec.submodule_search_locations or ())] if spec else []
        ours = str(ROOT / name) in places
        if ours and _names_our_distribution(ROOT / name / "__init__.py"):
            continue
        place = (*places, spec.origin if spec and spec.origin else name)[0]
        remedy = "rename that folder, or take it off PYTHONPATH"
        if any(part in place for part in INSTALLATION_FOLDERS):
            from importlib import metadata  # it takes longer than all else here

            owners = {*metadata.packages_distributions().get(name, [])} - {DISTRIBUTION}
            owner = " and ".join(sorted(owners)) or "another distribution"
            remedy = f"it belongs to {owner}, which needs an environment of its own"
        if ours:
            return f"{place} was replaced: {remedy}; then install {DISTRIBUTION} again"
        return f"{place} hides the project's own package '{name}': {remedy}"
    return ""


def _names_our_distribution(module: Path) -> bool:
    """Return whether ``module``, the ``__init__.py`` of a package, contains the name of this project's distribution.

    Every package of this project has the name in that file. Without it, the file is another distribution's.
    """
    return module.is_file() and DISTRIBUTION.encode() in module.read_bytes()
