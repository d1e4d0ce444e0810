"""The Typer commands and what they print; nothing heavy is imported before it is needed."""
