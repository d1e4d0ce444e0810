"""The archive on disk: records, policies, tables of games, and how each file gets there whole."""
