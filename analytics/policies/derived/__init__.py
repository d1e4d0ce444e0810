"""Policies derived from logged games, whoever played them: each kind is one file here and one yaml in conf/policy."""
