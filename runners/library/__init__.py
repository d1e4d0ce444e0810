"""What plays, for Python's users: each function composes the configuration of a command and returns a ``Result``.

The words of a call become the words of the command line, and from there on they take the same way: the same keys,
checks and messages, the same run, the same rows.
"""
