"""A new agent: written from a template, checked, listed."""
