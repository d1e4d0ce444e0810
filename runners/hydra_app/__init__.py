"""Hydra as an application: run, sweep, error messages, a user's own config folder."""
