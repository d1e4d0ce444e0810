"""Hydra's configuration groups: agent, rules, experiment. Read as ``pkg://conf``."""
