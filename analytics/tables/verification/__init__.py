"""Verification of an archive."""
