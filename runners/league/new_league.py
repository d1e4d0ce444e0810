"""``qarena league new``: a folder with a commented ``league.yaml``, and with an agent of its own as an example."""

from __future__ import annotations

from pathlib import Path

from quarto.errors import FailureError, RequestError
from runners.authoring.new_agent import create_and_describe_agent_files
from runners.config.yaml_options import use_config_dir
from runners.league import templates
from runners.league.league_file import ENTRIES_FOLDER, LEAGUE_FILE

SAMPLE_AGENT = "sample_player"  # an agent of the league's own, which is an example
TEMPLATE = Path(str(templates.__file__)).with_name(LEAGUE_FILE)


def create_and_describe_league_files(folder: Path) -> dict[Path, str]:
    """Write the files of a new league into ``folder``, which must not exist or be empty.

    Returns a description of each file, keyed by its path. Raises ``RequestError`` if the folder has files already, and
    ``FailureError`` if a file cannot be written.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise RequestError(f"{folder} exists already and is not empty: name a new folder")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / LEAGUE_FILE).write_text(TEMPLATE.read_text(encoding="utf-8"), encoding="utf-8")
    except OSError as error:
        raise FailureError(f"{error.filename or folder} cannot be written: {error.strerror}") from error
    with use_config_dir(None):
        agent_files = create_and_describe_agent_files(SAMPLE_AGENT, "choose", folder / ENTRIES_FOLDER / SAMPLE_AGENT)
    return {folder / LEAGUE_FILE: "who plays, by which rules, how often, within which limits", **agent_files}
