"""A sequential test of strength: pairs are played until it decides."""
