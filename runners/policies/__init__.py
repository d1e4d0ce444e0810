"""Rebuild, lineage, compare."""
