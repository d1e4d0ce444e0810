"""Training: games are played, logged and learned from until there is a policy."""
