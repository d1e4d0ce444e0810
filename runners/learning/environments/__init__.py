"""Gymnasium environments in which one seat learns against an agent: one game, or many games at once."""
