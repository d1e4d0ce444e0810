"""Playing, scheduling, sweeping, and the command line."""
