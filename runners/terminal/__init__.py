"""Output to the terminal: console, progress, tables, files."""
