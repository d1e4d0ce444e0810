"""Checking an agent before it plays for the archive."""
