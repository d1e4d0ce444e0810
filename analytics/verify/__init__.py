"""Verification of an archive, and removal of files that do not belong to it."""
