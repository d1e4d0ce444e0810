"""The offline benchmark: datasets of logged games, and scores of what is learned from them."""
