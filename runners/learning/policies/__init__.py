"""Policies: deriving one from logged games, deriving one again, origins, comparisons."""
