"""The offline benchmark: datasets of logged games, and what is learned from them, judged by score and exact regret."""
