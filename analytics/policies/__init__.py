"""Learned policies: derived from logged games, learned again, imported."""
