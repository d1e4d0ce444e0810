"""Exact play: tablebases (files, building, checking), theory, annotating."""
