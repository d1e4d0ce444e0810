"""What was learned: the store of policies, learning again from games, learning curves."""
