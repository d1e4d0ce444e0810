"""What players that learn from games share."""
