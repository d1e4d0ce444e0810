"""Commands that work on an archive: index, export and import, openings, report."""
