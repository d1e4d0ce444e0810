"""Configuration groups of quarto-arena for Hydra: agent, rules, experiment. Read as ``pkg://conf``."""
