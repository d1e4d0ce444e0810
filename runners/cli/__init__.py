"""The Typer commands, one file a group; nothing heavy is imported before it is needed."""
