"""What players steered by genes share."""
