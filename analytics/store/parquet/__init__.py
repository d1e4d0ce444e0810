"""A Parquet encoder of our own for tables of small integers and ascending ids, such as ``plies``.

Polars hashes every value for a dictionary and compresses eight bytes of each game id. That takes longer than to play
the games. This encoder knows the ranges of its columns, so it does neither, and its files are smaller. They are
ordinary Parquet. ``docs/design/archive.md`` has the figures.
"""
