"""The published studies, played again."""
