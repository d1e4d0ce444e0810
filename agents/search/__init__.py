"""Search that several players share."""
