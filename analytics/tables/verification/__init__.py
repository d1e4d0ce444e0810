"""Verification of an archive: everything that is wrong with its records, its games and what was derived from them."""
