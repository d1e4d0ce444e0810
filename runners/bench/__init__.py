"""Measuring; the compiled yardsticks."""
