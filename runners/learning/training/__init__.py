"""Training: trainers play games, learn from them, and store policies; deriving policies from logged games."""
