"""Learning: training, policies from logged games, environments, the offline benchmark."""
