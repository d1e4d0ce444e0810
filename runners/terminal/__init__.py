"""What a person sees: console, progress, tables."""
