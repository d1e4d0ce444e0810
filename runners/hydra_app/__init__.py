"""Hydra applications: what the commands share, run and sweep, error messages, a user's own configuration folder."""
