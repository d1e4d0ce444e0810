"""Learned policies: their store, learning again from games, learning curves."""
