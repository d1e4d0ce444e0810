"""Training: trainers play games, learn from them and store policies; policies are also derived from logged games."""
