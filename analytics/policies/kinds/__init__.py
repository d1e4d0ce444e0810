"""Policies derived from logged games of any agents: each kind is a class here and a yaml in ``conf/kind``."""
