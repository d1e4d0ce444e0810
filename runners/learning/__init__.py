"""Learning: training, policies from logged games, environments, and the offline benchmark."""
