"""Leagues: a file that lists entries, a run for each two of them, and a site with the results.

A league is a set of matches, and each match is a run of two agents of its own, because a run's id names all its agents.
So a new entry adds its matches, a changed entry plays its matches again, and all other games stay.
"""
