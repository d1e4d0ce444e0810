"""The archive on disk: records, shards, stored tables, and how each file gets there whole."""
