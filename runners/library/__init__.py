"""The functions that play and learn for Python's users; each function runs a command and returns a ``Result``.

The words of a call become words of the command line, so keys, checks, messages, runs and rows are the same.
"""
