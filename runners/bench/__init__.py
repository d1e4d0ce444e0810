"""Measuring: speeds, times of turns, and the published studies."""
