"""Environments in which one seat learns against an agent: Gymnasium's, one game or many at once."""
