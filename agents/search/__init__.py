"""What several searching players share."""
