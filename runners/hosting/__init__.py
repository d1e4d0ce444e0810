"""How agents take part: guarded, limited, in subprocesses, as engines, or written for another package."""
