"""Policies: building, rebuilding, importing and comparing them, and where they come from."""
