"""The published studies, played again and compared."""
